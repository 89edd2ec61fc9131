//! The one task of an engine: it makes the calls that the client wants made, and tells it what they have come to and what time
//! it is.
//!
//! It decides nothing. It must never wake a waiter, log, or call a node while it holds a lock: a waker may do anything, such as
//! drop a lease.

use std::{
    collections::VecDeque,
    future::poll_fn,
    iter,
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use futures::FutureExt;
use tokio::sync::Notify;

use super::{
    Engine, NodeSlot,
    acquire::Log,
    calls::{Calls, Ended},
};
use crate::{
    lock::Lock,
    node::NodeError,
    protocol::{
        Answer, CallId, Command, Moment, Place, QueueId, Sending, Timestamp, Transmit, Wakeup,
        turn_of,
    },
    runtime::Task,
    shield::shielded,
};

/// So many rounds are begun at once, and so many calls taken out of the client while its lock is held.
const AT_ONCE: usize = 64;

/// So often the task goes on with what has come meanwhile, before it looks at everything else and lets others of its thread run.
const MOST_PASSES: usize = 32;

/// How the task is reached.
#[derive(Default)]
pub(super) struct Driver {
    /// Wakes it.
    wake: Notify,
    /// Keeps the engine until it has looked what there is to do.
    pub(super) kept: Lock<Option<Arc<Engine>>>,
}

impl Engine {
    /// Wakes or starts the task.
    pub(super) fn wake(self: &Arc<Self>, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Silent => {}
            Wakeup::WakeFrom(at) => {
                let mut is_early = false;
                // It is code of the user's, which may panic: then whoever sleeps looks.
                shielded(|| is_early = self.now() < at);
                if !is_early {
                    self.driver.wake.notify_one();
                }
            }
            Wakeup::Wake => self.call_driver(),
            Wakeup::Start => {
                self.keep_for_driver();
                self.begin_shift(false);
            }
        }
    }

    fn call_driver(self: &Arc<Self>) {
        self.keep_for_driver();
        self.driver.wake.notify_one();
        if !self.is_served() {
            // Nobody takes it any more.
            let kept = self.driver.kept.lock().take();
            drop(kept);
        }
    }

    /// What is to be sent must be, though nobody else has the engine any more.
    pub(super) fn keep_for_driver(self: &Arc<Self>) {
        let before = self.driver.kept.lock().replace(Arc::clone(self));
        drop(before);
    }

    /// It has ended with the engine.
    pub(super) fn end_driver(&self) {
        self.driver.wake.notify_one();
    }

    /// The time, and what is measured by then.
    pub(super) fn moment(&self) -> Moment<'static> {
        Moment {
            now: self.now(),
            steady: self.steady(),
            turn: turn_of(self.unloaded.round_trip()),
            round_trip: self.round_trip.round_trip(),
            clocks: &[],
        }
    }

    /// Whether what is under way has ended, told to whoever closes.
    pub(super) fn tell_settled(&self) {
        if self.closed.load(Ordering::Acquire) && self.client.lock().under_way() == 0 {
            self.active.ended.notify_waiters();
        }
    }

    /// Takes in what calls have come to.
    fn take_in(
        self: &Arc<Self>,
        ended: &mut Vec<Ended>,
        answers: &mut Vec<(CallId, Answer<NodeError>)>,
        at: Moment<'_>,
    ) {
        let clocks: Vec<Option<u64>> = if ended.iter().any(Ended::is_denied) {
            let clock = |slot: &NodeSlot| slot.node.clock().and_then(|it| it.at(at.steady));
            self.nodes.iter().map(clock).collect()
        } else {
            Vec::new()
        };
        let at = Moment { clocks: &clocks, ..at };
        answers.extend(ended.drain(..).map(|ended| ended.judge(self, at.now)));
        let mut log = Log::default();
        self.client.lock().handle_answers(answers.drain(..), &at, &mut |request, told| {
            log.note(request, told, at.now);
        });
        log.tell(self, at.now);
        self.carry_out();
    }

    /// Goes on with everything whose time has come.
    fn handle_due(self: &Arc<Self>, waiting: Vec<(QueueId, Place)>, at: &Moment<'_>) {
        self.carry_out();
        for (queue, place) in waiting {
            shielded(|| self.handle_waiter_due(queue, place, at.now));
        }
        self.carry_out();
    }
}

/// One that it is in.
struct Sleep {
    until: Timestamp,
    /// Its whole time. Its timer may know nothing of a jump of the clock, and end at any time within that.
    whole: Duration,
    timer: Task,
}

impl Sleep {
    /// Whether it ends early enough for this, however the clock may have jumped.
    fn serves(&self, next: Timestamp, now: Timestamp) -> bool {
        next >= self.until && next.saturating_since(now) >= self.whole
    }
}

/// What it has at hand.
struct Hands {
    calls: Calls,
    /// Calls that are to be made now.
    wanted: VecDeque<Transmit>,
    /// Calls that have ended, and have not been taken in.
    ended: Vec<Ended>,
    /// What they have come to.
    answers: Vec<(CallId, Answer<NodeError>)>,
    /// Something may be due.
    is_due: bool,
    sleep: Option<Sleep>,
    /// While there is something under way.
    engine: Option<Arc<Engine>>,
    weak: Weak<Engine>,
    /// The last that a clock has shown.
    last: Moment<'static>,
}

impl Drop for Hands {
    fn drop(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        ended.append(&mut self.calls.abandon());
        let engine = self.engine.take().or_else(|| self.weak.upgrade());
        let Some(engine) = engine else { return };
        // In a process that was forked no lock may be waited for.
        if engine.is_served() {
            engine.client.lock().put_back(std::mem::take(&mut self.wanted).into_iter());
            // Also while a panic unwinds, where a second one would abort: the runtime's clock may be what has panicked.
            engine.keep_for_driver();
            shielded(|| self.last = engine.moment());
            shielded(|| engine.take_in(&mut ended, &mut self.answers, self.last));
        }
    }
}

/// Looks after an engine for as long as that lives. It does not keep the engine alive, but for what is under way.
pub(super) async fn attend(engine: &Weak<Engine>, driver: &Driver) {
    let known = engine.upgrade().map(|engine| (Arc::clone(&engine.fleet), engine.process));
    let Some((fleet, process)) = known else { return };
    let mut hands = Hands {
        calls: Calls::default(),
        wanted: VecDeque::new(),
        ended: Vec::new(),
        answers: Vec::new(),
        is_due: true,
        sleep: None,
        engine: None,
        weak: Weak::clone(engine),
        last: Moment::default(),
    };
    let mut woken = pin!(driver.wake.notified());
    let mut changed = pin!(fleet.changed.notified());
    poll_fn(|cx| {
        // In a process that was forked nothing goes on, and whoever has a lock may have it for ever.
        if !process.is_here() {
            return Poll::Pending;
        }
        // Registered before anything is looked at, so that nothing that comes in between is missed.
        let mut is_woken = false;
        while woken.as_mut().poll(cx).is_ready() {
            woken.set(driver.wake.notified());
            is_woken = true;
        }
        let kept = driver.kept.lock().take();
        let Some(engine) = hands.engine.take().or(kept).or_else(|| engine.upgrade()) else {
            return Poll::Ready(());
        };
        // While a panic unwinds, too, this keeps it.
        hands.engine = Some(Arc::clone(&engine));
        let mut has_changed = false;
        if engine.client.lock().has_unconfirmed() {
            while changed.as_mut().poll(cx).is_ready() {
                changed.set(fleet.changed.notified());
                has_changed = true;
            }
        }
        let polled = hands.poll(&engine, cx, (is_woken, has_changed));
        engine.tell_settled();
        polled
    })
    .await;
}

impl Hands {
    /// Goes on until there is nothing to do for now, or others are to be let run.
    fn poll(
        &mut self,
        engine: &Arc<Engine>,
        cx: &mut Context<'_>,
        (mut is_woken, mut has_changed): (bool, bool),
    ) -> Poll<()> {
        let (mut has_rung, mut has_called, mut passes) = (false, false, 0);
        loop {
            passes += 1;
            // However much comes meanwhile, all that there is to look at is looked at in the last pass.
            let is_last = passes == MOST_PASSES;
            has_called |= self.send(engine, cx);
            self.calls.poll_ended(cx, &mut self.ended);
            if !self.ended.is_empty() {
                // Read before anything is taken out: it is code of the user's, which may panic.
                self.last = engine.moment();
                engine.take_in(&mut self.ended, &mut self.answers, self.last);
                if !is_last {
                    continue;
                }
            }
            if let Some(sleep) = &mut self.sleep
                && sleep.timer.poll_unpin(cx).is_ready()
            {
                (self.sleep, self.is_due) = (None, true);
                // A timer of the user's may ring too early, and again: others are let go on in between.
                if std::mem::replace(&mut has_rung, true) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if std::mem::take(&mut has_changed) {
                self.last = engine.moment();
                engine.decide(|client| client.handle_change(&self.last));
                if !is_last {
                    continue;
                }
            }
            if self.is_due || is_last {
                self.handle_timeout(engine, cx);
                if !is_last {
                    continue;
                }
            }
            if is_last {
                self.engine = Some(Arc::clone(engine));
                // It may have been woken for what is earlier.
                self.sleep = None;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let now = engine.now();
            // Of what was known when it began, the sleep that it is in ends early enough.
            let sleeps = self.sleep.is_some();
            let (next, is_under_way) = {
                let mut client = engine.client.lock();
                if client.has_transmits() {
                    continue;
                }
                let rests = sleeps && !is_woken && client.rests();
                let next = if rests { None } else { client.next_look(now) };
                (next, client.under_way() > 0)
            };
            is_woken = false;
            self.engine = (is_under_way || !self.calls.is_empty()).then(|| Arc::clone(engine));
            let limit = (has_called || !sleeps).then(|| self.calls.next_limit()).flatten();
            has_called = false;
            let Some(next) = next.into_iter().chain(limit).min() else { return Poll::Pending };
            if next <= now {
                // What is known of limits by now is behind it, and looked for anew.
                (self.sleep, self.is_due) = (None, true);
            } else if self.sleep.as_ref().is_none_or(|sleep| !sleep.serves(next, now)) {
                let (whole, timer) = (next.saturating_since(now), engine.runtime.sleep_until(next));
                self.sleep = Some(Sleep { until: next, whole, timer });
            } else {
                return Poll::Pending;
            }
        }
    }

    /// Sees to everything whose time has come. What is to be sent for that is, before anything of it is carried out: that may be
    /// code of a user, and an extension must not wait for it.
    fn handle_timeout(&mut self, engine: &Arc<Engine>, cx: &mut Context<'_>) {
        self.last = engine.moment();
        self.is_due = false;
        let waiting = engine.client.lock().handle_timeout(&self.last);
        // Where it panics, the rest is sent in the next pass.
        shielded(|| {
            self.make_calls(engine, cx);
        });
        engine.handle_due(waiting, &self.last);
        let longer = |call| engine.client.lock().waits_longer(call);
        self.calls.end_late(self.last.now, engine.config.node_timeout, longer);
    }

    /// Begins rounds that are to begin, and makes calls that are wanted. Says whether there were calls.
    fn send(&mut self, engine: &Arc<Engine>, cx: &mut Context<'_>) -> bool {
        for _ in 0..AT_ONCE {
            let Some(ask) = ({ engine.client.lock().poll_begin() }) else { break };
            shielded(|| engine.begin_round(ask));
        }
        self.make_calls(engine, cx)
    }

    /// Makes and sends the calls that are wanted by now, in their order. What comes meanwhile is sent too while no more calls are
    /// made than these could be. Says whether there were any.
    fn make_calls(&mut self, engine: &Arc<Engine>, cx: &mut Context<'_>) -> bool {
        let mut left = engine.client.lock().transmits();
        let mut has_called = false;
        while left > 0 || !self.wanted.is_empty() {
            // Read before any is taken out: it is code of the user's, which may panic.
            let (now, steady) = (engine.now(), engine.steady());
            let (before, most) = (self.wanted.len(), left.min(AT_ONCE));
            {
                let mut client = engine.client.lock();
                let wanted = iter::from_fn(|| client.poll_transmit()).take(most);
                self.wanted.extend(wanted);
            }
            let taken = self.wanted.len().saturating_sub(before);
            left = if taken < most { 0 } else { left.saturating_sub(taken) };
            while let Some(next) = self.wanted.front() {
                let (vote_guard, blocked) = match &next.sending {
                    // A round has asked whether it can be reached.
                    Sending::One(Command::Acquire { .. }) => engine.ask_vote(next.node, steady),
                    Sending::One(Command::Confirm { .. }) => {
                        (Some(engine.vote_guard(next.node)), None)
                    }
                    Sending::One(_) => (None, None),
                    Sending::Several(_) => {
                        let (vote_guard, blocked) = engine.ask_vote(next.node, steady);
                        let slot = engine.slot(next.node);
                        let is_away = slot.and_then(|slot| slot.node.reachable().err());
                        (vote_guard, is_away.or(blocked))
                    }
                };
                if let Some(transmit) = self.wanted.pop_front() {
                    self.calls.add(engine, transmit, vote_guard, blocked, now);
                    has_called = true;
                }
            }
            // Before the clock is asked again: their time runs, and what has been sent when it panics is not overtaken.
            self.calls.poll_ended(cx, &mut self.ended);
        }
        has_called
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "driver_test.rs"]
mod tests;

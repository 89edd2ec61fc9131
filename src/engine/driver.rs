//! The driver, the one task of an engine: it makes the calls that the client wants, and tells it their results and the
//! time.
//!
//! It decides nothing. It must never wake a waiter, log, or call a node while it holds a lock: a waker may do anything,
//! such as drop a lease.

use std::{
    collections::VecDeque,
    future::poll_fn,
    iter,
    pin::pin,
    sync::{Arc, Weak},
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

/// The most rounds begun at once, and the most calls taken out of the client under one lock.
const AT_ONCE: usize = 64;

/// How many passes the driver makes over new work before it looks at everything else and yields its thread.
const MOST_PASSES: usize = 32;

/// How to reach the driver's task.
#[derive(Default)]
pub(super) struct Driver {
    /// Wakes the task.
    wake: Notify,
    /// Keeps the engine alive until the task has looked for work.
    pub(super) kept: Lock<Option<Arc<Engine>>>,
}

impl Engine {
    /// Wakes or starts the task.
    pub(super) fn wake(self: &Arc<Self>, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Silent => {}
            Wakeup::WakeFrom(at) => {
                let mut is_early = false;
                // The clock is user code and may panic: then the task is woken.
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
            // No task will take it.
            let kept = self.driver.kept.lock().take();
            drop(kept);
        }
    }

    /// Keeps the engine alive for commands to be sent, even if nothing else does.
    pub(super) fn keep_for_driver(self: &Arc<Self>) {
        let before = self.driver.kept.lock().replace(Arc::clone(self));
        drop(before);
    }

    /// Wakes the task, which ends with the engine.
    pub(super) fn end_driver(&self) {
        self.driver.wake.notify_one();
    }

    /// The time, and the measurements so far.
    pub(super) fn moment(&self) -> Moment<'static> {
        Moment {
            now: self.now(),
            steady: self.steady(),
            turn: turn_of(self.unloaded.round_trip()),
            round_trip: self.round_trip.round_trip(),
            clocks: &[],
        }
    }

    /// Takes in the results of calls.
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

    /// Carries out events, and handles waiters whose time has come.
    fn handle_due(self: &Arc<Self>, waiting: Vec<(QueueId, Place)>, at: &Moment<'_>) {
        self.carry_out();
        for (queue, place) in waiting {
            shielded(|| self.handle_waiter_due(queue, place, at.now));
        }
        self.carry_out();
    }
}

/// A sleep of the driver.
struct Sleep {
    until: Timestamp,
    /// Its whole time. Its timer may miss a jump of the clock, and then ends at any time within that.
    whole: Duration,
    timer: Task,
}

impl Sleep {
    /// Whether it ends early enough for `next`, however the clock may have jumped.
    fn serves(&self, next: Timestamp, now: Timestamp) -> bool {
        next >= self.until && next.saturating_since(now) >= self.whole
    }
}

/// The driver's state.
struct Hands {
    calls: Calls,
    /// Calls that are to be made now.
    wanted: VecDeque<Transmit>,
    /// Calls that have ended, and have not been taken in.
    ended: Vec<Ended>,
    /// Their results.
    answers: Vec<(CallId, Answer<NodeError>)>,
    /// Something may be due.
    is_due: bool,
    sleep: Option<Sleep>,
    /// Kept while work is under way.
    engine: Option<Arc<Engine>>,
    weak: Weak<Engine>,
    /// The last reading of the clock.
    last: Moment<'static>,
}

impl Drop for Hands {
    fn drop(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        ended.append(&mut self.calls.abandon());
        let engine = self.engine.take().or_else(|| self.weak.upgrade());
        let Some(engine) = engine else { return };
        // In a forked child no lock may be waited for.
        if engine.is_served() {
            engine.client.lock().put_back(std::mem::take(&mut self.wanted).into_iter());
            // This may run while a panic unwinds, where a second one would abort: the clock may be what panicked.
            engine.keep_for_driver();
            shielded(|| self.last = engine.moment());
            shielded(|| engine.take_in(&mut ended, &mut self.answers, self.last));
        }
    }
}

/// Drives an engine as long as it lives. It keeps the engine alive only while work is under way.
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
        // In a forked child nothing goes on, and a lock may be held for ever.
        if !process.is_here() {
            return Poll::Pending;
        }
        // Registered before looking, so that nothing in between is missed.
        let mut is_woken = false;
        while woken.as_mut().poll(cx).is_ready() {
            woken.set(driver.wake.notified());
            is_woken = true;
        }
        let kept = driver.kept.lock().take();
        let Some(engine) = hands.engine.take().or(kept).or_else(|| engine.upgrade()) else {
            return Poll::Ready(());
        };
        // This keeps the engine also while a panic unwinds.
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
    /// Goes on until there is nothing to do for now, or other tasks are to run.
    fn poll(
        &mut self,
        engine: &Arc<Engine>,
        cx: &mut Context<'_>,
        (mut is_woken, mut has_changed): (bool, bool),
    ) -> Poll<()> {
        let (mut has_rung, mut has_called, mut passes) = (false, false, 0);
        loop {
            passes += 1;
            // The last pass looks at everything, however much comes meanwhile.
            let is_last = passes == MOST_PASSES;
            has_called |= self.send(engine, cx);
            self.calls.poll_ended(cx, &mut self.ended);
            if !self.ended.is_empty() {
                // Read before anything is taken out: the clock is user code and may panic.
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
                // A user's timer may ring too early, and again: other tasks run in between.
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
                // It may have been woken for something earlier.
                self.sleep = None;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let now = engine.now();
            // The current sleep ends early enough for all that was known when it began.
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
                // The known limits have passed, and are looked for anew.
                (self.sleep, self.is_due) = (None, true);
            } else if self.sleep.as_ref().is_none_or(|sleep| !sleep.serves(next, now)) {
                let (whole, timer) = (next.saturating_since(now), engine.runtime.sleep_until(next));
                self.sleep = Some(Sleep { until: next, whole, timer });
            } else {
                return Poll::Pending;
            }
        }
    }

    /// Sees to everything that is due. The driver sends due commands before it carries out events: those may run user
    /// code, and an extension must not wait for it.
    fn handle_timeout(&mut self, engine: &Arc<Engine>, cx: &mut Context<'_>) {
        self.last = engine.moment();
        self.is_due = false;
        let waiting = engine.client.lock().handle_timeout(&self.last);
        // If this panics, the next pass sends the rest.
        shielded(|| {
            self.make_calls(engine, cx);
        });
        engine.handle_due(waiting, &self.last);
        let longer = |call| engine.client.lock().waits_longer(call);
        self.calls.end_late(self.last.now, engine.config.node_timeout, longer);
    }

    /// Begins rounds and makes the calls that are wanted. Returns whether there were calls.
    fn send(&mut self, engine: &Arc<Engine>, cx: &mut Context<'_>) -> bool {
        for _ in 0..AT_ONCE {
            let Some(ask) = ({ engine.client.lock().poll_begin() }) else { break };
            shielded(|| engine.begin_round(ask));
        }
        self.make_calls(engine, cx)
    }

    /// Makes and sends the calls wanted by now, in their order. Calls added meanwhile are sent too, up to the most that
    /// these could be. Returns whether there were any.
    fn make_calls(&mut self, engine: &Arc<Engine>, cx: &mut Context<'_>) -> bool {
        let mut left = engine.client.lock().transmits();
        let mut has_called = false;
        while left > 0 || !self.wanted.is_empty() {
            // Read before any is taken out: the clock is user code and may panic.
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
                    // The round has checked whether the node is reachable.
                    Sending::One(command) if command.is_asking() => {
                        engine.ask_vote(next.node, steady)
                    }
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
            // Polled before the clock is read again: their time runs, and if the clock panics, nothing overtakes the
            // calls made.
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

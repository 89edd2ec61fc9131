//! Keeps all held leases of a `Redlock`: one queue of times, one task, and renewals that travel together. Those who wait in
//! line have their deadlines in the same queue.
//!
//! It carries out what each lease's lifecycle and the timers decide. It must never wake a waiter, log or spawn while it
//! holds a lock: a waker may do anything, such as drop the lease.

mod said;

use std::{
    iter::Peekable,
    sync::{Arc, Weak},
    vec,
};

use futures::future::select;
use tokio::sync::{Notify, oneshot};

use self::said::{Said, counted};
use super::{
    Engine, Grant, after_panic,
    fanout::{Fanout, Progress},
    resources::ResourceSlot,
    restore::LostKey,
};
use crate::{
    protocol::{
        Command, DueNow, ExtendOutcome, ExtendSpec, LeaseAction, NodeId, RoundLoss, Tally,
        TimerQueue, Timestamp, Verdict, Wakeup,
    },
    shield::{persist, shielded},
    telemetry::metrics,
};

impl Engine {
    /// Wakes or starts the task that sees to the leases.
    pub(super) fn wake(self: &Arc<Self>, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Silent => {}
            Wakeup::WakeFrom(at) => {
                let mut is_early = false;
                // It is code of the user's, which may panic: then whoever sleeps looks.
                shielded(|| is_early = self.now() < at);
                if !is_early {
                    self.due_sooner.notify_one();
                }
            }
            Wakeup::Wake => self.due_sooner.notify_one(),
            Wakeup::Start => {
                self.begin_shift(false);
            }
        }
    }

    fn begin_shift(self: &Arc<Self>, is_second: bool) {
        let shift = Shift { engine: Arc::downgrade(self), is_second, ended: false };
        let wake = Arc::clone(&self.due_sooner);
        self.spawn_uncounted(async move {
            let engine = Weak::clone(&shift.engine);
            persist(|| attend(&engine, &wake), || after_panic(&engine)).await;
            shift.end();
        });
    }

    /// Sees to everything that is due, and says when to look again.
    fn keep_all(self: &Arc<Self>) -> Option<Timestamp> {
        let now = self.now();
        let (extend, news, kept, waiting) = {
            let mut client = self.client.lock();
            let DueNow { extend, tell, give_back, waiting } = client.handle_timeout(now);
            // One that its holder has dropped just now is nobody's.
            let grant = |id| client.data(id)?.grant.upgrade();
            let extend: Vec<_> = extend.into_iter().filter_map(grant).collect();
            let tell: Vec<_> =
                tell.into_iter().filter_map(|(id, action)| Some((grant(id)?, action))).collect();
            let kept: Vec<_> = give_back
                .into_iter()
                .filter_map(|(id, extend)| Some((grant(id)?, extend)))
                .collect();
            (extend, tell, kept, waiting)
        };
        self.renew(extend);
        tell_all(news);
        // The rest asks the runtime, which is code of the user's and may panic: each by itself, so that what is due beside
        // it is seen to.
        let mut taken = Vec::new();
        for (grant, extend) in kept {
            shielded(|| grant.give_back(self));
            // It may have been taken just now, and is renewed as it would have been.
            shielded(|| grant.schedule(self));
            if extend && !grant.is_given_back() {
                taken.push(grant);
            }
        }
        self.renew(taken);
        for (queue, place) in waiting {
            shielded(|| self.handle_waiter_due(queue, place, now));
        }
        self.carry_out();
        self.client.lock().next_look(now)
    }

    /// Extends leases that are due, as many together as one message takes.
    fn renew(self: &Arc<Self>, due: Vec<Arc<Grant>>) {
        let mut due = due.into_iter().peekable();
        while due.peek().is_some() {
            let renewal = Renewal::new(self, batch(&mut due));
            // It is not counted as under way: closing need not wait for it, since the leases are still held.
            self.spawn_uncounted(renewal.extend(None));
        }
    }

    /// Extends one lease beside whatever its holder does, which lets readers in: those of this process do not ask before it.
    pub(super) fn extend_beside(self: &Arc<Self>, grant: &Arc<Grant>, slot: &Arc<ResourceSlot>) {
        let extension = Renewal::new(self, vec![Arc::clone(grant)]).extend(None);
        self.spawn_to_let_in(slot, Box::pin(extension));
    }

    /// Extends one lease for its holder, on the runtime, and waits until it is known how that ended. `None`
    /// says that the runtime has ended, and so that nothing was extended.
    pub(crate) async fn extend_now(self: &Arc<Self>, grant: &Arc<Grant>) -> Option<ExtendOutcome> {
        let (done, ended) = oneshot::channel();
        let renewal = Renewal::new(self, vec![Arc::clone(grant)]);
        self.spawn_uncounted(renewal.extend(Some(done)));
        ended.await.ok()
    }
}

/// The next ones that are extended together: as many as have a message's keys between them, and one at least. A node
/// answers nobody else meanwhile, and a lease may have many keys.
fn batch(renewals: &mut Peekable<vec::IntoIter<Arc<Grant>>>) -> Vec<Arc<Grant>> {
    let (mut batch, mut left) = (Vec::new(), TimerQueue::<u32>::batch());
    let fits = |grant: &Arc<Grant>, left| grant.target().len() <= left;
    while let Some(grant) = renewals.next_if(|grant| batch.is_empty() || fits(grant, left)) {
        left = left.saturating_sub(grant.target().len());
        batch.push(grant);
    }
    batch
}

/// Leases that are extended together. Each of them learns how that ended, also when the task never begins, or comes to
/// a bad end: then it is in doubt, and tried again.
struct Renewal {
    engine: Arc<Engine>,
    batch: Vec<Arc<Grant>>,
    told: Vec<Told>,
}

/// Of one lease of a renewal.
#[derive(Clone, Copy)]
struct Told {
    told: bool,
    /// It was a reader's that had it alone before, when this began.
    lowered: bool,
}

impl Renewal {
    fn new(engine: &Arc<Engine>, batch: Vec<Arc<Grant>>) -> Self {
        let told = batch.iter().map(|grant| Told { told: false, lowered: grant.is_lowered() });
        let told = told.collect();
        Self { engine: Arc::clone(engine), batch, told }
    }

    /// Extends them with one command to each node, and tells each how it ended. Somebody waits for the end of the
    /// first that is known, which only a batch of one is for.
    async fn extend(mut self, mut done: Option<oneshot::Sender<ExtendOutcome>>) {
        let Self { engine, batch, told } = &mut self;
        let started = engine.now();
        let tally = |grant: &Arc<Grant>| Tally::extend(engine.quorum, extension(grant), started);
        let mut tallies: Vec<Tally> = batch.iter().map(tally).collect();
        let mut commands: Vec<Vec<Command>> =
            engine.nodes.iter().map(|_| Vec::with_capacity(batch.len())).collect();
        for tally in &mut tallies {
            while let Some((node, command)) = tally.poll_command() {
                if let Some(commands) = commands.get_mut(node.index()) {
                    commands.push(command);
                }
            }
        }
        let mut calls = Fanout::begun_at(engine, started);
        for (index, (slot, commands)) in engine.nodes.iter().zip(commands).enumerate() {
            let node = NodeId::new(index);
            match slot.node.reachable().and_then(|()| engine.may_vote(node)) {
                Ok(()) => calls.add_vote(engine, node, slot.node.call_many(commands)),
                // An answer like any other, which is there at the first poll.
                Err(error) => calls.add(node, error),
            }
        }
        let mut said = Said::of(engine.nodes.len());
        loop {
            let progress = calls.progress(engine).await;
            let now = engine.now();
            match progress {
                Progress::Done => break,
                Progress::TimedOut => {
                    said.is_late = true;
                    tallies.iter_mut().for_each(|tally| tally.handle_timeout(now))
                }
                Progress::Answered((node, Ok(replies))) => {
                    let replies = counted(engine, node, replies);
                    for (lease, (tally, reply)) in tallies.iter_mut().zip(replies).enumerate() {
                        said.handle_reply(node, lease, &reply);
                        tally.handle_reply(node, reply.map_err(|error| error.failure()), now);
                    }
                }
                Progress::Answered((node, Err(error))) => {
                    let failure = error.failure();
                    said.handle_failure(node, error);
                    for tally in &mut tallies {
                        tally.handle_reply(node, Err(failure), now);
                    }
                }
            }
            let (mut news, mut ended) = (Vec::new(), None);
            for (lease, ((grant, tally), told)) in
                batch.iter().zip(&tallies).zip(told.iter_mut()).enumerate()
            {
                if !told.told && tally.verdict() != Verdict::Pending {
                    told.told = true;
                    let outcome = grant.judged(outcome(tally), told.lowered);
                    metrics::renewed(outcome);
                    let failed = tally.verdict() != Verdict::Won;
                    let nodes = failed.then(|| engine.reports(&said.to(lease)));
                    if let Some(action) = grant.extended(engine, outcome, nodes, now) {
                        news.push((Arc::clone(grant), action));
                    }
                    if told.lowered {
                        grant.handle_followed(engine, outcome);
                    }
                    ended = Some(outcome);
                }
            }
            tell_all(news);
            if let Some(outcome) = ended
                && let Some(done) = done.take()
            {
                // The holder may have gone away meanwhile.
                let _ = done.send(outcome);
            }
        }
        // Only when all have answered: before a quorum has confirmed it, a key that is gone is not set again.
        engine.restore(said.gone().filter_map(|(lease, node)| {
            let (grant, tally) = (batch.get(lease)?, tallies.get(lease)?);
            let (grant, key_life) = (Arc::clone(grant), grant.key_life());
            let confirmed = tally.verdict() == Verdict::Won;
            confirmed.then(|| LostKey { grant, node, key_life, until: tally.deadline() })
        }));
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let Self { engine, batch, told } = self;
        // No lock may be waited for then: its holder may be a thread of the parent's.
        if !engine.is_served() {
            return;
        }
        for (grant, _) in batch.iter().zip(told).filter(|(_, told)| !told.told) {
            // Also while a panic unwinds, where a second one would abort: the runtime's clock may be what has panicked.
            metrics::renewed(ExtendOutcome::InDoubt);
            shielded(|| {
                let due = grant.extended(engine, ExtendOutcome::InDoubt, None, engine.now());
                due.into_iter().for_each(|due| grant.tell(due));
            });
        }
    }
}

fn extension(grant: &Grant) -> ExtendSpec {
    let (ttl, drift) = grant.ttl_and_drift();
    let mut spec = ExtendSpec::new(grant.target().clone(), grant.owner(), ttl);
    spec.drift = drift;
    spec.lock_delay = grant.lock_delay();
    spec.fenced = grant.is_fenced();
    spec
}

fn outcome(tally: &Tally) -> ExtendOutcome {
    match (tally.verdict(), tally.loss()) {
        (Verdict::Won, _) => ExtendOutcome::Extended(tally.deadline()),
        (_, Some(RoundLoss::Contended)) => ExtendOutcome::Lost,
        _ => ExtendOutcome::InDoubt,
    }
}

/// Tells the holders. Every lease has its place among the timers again by now.
fn tell_all(news: Vec<(Arc<Grant>, LeaseAction)>) {
    for (grant, due) in news {
        grant.tell(due);
    }
}

/// The time of the renewals' task at work. When it ends in any other way than by having nothing left to do, as when the
/// runtime drops the task, another one is started, once. Where that fails too, whoever waits in line learns that nobody
/// is left who could wake them, and the next lease starts another one.
struct Shift {
    engine: Weak<Engine>,
    is_second: bool,
    ended: bool,
}

impl Shift {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        let Some(engine) = self.engine.upgrade().filter(|_| !self.ended) else { return };
        if self.is_second || !engine.is_served() {
            if let Some(mut client) = engine.client.lock_here() {
                client.abandon_timers();
            }
            engine.abandon_lines();
            if engine.is_served() {
                shielded(|| engine.carry_out());
            }
        } else {
            engine.begin_shift(true);
        }
    }
}

/// Looks after the leases of an engine while there are any. It does not keep the engine alive.
async fn attend(engine: &Weak<Engine>, wake: &Notify) {
    loop {
        let sleep = {
            let Some(engine) = engine.upgrade() else { return };
            let Some(next) = engine.keep_all() else { return };
            engine.runtime.sleep_until(next)
        };
        select(std::pin::pin!(wake.notified()), sleep).await;
    }
}

#[cfg(test)]
#[path = "renewals_test.rs"]
mod tests;

//! Keeps all held leases of a `Redlock`: one queue of times, one task, and renewals that travel together.
//!
//! It decides which renewals share a message. What is due when, each lease's lifecycle decides. It must never
//! wake a waiter, log or spawn while it holds a lock: a waker may do anything, such as drop the lease.

use std::{
    iter::repeat_with,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::select;
use tokio::sync::{Notify, oneshot};

use super::{
    Engine, TimerKey, Wakeup, after_panic,
    fanout::{Fanout, Progress},
    timers::{BATCH, TimerQueue},
};
use crate::{
    engine::Grant,
    node::NodeError,
    protocol::{
        Command, ExtendOutcome, LeaseAction, NodeId, Reply, Round, RoundLoss, RoundSpec, Timestamp,
        Verdict,
    },
    shield::{persist, shielded},
};

/// The leases that are held, by the time at which each wants to be looked at.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    queue: TimerQueue,
    /// Wakes the task, because something is due earlier than what it sleeps for.
    wake: Arc<Notify>,
}

impl Engine {
    /// Looks at a lease at `at`, and no longer when the key `old` says. It may be called under the lock of
    /// the lease; the alarm is for [`wake`](Engine::wake), which may not.
    pub(crate) fn schedule(
        &self,
        grant: &Arc<Grant>,
        old: Option<TimerKey>,
        at: Timestamp,
        slack: Duration,
    ) -> (TimerKey, Wakeup) {
        self.renewals.queue.put(old, at, slack, Arc::downgrade(grant))
    }

    /// Looks no longer at the lease that has this key. It may be called under the lock of the lease.
    pub(crate) fn cancel(&self, key: TimerKey) {
        self.renewals.queue.remove(key);
    }

    /// Wakes or starts the renewals.
    pub(crate) fn wake(self: &Arc<Self>, alarm: Wakeup) {
        match alarm {
            Wakeup::Silent => {}
            Wakeup::Wake => self.renewals.wake.notify_one(),
            Wakeup::Start => {
                let shift = Shift { engine: Arc::downgrade(self), ended: false };
                let wake = Arc::clone(&self.renewals.wake);
                self.spawn_uncounted(async move {
                    let engine = Weak::clone(&shift.engine);
                    persist(|| attend(&engine, &wake), || after_panic(&engine)).await;
                    shift.end();
                });
            }
        }
    }

    /// Sees to everything that is due, and says when to look again.
    fn keep_all(self: &Arc<Self>) -> Option<Timestamp> {
        let now = self.now();
        let (mut renewals, mut news) = (Vec::new(), Vec::new());
        for (key, grant) in self.renewals.queue.take_due(now) {
            // What is due a moment later is seen to now. A loss is told that much early at most. A lease that
            // is over, or gone, or that has another key by now, drops out here.
            let Some(grant) = grant.upgrade() else { continue };
            let Some(seen) = grant.tick(key, now.max(key.at())) else { continue };
            grant.schedule(self);
            if let Some(due) = seen.tell {
                news.push((Arc::clone(&grant), due));
            }
            if seen.extend {
                renewals.push(grant);
            }
        }
        let mut renewals = renewals.into_iter().peekable();
        while renewals.peek().is_some() {
            let batch: Vec<Arc<Grant>> = renewals.by_ref().take(BATCH).collect();
            let renewal = Renewal::new(self, batch);
            // It is not counted as under way: closing need not wait for it, since the leases are still held.
            self.spawn_uncounted(renewal.extend(None));
        }
        tell_all(news);
        self.renewals.queue.next_look(now)
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

/// Leases that are extended together. Each of them learns how that ended, also when the task never begins, or comes to
/// a bad end: then it is in doubt, and tried again.
struct Renewal {
    engine: Arc<Engine>,
    batch: Vec<Arc<Grant>>,
    told: Vec<bool>,
}

impl Renewal {
    fn new(engine: &Arc<Engine>, batch: Vec<Arc<Grant>>) -> Self {
        let told = vec![false; batch.len()];
        Self { engine: Arc::clone(engine), batch, told }
    }

    /// Extends them with one command to each node, and tells each how it ended. Somebody waits for the end of the
    /// first that is known, which only a batch of one is for.
    async fn extend(mut self, mut done: Option<oneshot::Sender<ExtendOutcome>>) {
        let Self { engine, batch, told } = &mut self;
        let started = engine.now();
        let mut rounds: Vec<Round> =
            batch.iter().map(|grant| Round::extend(engine.quorum, spec(grant), started)).collect();
        let mut commands: Vec<Vec<Command>> = engine.nodes.iter().map(|_| Vec::new()).collect();
        for round in &mut rounds {
            while let Some((node, command)) = round.poll_command() {
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
                Err(error) => calls.add(node, error),
            }
        }
        let mut gone: Vec<(usize, NodeId)> = Vec::new();
        loop {
            let progress = calls.progress(engine).await;
            let now = engine.now();
            match progress {
                Progress::Done => break,
                Progress::TimedOut => rounds.iter_mut().for_each(|round| round.handle_timeout(now)),
                Progress::Answered((node, Ok(replies))) => {
                    let replies = counted(engine, node, replies);
                    for (lease, (round, reply)) in rounds.iter_mut().zip(replies).enumerate() {
                        if matches!(&reply, Ok(Reply::Denied(denial)) if denial.gone) {
                            gone.push((lease, node));
                        }
                        let failed = |error: NodeError| Reply::Failed { sent: error.sent() };
                        round.handle_reply(node, reply.unwrap_or_else(failed), now);
                    }
                }
                Progress::Answered((node, Err(error))) => {
                    let failed = Reply::Failed { sent: error.sent() };
                    rounds
                        .iter_mut()
                        .for_each(|round| round.handle_reply(node, failed.clone(), now));
                }
            }
            let mut news = Vec::new();
            let mut ended = None;
            for ((grant, round), told) in batch.iter().zip(&rounds).zip(told.iter_mut()) {
                if !*told && round.verdict() != Verdict::Pending {
                    *told = true;
                    let extension = outcome(round);
                    if let Some(due) = grant.extended(extension, now) {
                        news.push((Arc::clone(grant), due));
                    }
                    grant.schedule(engine);
                    ended = Some(extension);
                }
            }
            tell_all(news);
            if let Some(extension) = ended
                && let Some(done) = done.take()
            {
                // The holder may have gone away meanwhile.
                let _ = done.send(extension);
            }
        }
        engine.restore(batch, &rounds, gone);
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let Self { engine, batch, told } = self;
        if !engine.is_served() {
            return;
        }
        for (grant, _) in batch.iter().zip(told).filter(|(_, told)| !**told) {
            // The runtime's clock may be what has panicked.
            shielded(|| {
                let due = grant.extended(ExtendOutcome::InDoubt, engine.now());
                grant.schedule(engine);
                due.into_iter().for_each(|due| grant.tell(due));
            });
        }
    }
}

/// The answers of one message, one for each command and more: where a transport returns too few, the rest is unknown.
/// A failure that takes the node's standing away takes the votes beside it along, which may be from before its cause.
fn counted(
    engine: &Engine,
    node: NodeId,
    replies: Vec<Result<Reply, NodeError>>,
) -> impl Iterator<Item = Result<Reply, NodeError>> {
    let before = engine.lapses(node);
    let failures = replies.iter().filter_map(|reply| reply.as_ref().err());
    failures.for_each(|error| engine.node_failed(node, error));
    let lapsed = engine.lapses(node) != before;
    let missing = || {
        let message = Arc::from("fewer answers than commands");
        Err(NodeError::Unexpected { message })
    };
    let replies = replies.into_iter().chain(repeat_with(missing));
    replies.map(move |reply| if lapsed { reply.and(Err(NodeError::VoteLapsed)) } else { reply })
}

fn spec(grant: &Grant) -> RoundSpec {
    let lifecycle = grant.lifecycle();
    let mut spec = RoundSpec::new(grant.resource().clone(), grant.owner(), lifecycle.ttl());
    spec.drift = lifecycle.drift();
    spec.token = grant.token();
    spec
}

fn outcome(round: &Round) -> ExtendOutcome {
    match (round.verdict(), round.loss()) {
        (Verdict::Won, _) => ExtendOutcome::Extended(round.deadline()),
        (_, Some(RoundLoss::Contended)) => ExtendOutcome::Lost,
        _ => ExtendOutcome::InDoubt,
    }
}

/// Tells the holders. Every lease has its place in the queue again by now.
fn tell_all(news: Vec<(Arc<Grant>, LeaseAction)>) {
    for (grant, due) in news {
        grant.tell(due);
    }
}

/// The renewals's time at work. When it ends in any other way than by having nothing left to do, as when the
/// runtime drops the task, the next lease starts another one.
struct Shift {
    engine: Weak<Engine>,
    ended: bool,
}

impl Shift {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if !self.ended
            && let Some(engine) = self.engine.upgrade()
        {
            engine.renewals.queue.abandon();
        }
    }
}

/// Looks after the leases of a engine while there are any. It does not keep the engine alive.
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

impl Renewals {
    pub(super) fn wake_up(&self) {
        self.wake.notify_one();
    }
}

#[cfg(test)]
#[path = "renewals_test.rs"]
mod tests;

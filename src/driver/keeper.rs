//! Keeps all held leases of a `Redlock`: one queue of times, one task, and renewals that travel together.
//!
//! It decides which renewals share a message. What is due when, each lease's lifecycle decides.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::future::select;
use tokio::sync::{Notify, oneshot};

use super::{
    Driver,
    fanout::{Fanout, Progress},
};
use crate::{
    lease::Held,
    protocol::{Command, Extension, Loss, NodeId, Reply, Round, Terms, Timestamp, Verdict},
};

/// The most leases that share one command.
const BATCH: usize = 128;

/// What is due this soon after something that is due now is seen to with it.
const TOGETHER: Duration = Duration::from_millis(2);

/// The leases that are held, by the time at which each wants to be looked at.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    queue: Mutex<Queue>,
    /// Wakes the task, because something is due earlier than what it sleeps for.
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Queue {
    due: BinaryHeap<Reverse<Entry>>,
    /// Whether a task is at work on it.
    attended: bool,
}

#[derive(Debug)]
struct Entry {
    at: Timestamp,
    held: Weak<Held>,
}

impl Driver {
    /// Looks after a lease from now on.
    pub(crate) fn keep(self: &Arc<Self>, held: &Arc<Held>) {
        if let Some(at) = held.schedule() {
            self.look_at(at, Arc::downgrade(held));
        }
    }

    fn look_at(self: &Arc<Self>, at: Timestamp, held: Weak<Held>) {
        let first = {
            let mut queue = self.keeper.lock();
            let earliest = queue.due.peek().is_none_or(|Reverse(entry)| at < entry.at);
            queue.due.push(Reverse(Entry { at, held }));
            if !std::mem::replace(&mut queue.attended, true) {
                let task = attend(Arc::downgrade(self), Arc::clone(&self.keeper.wake));
                self.runtime.spawn(Box::pin(task));
                return;
            }
            earliest
        };
        if first {
            self.keeper.wake.notify_one();
        }
    }

    /// Sees to everything that is due, and says when to look again.
    fn keep_all(self: &Arc<Self>) -> Option<Timestamp> {
        let now = self.now();
        let mut renewals = Vec::new();
        let mut queue = self.keeper.lock();
        while let Some(Reverse(entry)) = queue.due.peek() {
            if entry.at > now.saturating_add(TOGETHER) {
                break;
            }
            let Some(Reverse(entry)) = queue.due.pop() else { break };
            // A lease that is over, or gone, or that has another time by now, drops out here.
            let Some(held) = entry.held.upgrade().filter(|held| held.unschedule(entry.at)) else {
                continue;
            };
            // What is due a moment later is seen to now. A loss is told that much early at most.
            if held.tick(now.max(entry.at)) {
                renewals.push(Arc::clone(&held));
            }
            if let Some(at) = held.schedule() {
                queue.due.push(Reverse(Entry { at, held: entry.held }));
            }
        }
        let next = queue.due.peek().map(|Reverse(entry)| entry.at);
        queue.attended = next.is_some();
        drop(queue);
        let mut renewals = renewals.into_iter().peekable();
        while renewals.peek().is_some() {
            let batch: Vec<Arc<Held>> = renewals.by_ref().take(BATCH).collect();
            let driver = Arc::clone(self);
            self.spawn(async move { driver.extend(batch, None).await });
        }
        next
    }

    /// Extends one lease for its holder, on the runtime, and waits until it is known how that ended.
    pub(crate) async fn extend_now(self: &Arc<Self>, held: &Arc<Held>) {
        let (done, ended) = oneshot::channel();
        let (driver, held) = (Arc::clone(self), Arc::clone(held));
        self.spawn(async move { driver.extend(vec![held], Some(done)).await });
        // An error says that the runtime has ended, and so that nothing was extended.
        let _ = ended.await;
    }

    /// Extends a batch of leases with one command to each node, and tells each how it ended.
    async fn extend(
        self: &Arc<Self>,
        batch: Vec<Arc<Held>>,
        mut done: Option<oneshot::Sender<()>>,
    ) {
        let started = self.now();
        let mut rounds: Vec<Round> =
            batch.iter().map(|held| Round::extend(self.quorum, terms(held), started)).collect();
        let mut commands: Vec<Vec<Command>> = self.nodes.iter().map(|_| Vec::new()).collect();
        for round in &mut rounds {
            while let Some((node, command)) = round.poll_command() {
                if let Some(commands) = commands.get_mut(node.index()) {
                    commands.push(command);
                }
            }
        }
        let mut calls = Fanout::new(self);
        for (index, (member, commands)) in self.nodes.iter().zip(commands).enumerate() {
            let node = NodeId::new(index);
            match member.node.reachable().and_then(|()| self.may_vote(node)) {
                Ok(()) => calls.add(node, member.node.call_many(commands)),
                Err(error) => calls.add(node, Box::pin(ready(Err(error)))),
            }
        }
        let mut gone: Vec<(usize, NodeId)> = Vec::new();
        let mut told = vec![false; batch.len()];
        loop {
            let progress = calls.progress().await;
            let now = self.now();
            match progress {
                Progress::Done => break,
                Progress::TimedOut => rounds.iter_mut().for_each(|round| round.handle_timeout(now)),
                Progress::Answered((node, Ok(replies))) => {
                    for (lease, (round, reply)) in rounds.iter_mut().zip(replies).enumerate() {
                        if matches!(&reply, Reply::Denied(denial) if denial.gone) {
                            gone.push((lease, node));
                        }
                        round.handle_reply(node, reply, now);
                    }
                }
                Progress::Answered((node, Err(error))) => {
                    self.node_failed(node, &error);
                    let failed = Reply::Failed { sent: error.sent() };
                    rounds
                        .iter_mut()
                        .for_each(|round| round.handle_reply(node, failed.clone(), now));
                }
            }
            for ((held, round), told) in batch.iter().zip(&rounds).zip(&mut told) {
                if !*told && round.verdict() != Verdict::Pending {
                    *told = true;
                    held.extended(outcome(round), now);
                    self.keep(held);
                }
            }
            if told.iter().all(|told| *told)
                && let Some(done) = done.take()
            {
                // The holder may have gone away meanwhile.
                let _ = done.send(());
            }
        }
        self.restore(&batch, &rounds, gone);
    }
}

fn terms(held: &Held) -> Terms {
    let lifecycle = held.lifecycle();
    let mut terms = Terms::new(held.resource().clone(), held.owner(), lifecycle.ttl());
    terms.drift = lifecycle.drift();
    terms.token = held.token();
    terms
}

fn outcome(round: &Round) -> Extension {
    match (round.verdict(), round.loss()) {
        (Verdict::Won, _) => Extension::Extended(round.deadline()),
        (_, Some(Loss::Contended)) => Extension::Lost,
        _ => Extension::InDoubt,
    }
}

/// Looks after the leases of a driver while there are any. It does not keep the driver alive.
async fn attend(driver: Weak<Driver>, wake: Arc<Notify>) {
    loop {
        let sleep = {
            let Some(driver) = driver.upgrade() else { return };
            let Some(next) = driver.keep_all() else { return };
            driver.runtime.sleep_until(next)
        };
        select(std::pin::pin!(wake.notified()), sleep).await;
    }
}

impl Keeper {
    pub(super) fn wake_up(&self) {
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Eq for Entry {}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

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
    Alarm, Driver, Ticket, after_panic,
    fanout::{Fanout, Progress},
    queue::{BATCH, Queue},
};
use crate::{
    lease::Held,
    protocol::{Command, Due, Extension, Loss, NodeId, Reply, Round, Terms, Timestamp, Verdict},
    shield::{persist, shielded},
};

/// The leases that are held, by the time at which each wants to be looked at.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    queue: Queue,
    /// Wakes the task, because something is due earlier than what it sleeps for.
    wake: Arc<Notify>,
}

impl Driver {
    /// Looks at a lease at `at`, and no longer when the ticket `old` says. It may be called under the lock of
    /// the lease; the alarm is for [`heed`](Driver::heed), which may not.
    pub(crate) fn look_at(
        &self,
        held: &Arc<Held>,
        old: Option<Ticket>,
        at: Timestamp,
        slack: Duration,
    ) -> (Ticket, Alarm) {
        self.keeper.queue.put(old, at, slack, Arc::downgrade(held))
    }

    /// Looks no longer at the lease that has this ticket. It may be called under the lock of the lease.
    pub(crate) fn look_away(&self, ticket: Ticket) {
        self.keeper.queue.remove(ticket);
    }

    /// Wakes or starts the keeper.
    pub(crate) fn heed(self: &Arc<Self>, alarm: Alarm) {
        match alarm {
            Alarm::Silent => {}
            Alarm::Wake => self.keeper.wake.notify_one(),
            Alarm::Start => {
                let shift = Shift { driver: Arc::downgrade(self), ended: false };
                let wake = Arc::clone(&self.keeper.wake);
                self.spawn_uncounted(async move {
                    let driver = Weak::clone(&shift.driver);
                    persist(|| attend(&driver, &wake), || after_panic(&driver)).await;
                    shift.end();
                });
            }
        }
    }

    /// Sees to everything that is due, and says when to look again.
    fn keep_all(self: &Arc<Self>) -> Option<Timestamp> {
        let now = self.now();
        let (mut renewals, mut news) = (Vec::new(), Vec::new());
        for (ticket, held) in self.keeper.queue.take_due(now) {
            // What is due a moment later is seen to now. A loss is told that much early at most. A lease that
            // is over, or gone, or that has another ticket by now, drops out here.
            let Some(held) = held.upgrade() else { continue };
            let Some(seen) = held.tick(ticket, now.max(ticket.at())) else { continue };
            held.schedule(self);
            if let Some(due) = seen.tell {
                news.push((Arc::clone(&held), due));
            }
            if seen.extend {
                renewals.push(held);
            }
        }
        let mut renewals = renewals.into_iter().peekable();
        while renewals.peek().is_some() {
            let batch: Vec<Arc<Held>> = renewals.by_ref().take(BATCH).collect();
            let renewal = Renewal::new(self, batch);
            // It is not counted as under way: closing need not wait for it, since the leases are still held.
            self.spawn_uncounted(renewal.extend(None));
        }
        tell_all(news);
        self.keeper.queue.next_look(now)
    }

    /// Extends one lease for its holder, on the runtime, and waits until it is known how that ended. `None`
    /// says that the runtime has ended, and so that nothing was extended.
    pub(crate) async fn extend_now(self: &Arc<Self>, held: &Arc<Held>) -> Option<Extension> {
        let (done, ended) = oneshot::channel();
        let renewal = Renewal::new(self, vec![Arc::clone(held)]);
        self.spawn_uncounted(renewal.extend(Some(done)));
        ended.await.ok()
    }
}

/// Leases that are extended together. Each of them learns how that ended, also when the task never begins, or comes to
/// a bad end: then it is in doubt, and tried again.
struct Renewal {
    driver: Arc<Driver>,
    batch: Vec<Arc<Held>>,
    told: Vec<bool>,
}

impl Renewal {
    fn new(driver: &Arc<Driver>, batch: Vec<Arc<Held>>) -> Self {
        let told = vec![false; batch.len()];
        Self { driver: Arc::clone(driver), batch, told }
    }

    /// Extends them with one command to each node, and tells each how it ended. Somebody waits for the end of the
    /// first that is known, which only a batch of one is for.
    async fn extend(mut self, mut done: Option<oneshot::Sender<Extension>>) {
        let Self { driver, batch, told } = &mut self;
        let started = driver.now();
        let mut rounds: Vec<Round> =
            batch.iter().map(|held| Round::extend(driver.quorum, terms(held), started)).collect();
        let mut commands: Vec<Vec<Command>> = driver.nodes.iter().map(|_| Vec::new()).collect();
        for round in &mut rounds {
            while let Some((node, command)) = round.poll_command() {
                if let Some(commands) = commands.get_mut(node.index()) {
                    commands.push(command);
                }
            }
        }
        let mut calls = Fanout::begun_at(driver, started);
        for (index, (member, commands)) in driver.nodes.iter().zip(commands).enumerate() {
            let node = NodeId::new(index);
            match member.node.reachable().and_then(|()| driver.may_vote(node)) {
                Ok(()) => calls.add_vote(driver, node, member.node.call_many(commands)),
                Err(error) => calls.add(node, error),
            }
        }
        let mut gone: Vec<(usize, NodeId)> = Vec::new();
        loop {
            let progress = calls.progress(driver).await;
            let now = driver.now();
            match progress {
                Progress::Done => break,
                Progress::TimedOut => rounds.iter_mut().for_each(|round| round.handle_timeout(now)),
                Progress::Answered((node, Ok(replies))) => {
                    // A transport that returns too few leaves the rest unknown.
                    let replies =
                        replies.into_iter().chain(repeat_with(|| Reply::Failed { sent: true }));
                    for (lease, (round, reply)) in rounds.iter_mut().zip(replies).enumerate() {
                        if matches!(&reply, Reply::Denied(denial) if denial.gone) {
                            gone.push((lease, node));
                        }
                        round.handle_reply(node, reply, now);
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
            for ((held, round), told) in batch.iter().zip(&rounds).zip(told.iter_mut()) {
                if !*told && round.verdict() != Verdict::Pending {
                    *told = true;
                    let extension = outcome(round);
                    if let Some(due) = held.extended(extension, now) {
                        news.push((Arc::clone(held), due));
                    }
                    held.schedule(driver);
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
        driver.restore(batch, &rounds, gone);
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let Self { driver, batch, told } = self;
        if !driver.is_served() {
            return;
        }
        for (held, _) in batch.iter().zip(told).filter(|(_, told)| !**told) {
            // The runtime's clock may be what has panicked.
            shielded(|| {
                let due = held.extended(Extension::InDoubt, driver.now());
                held.schedule(driver);
                due.into_iter().for_each(|due| held.tell(due));
            });
        }
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

/// Tells the holders. Every lease has its place in the queue again by now.
fn tell_all(news: Vec<(Arc<Held>, Due)>) {
    for (held, due) in news {
        held.tell(due);
    }
}

/// The keeper's time at work. When it ends in any other way than by having nothing left to do, as when the
/// runtime drops the task, the next lease starts another one.
struct Shift {
    driver: Weak<Driver>,
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
            && let Some(driver) = self.driver.upgrade()
        {
            driver.keeper.queue.abandon();
        }
    }
}

/// Looks after the leases of a driver while there are any. It does not keep the driver alive.
async fn attend(driver: &Weak<Driver>, wake: &Notify) {
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
}

#[cfg(test)]
#[path = "keeper_test.rs"]
mod tests;

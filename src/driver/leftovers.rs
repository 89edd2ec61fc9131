//! Releases that a node has not confirmed yet, sent again until it does.
//!
//! It decides when to give up: when the key must have expired, or when there are too many. It is the only
//! place where a command is sent again, and a release may be: it deletes nothing but its owner's key.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::select;

use super::{
    Driver,
    fanout::{Fanout, Progress},
};
use crate::{
    protocol::{Command, NodeId, Owner, Reply, Resource, Timestamp},
    telemetry,
};

/// The most releases that wait for one node; beyond it the oldest is given up, and its key expires.
const MOST: usize = 16_384;

/// How many are sent at once.
const BATCH: usize = 64;

/// How long after the ttl an acquire that a stopped node may have queued is still followed.
const LATE: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The unconfirmed releases of one node.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Leftover>,
    /// Whether a task is at work on it.
    attended: bool,
}

/// One release that has not been confirmed.
#[derive(Debug)]
pub(super) struct Leftover {
    resource: Resource,
    owner: Owner,
    /// It is not sent again before this.
    from: Timestamp,
    until: Timestamp,
    /// The acquire may be executed after the release: an answer that nothing was there is not the last word.
    unsure: bool,
}

impl Leftover {
    pub(super) fn new(
        driver: &Driver,
        resource: &Resource,
        owner: Owner,
        ttl: Duration,
        unsure: bool,
    ) -> Self {
        let from = driver.now();
        let until = from.saturating_add(ttl).saturating_add(LATE);
        Self { resource: resource.clone(), owner, from, until, unsure }
    }

    /// The one more time that an answer that nothing was there is checked: a node timeout later, when what was
    /// still under way has arrived.
    pub(super) fn once_more(self, driver: &Driver) -> Self {
        let from = driver.now().saturating_add(driver.config.node_timeout);
        Self { from, unsure: false, ..self }
    }
}

impl Driver {
    /// Keeps a release for later, and sees to it that somebody sends it.
    pub(super) fn leave_for_later(self: &Arc<Self>, node: NodeId, leftover: Leftover) {
        let Some(member) = self.member(node) else { return };
        telemetry::release_queued(node, &leftover.resource);
        {
            let mut queue = member.leftovers.lock();
            if queue.waiting.len() >= MOST
                && let Some(oldest) = queue.waiting.pop_front()
            {
                telemetry::release_given_up(node, &oldest.resource);
            }
            queue.waiting.push_back(leftover);
            if std::mem::replace(&mut queue.attended, true) {
                return;
            }
        }
        let driver = Arc::clone(self);
        self.spawn(async move { driver.attend(node).await });
    }

    /// Sends the leftovers of a node until there are none.
    async fn attend(self: Arc<Self>, node: NodeId) {
        let Some(member) = self.member(node) else { return };
        let mut pause = FIRST_PAUSE;
        loop {
            self.pause(pause).await;
            let batch = member.leftovers.take_batch(self.now(), node);
            if batch.is_empty() {
                let mut queue = member.leftovers.lock();
                if queue.waiting.is_empty() {
                    queue.attended = false;
                    return;
                }
                continue;
            }
            let sent = batch.len();
            let again = self.send_batch(node, batch).await;
            pause = if again.len() == sent { (pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
            let mut queue = member.leftovers.lock();
            queue.waiting.extend(again);
            if queue.waiting.is_empty() {
                queue.attended = false;
                return;
            }
        }
    }

    /// Waits a while, or until some node's state has changed: it may be this one that is back.
    async fn pause(&self, pause: Duration) {
        let at = self.now().saturating_add(pause);
        let changed = std::pin::pin!(self.fleet.changed.notified());
        select(changed, self.runtime.sleep_until(at)).await;
    }

    /// Sends a batch and returns what has to be sent again.
    async fn send_batch(&self, node: NodeId, batch: Vec<Leftover>) -> Vec<Leftover> {
        let mut again = Vec::new();
        for leftover in batch {
            let mut calls = Fanout::new(self);
            let Leftover { resource, owner, .. } = &leftover;
            let release = Command::Release { resource: resource.clone(), owner: *owner };
            calls.push(self, node, release);
            match calls.progress().await {
                Progress::Answered((_, Ok(Reply::Granted(_)))) => {}
                Progress::Answered((_, Ok(Reply::Denied(_)))) if !leftover.unsure => {}
                Progress::Answered((_, Ok(Reply::Denied(_)))) => {
                    again.push(leftover.once_more(self));
                }
                _ => again.push(leftover),
            }
        }
        again
    }
}

impl Leftovers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The oldest ones that are due and have not expired.
    fn take_batch(&self, now: Timestamp, node: NodeId) -> Vec<Leftover> {
        let mut queue = self.lock();
        let (mut batch, mut rest) = (Vec::new(), VecDeque::with_capacity(queue.waiting.len()));
        for leftover in queue.waiting.drain(..) {
            if now >= leftover.until {
                telemetry::release_given_up(node, &leftover.resource);
            } else if now >= leftover.from && batch.len() < BATCH {
                batch.push(leftover);
            } else {
                rest.push_back(leftover);
            }
        }
        queue.waiting = rest;
        batch
    }
}

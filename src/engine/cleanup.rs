//! Releases that a node has not confirmed yet, sent again until it does.
//!
//! It carries out what `Unconfirmed` decides. It is the only place where a command is sent again, and a release may be: it
//! deletes nothing but its owner's key. Its times are those of the steady clock.

use std::{sync::Arc, time::Duration};

use futures::future::select;

use super::{
    Engine, after_panic,
    fanout::{Fanout, Numbered, Progress},
    footprint::Released,
    watch::Repeated,
};
use crate::{
    lock::Lock,
    protocol::{
        Command, Kept, NodeId, ReleaseOrder, Reply, Timestamp, Unconfirmed, UnconfirmedRelease,
        lateness::taken_for,
    },
    shield::persist,
    telemetry::{self, NodeShown, metrics},
};

/// The unconfirmed releases of one node.
#[derive(Default)]
pub(super) struct PendingReleases {
    queue: Lock<Queue>,
}

#[derive(Default)]
struct Queue {
    releases: Unconfirmed<Released>,
    /// Whether a task is at work on it.
    attended: bool,
}

/// The one task that is at work on a queue. If it comes to a bad end, the next pending release starts another.
struct Attending {
    engine: Arc<Engine>,
    node: NodeId,
    ended: bool,
}

impl Engine {
    /// A release that is due now, as it was ordered.
    pub(super) fn unconfirmed(
        &self,
        released: &Released,
        order: Option<&ReleaseOrder>,
    ) -> UnconfirmedRelease {
        let taken_for = taken_for(self.config.node_timeout);
        UnconfirmedRelease::ordered(self.steady(), released.key_life, taken_for, order)
    }

    /// What follows when it was sent at `sent` and has been answered so.
    pub(super) fn answered(
        &self,
        release: UnconfirmedRelease,
        reply: &Reply,
        sent: Timestamp,
    ) -> Option<UnconfirmedRelease> {
        let has_deleted = matches!(reply, Reply::Granted(_));
        release.handle_answer(has_deleted, sent, self.steady(), self.config.node_timeout)
    }

    /// Keeps a release for later, and sees to it that somebody sends it.
    pub(super) fn leave_for_later(
        self: &Arc<Self>,
        node: NodeId,
        release: UnconfirmedRelease,
        released: Released,
    ) {
        let Some(slot) = self.slot(node) else { return };
        self.tell_queued(node, &released);
        let (oldest, attended) = {
            let mut queue = slot.pending.queue.lock();
            let oldest = queue.releases.push(release, released, self.steady());
            (oldest, std::mem::replace(&mut queue.attended, true))
        };
        // Without the lock: a subscriber may drop a lease, whose release comes here.
        if let Some(oldest) = oldest {
            self.tell_given_up(node, &oldest);
        }
        if attended {
            return;
        }
        let attending = Attending { engine: Arc::clone(self), node, ended: false };
        self.spawn(async move {
            let weak = Arc::downgrade(&attending.engine);
            persist(|| attending.engine.attend(node), || after_panic(&weak)).await;
            attending.end();
        });
    }

    /// Sends the pending releases of a node until there are none. It pauses only where nothing gets on.
    async fn attend(self: &Arc<Self>, node: NodeId) {
        const PAUSE: Duration = Unconfirmed::<Released>::PAUSE;
        let Some(slot) = self.slot(node) else { return };
        self.pause(PAUSE).await;
        loop {
            let mut batch = slot.pending.queue.lock().releases.take(self.steady());
            batch.given_up.iter().for_each(|released| self.tell_given_up(node, released));
            // Nothing was set where the acquire has turned out to be refused.
            batch.due.retain(|(_, released)| !released.footprint.is_clear(node));
            if batch.due.is_empty() {
                // Nobody wakes this task for one that is added, so it looks again after the shortest pause.
                let Some(next) = slot.pending.next_or_end() else { return };
                self.pause(next.saturating_since(self.steady()).min(PAUSE)).await;
                continue;
            }
            let (sent, open) = (batch.due.len(), batch.due.into_iter().map(Some).collect());
            let mut sending = Sending { pending: &slot.pending, open, sent };
            self.send_batch(node, &mut sending).await;
            if let Some(pause) = sending.end() {
                self.pause(pause).await;
            }
        }
    }

    fn tell_queued(&self, node: NodeId, released: &Released) {
        if let Some(slot) = self.slot(node) {
            metrics::release_retried(self.labelled(slot));
        }
        if let (Some(slot), Some(times)) =
            (self.slot(node), self.is_told(Repeated::ReleaseQueued(node)))
        {
            let shown = NodeShown { node, address: &slot.address };
            telemetry::release_queued(shown, &released.target, released.owner, times);
        }
    }

    fn tell_given_up(&self, node: NodeId, released: &Released) {
        if let Some(slot) = self.slot(node) {
            metrics::release_given_up(self.labelled(slot));
        }
        if let (Some(slot), Some(times)) =
            (self.slot(node), self.is_told(Repeated::ReleaseGivenUp(node)))
        {
            let shown = NodeShown { node, address: &slot.address };
            telemetry::release_given_up(shown, &released.target, released.owner, times);
        }
    }

    /// Waits for a time, or until some node's state has changed: it may be this one that is back.
    async fn pause(&self, time: Duration) {
        let changed = std::pin::pin!(self.fleet.changed.notified());
        select(changed, self.sleep_until(self.now().saturating_add(time))).await;
    }

    /// Sends a batch, and takes out of it what has been answered.
    async fn send_batch(&self, node: NodeId, batch: &mut Sending<'_>) {
        let mut calls: Fanout<Numbered> = Fanout::new(self);
        let sent = self.steady();
        // None has been answered yet, so that the numbers are the places in the batch.
        for (number, (_, released)) in batch.open.iter().flatten().enumerate() {
            let (target, owner) = (released.target.clone(), released.owner);
            let release = Command::Release { target, owner, keep: released.keep(self) };
            calls.push_numbered(self, node, number, release);
        }
        while let Progress::Answered((_, answer)) = calls.progress(self).await {
            if let Ok((number, Ok(reply))) = answer
                && let Some((release, released)) = batch.open.get_mut(number).and_then(Option::take)
                && let Some(again) = self.answered(release, &reply, sent)
            {
                batch.pending.queue.lock().releases.put((again, released));
            }
        }
    }
}

/// Pending releases that have been sent. What has not been answered goes back, also when the task comes to a bad end.
struct Sending<'a> {
    pending: &'a PendingReleases,
    open: Vec<Option<Kept<Released>>>,
    sent: usize,
}

impl Sending<'_> {
    /// Says for how long to pause, where nothing was answered.
    fn end(mut self) -> Option<Duration> {
        self.give_back()
    }

    fn give_back(&mut self) -> Option<Duration> {
        let open = self.open.drain(..).flatten().collect();
        self.pending.queue.lock().releases.handle_sent(open, self.sent)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if !self.open.is_empty() {
            self.give_back();
        }
    }
}

impl PendingReleases {
    /// How many there are.
    #[cfg(feature = "metrics")]
    pub(super) fn len(&self) -> usize {
        self.queue.lock().releases.len()
    }

    /// When the next one is due; `None` ends the work, since nothing is left.
    fn next_or_end(&self) -> Option<Timestamp> {
        let mut queue = self.queue.lock();
        let next = queue.releases.poll_timeout();
        // Under the lock under which the next one is added, so that none is left without a task.
        queue.attended = next.is_some();
        next
    }
}

impl std::fmt::Debug for PendingReleases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nothing where somebody has the lock: in a forked process that may be for ever.
        let waiting = self.queue.try_lock().map(|queue| queue.releases.len());
        f.debug_struct("PendingReleases").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl Attending {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        if !self.ended
            && let Some(slot) = self.engine.slot(self.node)
        {
            slot.pending.queue.lock().attended = false;
        }
    }
}

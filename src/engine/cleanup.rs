//! Releases that a node has not confirmed yet, sent again until it does.
//!
//! When one is sent again, and when its time is up, `protocol` decides (`UnconfirmedRelease`); how many are kept and sent
//! at once is decided here. It is the only place where a command is sent again, and a release may be: it deletes nothing
//! but its owner's key. Its times are those of the steady clock.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, MutexGuard},
    time::Duration,
};

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
        Command, NodeId, ReleaseOrder, Reply, Timestamp, UnconfirmedRelease, lateness::taken_for,
    },
    shield::persist,
    telemetry::{self, NodeShown, metrics},
};

/// The most releases that wait for one node; beyond it the oldest is given up, and its key expires.
const MOST: usize = 16_384;

/// How many are sent at once to a node that answers. One that does not is tried with a single one.
const BATCH: usize = 32;

/// Pauses double from the first to the last of these while a node answers nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The unconfirmed releases of one node.
#[derive(Debug, Default)]
pub(super) struct PendingReleases {
    queue: Lock<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Those that may be sent, in the order in which their turn comes.
    due: VecDeque<PendingRelease>,
    /// Those that wait for their time, by that time.
    later: BTreeMap<(Timestamp, u64), PendingRelease>,
    /// Tells those for the same time apart.
    next_number: u64,
    /// Whether a task is at work on it.
    attended: bool,
}

/// The one task that is at work on a queue. If it comes to a bad end, the next pending release starts another.
struct Attending {
    engine: Arc<Engine>,
    node: NodeId,
    ended: bool,
}

/// One release that has not been confirmed.
pub(super) struct PendingRelease {
    released: Released,
    release: UnconfirmedRelease,
    /// One that deletes the key is not the last word either.
    several: bool,
}

impl PendingRelease {
    /// One that is due now, as it was ordered.
    pub(super) fn new(engine: &Engine, released: Released, order: Option<&ReleaseOrder>) -> Self {
        let may_land_late = order.is_some_and(|order| order.may_land_late);
        let several = order.is_some_and(|order| order.several);
        let taken_for = taken_for(engine.config.node_timeout);
        let now = engine.steady();
        let release = UnconfirmedRelease::new(now, released.key_life, taken_for, may_land_late);
        Self { released, release, several }
    }

    /// What follows when it was sent at `sent` and has been answered so.
    pub(super) fn answered(self, engine: &Engine, reply: &Reply, sent: Timestamp) -> Option<Self> {
        if matches!(reply, Reply::Granted(_)) && !self.several {
            return None;
        }
        let node_timeout = engine.config.node_timeout;
        let release = self.release.handle_found_nothing(sent, engine.steady(), node_timeout)?;
        Some(Self { release, ..self })
    }
}

impl std::fmt::Debug for PendingRelease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.release.fmt(f)
    }
}

impl Engine {
    /// Keeps a release for later, and sees to it that somebody sends it.
    pub(super) fn leave_for_later(self: &Arc<Self>, node: NodeId, pending: PendingRelease) {
        let Some(slot) = self.slot(node) else { return };
        self.tell_queued(node, &pending.released);
        let (oldest, attended) = {
            let mut queue = slot.pending.lock();
            let oldest = queue.push(pending, self.steady());
            (oldest, std::mem::replace(&mut queue.attended, true))
        };
        // Without the lock: a subscriber may drop a lease, whose release comes here.
        if let Some(oldest) = oldest {
            self.tell_given_up(node, &oldest.released);
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
        let Some(slot) = self.slot(node) else { return };
        let (mut pause, mut most) = (FIRST_PAUSE, 1);
        // What has failed a moment ago would fail again at once.
        self.pause(pause).await;
        loop {
            let (mut batch, expired) = slot.pending.lock().take_batch(self.steady(), most);
            expired.iter().for_each(|pending| self.tell_given_up(node, &pending.released));
            // Nothing was set where the acquire has turned out to be refused.
            batch.retain(|pending| !pending.released.footprint.lock().is_clear(node));
            if batch.is_empty() {
                // Nobody wakes this task for one that is added, so it looks again after the shortest pause.
                let Some(next) = slot.pending.next_or_end() else { return };
                self.pause(next.saturating_since(self.steady()).min(FIRST_PAUSE)).await;
                continue;
            }
            let open = batch.into_iter().map(Some).collect();
            let mut batch = Batch { pending: &slot.pending, open };
            self.send_batch(node, &mut batch).await;
            let stuck = batch.open.iter().all(Option::is_some);
            drop(batch);
            if stuck {
                self.pause(pause).await;
                (pause, most) = ((pause * 2).min(LONGEST_PAUSE), 1);
            } else {
                (pause, most) = (FIRST_PAUSE, BATCH);
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
    async fn send_batch(&self, node: NodeId, batch: &mut Batch<'_>) {
        let mut calls: Fanout<Numbered> = Fanout::new(self);
        let sent = self.steady();
        // None has been answered yet, so that the numbers are the places in the batch.
        for (number, PendingRelease { released, .. }) in batch.open.iter().flatten().enumerate() {
            let (target, owner) = (released.target.clone(), released.owner);
            let release = Command::Release { target, owner, keep: released.keep(self) };
            calls.push_numbered(self, node, number, release);
        }
        while let Progress::Answered((_, answer)) = calls.progress(self).await {
            if let Ok((number, Ok(reply))) = answer
                && let Some(pending) = batch.open.get_mut(number).and_then(Option::take)
                && let Some(again) = pending.answered(self, &reply, sent)
            {
                batch.pending.lock().put(again);
            }
        }
    }
}

/// Pending releases that have been sent. What has not been answered goes back, also when the task comes to a bad end.
struct Batch<'a> {
    pending: &'a PendingReleases,
    open: Vec<Option<PendingRelease>>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.pending.lock().due.extend(self.open.drain(..).flatten());
    }
}

impl PendingReleases {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// How many there are.
    #[cfg(feature = "metrics")]
    pub(super) fn len(&self) -> usize {
        let queue = self.lock();
        queue.due.len() + queue.later.len()
    }

    /// When the next one is due; `None` ends the work, since nothing is left.
    fn next_or_end(&self) -> Option<Timestamp> {
        let mut queue = self.lock();
        let next = queue
            .due
            .front()
            .or_else(|| queue.later.values().next())
            .map(|pending| pending.release.from());
        // Under the lock under which the next one is added, so that none is left without a task.
        queue.attended = next.is_some();
        next
    }
}

impl Queue {
    /// The first ones that are due and have not expired, and those before them that have.
    fn take_batch(
        &mut self,
        now: Timestamp,
        most: usize,
    ) -> (Vec<PendingRelease>, Vec<PendingRelease>) {
        while let Some(first) = self.later.first_entry()
            && now >= first.get().release.from()
        {
            self.due.push_back(first.remove());
        }
        let (mut batch, mut expired) = (Vec::new(), Vec::new());
        while batch.len() < most
            && let Some(pending) = self.due.pop_front()
        {
            let list = if pending.release.is_over(now) { &mut expired } else { &mut batch };
            list.push(pending);
        }
        (batch, expired)
    }

    /// Adds one, and returns the one that has to give way to it.
    fn push(&mut self, pending: PendingRelease, now: Timestamp) -> Option<PendingRelease> {
        let full = self.due.len().saturating_add(self.later.len()) >= MOST;
        let (due, later) = (&mut self.due, &mut self.later);
        let oldest = || due.pop_front().or_else(|| later.pop_first().map(|(_, pending)| pending));
        let first = full.then(oldest).flatten();
        if now >= pending.release.from() {
            self.due.push_back(pending);
        } else {
            self.put(pending);
        }
        first
    }

    /// Keeps one until its time.
    fn put(&mut self, pending: PendingRelease) {
        self.next_number = self.next_number.wrapping_add(1);
        self.later.insert((pending.release.from(), self.next_number), pending);
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
            slot.pending.lock().attended = false;
        }
    }
}

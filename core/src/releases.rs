//! The releases that one node has not confirmed yet.
//!
//! It decides which are sent together, how long to pause, how many are kept, and how long a release may take at all.
//! [`UnconfirmedRelease`] says when one is due, and when it is given up. It forgets none that it has not handed out.
//!
//! # Invariants
//!
//! - **U1** Each release is handed out again until it is confirmed, over, or has to make room.
//! - **U2** None is handed out before it is due, or while it is under way.
//! - **U3** A node that answers nothing is sent one at a time, with pauses that double.
//! - **U4** At most [`MOST`](Unconfirmed::MOST) wait, plus a batch under way: the oldest waiting one makes room.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::time::Duration;

use super::{footprint::UnconfirmedRelease, time::Timestamp};

/// How many are sent at once to a node that answers.
const BATCH: usize = 32;

/// The pause after no answer doubles from the first of these to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A release, and the data of its caller.
pub type Kept<R> = (UnconfirmedRelease, R);

/// The releases of one node, each with data of the caller. Its times are of the steady clock, which errs only by
/// running behind.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::{Timestamp, Unconfirmed, UnconfirmedRelease};
///
/// let (now, ttl) = (Timestamp::ORIGIN, Duration::from_secs(10));
/// let mut releases = Unconfirmed::default();
/// let release = UnconfirmedRelease::new(now, ttl, Duration::from_secs(1), false);
/// assert_eq!(releases.push(release, "a lease", now), None);
/// let batch = releases.take(now);
/// assert_eq!(batch.due, [(release, "a lease")]);
/// // The node has answered nothing.
/// assert_eq!(releases.handle_sent(batch.due, 1), Some(Duration::from_millis(20)));
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Unconfirmed<R> {
    /// Releases that may be sent, in this order.
    due: VecDeque<Kept<R>>,
    /// Releases that are not due yet, by their time.
    later: BTreeMap<(Timestamp, u64), Kept<R>>,
    /// Tells releases of the same time apart.
    next_number: u64,
    /// How many are sent at once, and the next pause after no answer.
    batch: usize,
    pause: Duration,
}

/// The next step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Batch<R> {
    /// To send now.
    pub due: Vec<Kept<R>>,
    /// No longer sent: their keys must have expired.
    pub given_up: Vec<R>,
}

impl<R> Default for Unconfirmed<R> {
    fn default() -> Self {
        Self {
            due: VecDeque::new(),
            later: BTreeMap::new(),
            next_number: 0,
            batch: 1,
            pause: FIRST_PAUSE,
        }
    }
}

impl<R> Unconfirmed<R> {
    /// How many are kept for a node at most; beyond that the oldest is given up, and its key expires.
    pub const MOST: usize = 16_384;

    /// The pause before the first release is sent, and between two looks: a retry at once would fail again.
    pub const PAUSE: Duration = FIRST_PAUSE;

    /// Keeps a release, and returns the one that makes room for it.
    pub fn push(&mut self, release: UnconfirmedRelease, of: R, now: Timestamp) -> Option<R> {
        let is_full = self.len() >= Self::MOST;
        let oldest = is_full.then(|| {
            self.due.pop_front().or_else(|| self.later.pop_first().map(|(_, later)| later))
        });
        if now >= release.from() {
            self.due.push_back((release, of));
        } else {
            self.put((release, of));
        }
        oldest.flatten().map(|(_, of)| of)
    }

    /// Takes the due releases, as many as are sent at once, and those before them that are over.
    pub fn take(&mut self, now: Timestamp) -> Batch<R> {
        while let Some(first) = self.later.first_entry()
            && now >= first.get().0.from()
        {
            self.due.push_back(first.remove());
        }
        let mut batch = Batch { due: Vec::new(), given_up: Vec::new() };
        while batch.due.len() < self.batch
            && let Some(kept) = self.due.pop_front()
        {
            if kept.0.is_over(now) { batch.given_up.push(kept.1) } else { batch.due.push(kept) }
        }
        batch
    }

    /// A batch of `sent` releases is done, and `open` were not answered. Returns the pause if none was.
    pub fn handle_sent(&mut self, open: Vec<Kept<R>>, sent: usize) -> Option<Duration> {
        let is_stuck = open.len() >= sent;
        self.due.extend(open);
        if !is_stuck {
            (self.batch, self.pause) = (BATCH, FIRST_PAUSE);
            return None;
        }
        let pause = self.pause;
        (self.batch, self.pause) = (1, (pause * 2).min(LONGEST_PAUSE));
        Some(pause)
    }

    /// A release was answered, and is to be sent again later.
    pub fn put(&mut self, kept: Kept<R>) {
        self.next_number = self.next_number.wrapping_add(1);
        self.later.insert((kept.0.from(), self.next_number), kept);
    }

    /// When the next release is due. If none is left, the batch and the pause start over.
    pub fn poll_timeout(&mut self) -> Option<Timestamp> {
        let next = self.due.front().or_else(|| self.later.values().next());
        let next = next.map(|(release, _)| release.from());
        if next.is_none() {
            (self.batch, self.pause) = (1, FIRST_PAUSE);
        }
        next
    }

    /// The data of each.
    pub fn data_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.due.iter_mut().chain(self.later.values_mut()).map(|(_, of)| of)
    }

    /// How many are kept, without those under way.
    pub fn len(&self) -> usize {
        self.due.len().saturating_add(self.later.len())
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How long a release waits for a quorum, its turn included: ten node timeouts, but at most a second, or one node
/// timeout if that is longer. No validity depends on it, so that a hiccup of the nodes need not look like a failed
/// release.
pub fn longest_release(node_timeout: Duration) -> Duration {
    node_timeout.saturating_mul(10).min(Duration::from_secs(1)).max(node_timeout)
}

//! The rounds under way at once, and the waiters for a turn, in the order of arrival.
//!
//! It decides which waiter may begin, which has waited too long, and what the answers to a round say of the load.
//! `adaptive_limit` decides how many may be under way. It starts nothing by itself, and lets no round overtake the
//! line.
//!
//! # Invariants
//!
//! - **C1** A round is let in only while fewer are under way than the limit allows.
//! - **C2** Waiters are let in in the order of arrival, and before any newcomer.
//! - **C3** Each waiter is answered once: with a turn, as late and then not before its deadline, or as closed; or it
//!   leaves.
//! - **C4** A turn counts from when it is given until it is given back, once.
//! - **C5** Once closed, no round is let in, and none waits.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::{
    acquisition::{Traffic, TurnedAway},
    adaptive_limit::AdaptiveLimit,
    round::Quorum,
    time::Timestamp,
};

/// The rounds under way, and the line of waiters.
///
/// Each [`Turn`] is given back once, by [`give_back`](Self::give_back).
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::{Concurrency, Quorum, Timestamp};
///
/// let now = Timestamp::ORIGIN;
/// let mut rounds = Concurrency::new(Quorum::of(3), Duration::from_millis(50));
/// let mut turns: Vec<_> = core::iter::from_fn(|| rounds.begin(now)).collect();
/// assert_eq!(turns.len(), 64);
/// assert_eq!(rounds.wait("the next", None), Ok(0));
/// assert!(rounds.next(now).is_none());
/// let mut first = turns.remove(0);
/// rounds.give_back(&mut first, None, now);
/// assert!(matches!(rounds.next(now), Some(("the next", Ok(turn))) if turn.waited()));
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Concurrency<W> {
    quorum: Quorum,
    adaptive: AdaptiveLimit,
    under_way: usize,
    /// By place, in the order of arrival.
    waiting: BTreeMap<u64, (Option<Timestamp>, W)>,
    deadlines: BTreeSet<(Timestamp, u64)>,
    next_place: u64,
    closed: bool,
    traffic: Traffic,
}

/// A round that was let in, and its answers so far. It counts until it is given back: once a quorum has answered it, or
/// before. A clone serves to look at another future, and is not given back as well.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Turn {
    waited: bool,
    begun: Timestamp,
    needed: usize,
    answers: usize,
    is_over: bool,
}

/// What a round says of the load when it is over.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Load {
    /// A quorum has answered it.
    Answered,
    /// A quorum might have answered it, but was too slow: the nodes may be overloaded.
    Overrun,
}

impl<W> Concurrency<W> {
    /// For rounds whose commands are answered within `node_timeout`, or never.
    pub fn new(quorum: Quorum, node_timeout: Duration) -> Self {
        Self {
            quorum,
            adaptive: AdaptiveLimit::new(node_timeout),
            under_way: 0,
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_place: 0,
            closed: false,
            traffic: Traffic::default(),
        }
    }

    /// Lets a round in at once, if there is room and the line is empty. Even right after room was made, a newcomer does
    /// not overtake the line.
    pub fn begin(&mut self, now: Timestamp) -> Option<Turn> {
        if self.closed || !self.waiting.is_empty() || self.is_full() {
            return None;
        }
        let turn = self.let_in(false);
        if AdaptiveLimit::is_crowd(self.under_way) {
            self.traffic.crowded = self.traffic.crowded.max(now);
        }
        Some(turn)
    }

    /// Waits at the end of the line, until the deadline if there is one. Returns the place.
    ///
    /// # Errors
    ///
    /// It is [closed](Self::close); the error gives `waits` back.
    pub fn wait(&mut self, waits: W, deadline: Option<Timestamp>) -> Result<u64, W> {
        if self.closed {
            return Err(waits);
        }
        let place = self.next_place;
        self.next_place = self.next_place.saturating_add(1);
        self.waiting.insert(place, (deadline, waits));
        self.deadlines.extend(deadline.map(|deadline| (deadline, place)));
        Ok(place)
    }

    /// Leaves the line. `None` if the place is already empty.
    pub fn leave(&mut self, place: u64) -> Option<W> {
        let (deadline, waits) = self.waiting.remove(&place)?;
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, place));
        }
        Some(waits)
    }

    /// The first waiter of the line, if there is room: let in, or turned away if its deadline has passed and
    /// [`turn_away`](Self::turn_away) has not removed it yet.
    pub fn next(&mut self, now: Timestamp) -> Option<(W, Result<Turn, TurnedAway>)> {
        let (place, (deadline, _)) = self.waiting.first_key_value()?;
        let (place, is_late) = (*place, deadline.is_some_and(|deadline| deadline <= now));
        if self.is_full() {
            return None;
        }
        let waits = self.leave(place)?;
        self.traffic.crowded = now;
        let turn = if is_late { Err(TurnedAway::Late) } else { Ok(self.let_in(true)) };
        Some((waits, turn))
    }

    /// Turns away the next waiter whose deadline has passed, wherever it stands in the line.
    pub fn turn_away(&mut self, now: Timestamp) -> Option<W> {
        let (deadline, place) = *self.deadlines.first()?;
        if deadline <= now { self.leave(place) } else { None }
    }

    /// When the first deadline of the line passes.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Lets no round in any more. The caller turns away the returned waiters.
    pub fn close(&mut self) -> impl Iterator<Item = W> + use<W> {
        self.closed = true;
        self.deadlines.clear();
        core::mem::take(&mut self.waiting).into_values().map(|(_, waits)| waits)
    }

    /// Ends a round, with what it says of the load, if anything. Returns whether the line has a waiter. A second call
    /// does nothing, and returns false.
    pub fn give_back(&mut self, turn: &mut Turn, load: Option<Load>, now: Timestamp) -> bool {
        if core::mem::replace(&mut turn.is_over, true) {
            return false;
        }
        match load {
            Some(Load::Answered) => {
                self.traffic.answered = self.traffic.answered.max(now);
                self.adaptive.handle_answer(turn.begun, now, self.under_way);
            }
            Some(Load::Overrun) => self.adaptive.handle_timeout(turn.begun, now),
            None => {}
        }
        self.under_way = self.under_way.saturating_sub(1);
        !self.waiting.is_empty()
    }

    /// The number of waiters.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of rounds under way.
    pub const fn under_way(&self) -> usize {
        self.under_way
    }

    /// The most rounds that may be under way.
    pub const fn limit(&self) -> usize {
        self.adaptive.limit()
    }

    /// The traffic that the rounds have seen.
    pub const fn traffic(&self) -> Traffic {
        self.traffic
    }

    const fn is_full(&self) -> bool {
        self.under_way >= self.adaptive.limit()
    }

    fn let_in(&mut self, waited: bool) -> Turn {
        self.under_way = self.under_way.saturating_add(1);
        let needed = self.quorum.needed();
        Turn { waited, begun: Timestamp::ORIGIN, needed, answers: 0, is_over: false }
    }
}

impl Turn {
    /// Whether the round waited in the line for it.
    pub const fn waited(&self) -> bool {
        self.waited
    }

    /// Whether the round no longer counts.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// The round begins now.
    pub const fn handle_begun(&mut self, now: Timestamp) {
        self.begun = now;
    }

    /// A node has answered. At the quorum-th answer the round is no longer load: stragglers, hung or dead, hold no
    /// round up. A failure is no sign that the nodes keep up.
    #[must_use]
    pub const fn handle_answer(&mut self, is_reply: bool) -> Option<Load> {
        if is_reply {
            self.answers += 1;
        }
        if self.is_over || self.answers < self.needed { None } else { Some(Load::Answered) }
    }

    /// The time is up, and `unanswered` nodes have not answered.
    #[must_use]
    pub const fn handle_timeout(&self, unanswered: usize) -> Option<Load> {
        if self.is_over || self.answers.saturating_add(unanswered) < self.needed {
            return None;
        }
        Some(Load::Overrun)
    }
}

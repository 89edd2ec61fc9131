//! Where one node stands with one client, and all that the client knows of it for that.
//!
//! It decides when a standing is taken away and what may give it back. It never goes back to `Ready` but by a marker
//! that says so, and never by one that is older than another that was seen of the same process.

use alloc::sync::Arc;
use core::time::Duration;

use super::{Admission, AdmissionBlock, Floor, Marker};
use crate::{
    command::{EpochMark, NodeId},
    time::Timestamp,
};

/// Where one node stands.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Standing {
    /// Its marker has not been read since it was last connected, or it has to be admitted anew.
    #[default]
    Unknown,
    /// It may vote.
    Ready,
    /// It may have forgotten, and has been waiting since then, on the client's clock.
    Joining {
        /// When this client first saw it so, or was last told of a longer wait than it had seen itself.
        since: Timestamp,
        /// For how long it had been joining by then, as other clients have counted it by their clocks.
        waited: Duration,
        /// The epoch that it waits in. In another one, the wait begins again.
        epoch: u64,
    },
}

impl Standing {
    /// Of a node that is joining: in which epoch, and for how long at the least by `now`. Whoever told of a wait had
    /// counted it before our own time with the node began, so that no moment is counted twice.
    pub fn waited(self, now: Timestamp) -> Option<(u64, Duration)> {
        match self {
            Self::Joining { since, waited, epoch } => {
                Some((epoch, waited.saturating_add(now.saturating_since(since))))
            }
            Self::Unknown | Self::Ready => None,
        }
    }
}

/// Why a node may not vote.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum VoteBlock {
    /// Its marker has not been read since its standing was taken away, or ever.
    NotLookedAt,
    /// Its marker could not be read or set, for a reason that does not pass by itself.
    MarkerUnreadable,
    /// Another process is there than the one whose standing is known.
    AnotherProcess,
    /// Its clock seems to have jumped, and it has not been judged yet whose clock that was, or could not be.
    ClockInQuestion,
    /// It may have forgotten what it granted.
    Quarantined {
        /// How long the quarantine still lasts. Where it is over, the others are being asked.
        remaining: Duration,
    },
    /// Its quarantine is over, and yet it cannot be admitted.
    HeldBack(AdmissionBlock),
}

/// A node's standing at the time when something was asked of it. What is answered after the standing was taken away
/// may be from before whatever that was, and counts no more: [`Admission::counts`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct VoteGuard {
    pub(super) node: NodeId,
    lapses: u64,
    /// What its marker had said last.
    mark: Option<EpochMark>,
}

/// All that is known of one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct NodeRecord {
    pub(super) standing: Standing,
    /// What its marker said last. It outlives the standing, as older data of the same process is known by it.
    pub(super) marker: Option<Marker>,
    /// The newest epoch that any answer of this process has told, also one that was asked for the sake of another node.
    pub(super) newest: u64,
    /// How often its standing has been taken away.
    pub(super) lapses: u64,
    /// The epoch in which its clock was seen to jump, so that it may have to join again though it has not restarted;
    /// until that has been dealt with.
    pub(super) jumped_in: Option<u64>,
    /// The floor that a sealed majority of the others gave it, and the epoch for which that holds.
    sealed_floor: Option<(u64, Floor)>,
    /// The process that was last seen behind it.
    identity: Option<Arc<str>>,
    /// Whether its marker could not be read or set, for a reason that does not pass by itself.
    pub(super) unreadable: bool,
    /// Whether it belongs to another list of nodes, by the last that it said.
    pub(super) of_others: bool,
    /// The longest ttl that it is known to have been told.
    pub(super) max_ttl: Duration,
    /// Why it was not admitted when that was last tried.
    pub(super) held_back: Option<AdmissionBlock>,
}

impl NodeRecord {
    /// Takes its standing away. What it was asked before that, and answers after it, does not count.
    pub(super) const fn lapse(&mut self) {
        self.standing = Standing::Unknown;
        self.lapses = self.lapses.wrapping_add(1);
        self.held_back = None;
    }

    /// Takes its standing away if it may vote. Says whether it could: one that is joining goes on waiting.
    pub(super) fn lapse_if_ready(&mut self) -> bool {
        let ready = self.standing == Standing::Ready;
        if ready {
            self.lapse();
        }
        ready
    }

    /// Its clock was seen to jump in this epoch.
    pub(super) const fn handle_jump(&mut self, epoch: u64) {
        self.jumped_in = Some(epoch);
        self.lapse();
    }

    fn mark(&self) -> Option<EpochMark> {
        self.marker.map(|marker| marker.mark())
    }

    /// The jump has been dealt with.
    pub(super) const fn forget_jump(&mut self) {
        self.jumped_in = None;
    }

    /// Whether the process behind it is another one than when it was last looked at. What was known of the one before
    /// says nothing of it.
    pub(super) fn handle_identity(&mut self, identity: Option<&Arc<str>>) -> bool {
        let another = self.identity.is_some() && !self.is_known(identity);
        self.identity = identity.cloned();
        if another {
            self.handle_replaced();
        }
        another
    }

    pub(super) fn is_known(&self, identity: Option<&Arc<str>>) -> bool {
        self.identity.as_ref() == identity
    }

    pub(super) const fn handle_replaced(&mut self) {
        self.marker = None;
        self.newest = 0;
        self.unreadable = false;
        self.of_others = false;
        self.lapse();
    }

    /// Takes its marker, read at `now`. False says that its data is older than what was seen of it before.
    pub(super) fn handle_marker(&mut self, marker: Marker, now: Timestamp) -> bool {
        let fell = self.marker.is_some_and(|before| {
            let fell = before.high_water > marker.high_water || before.seal > marker.seal;
            marker.ready && before.epoch == marker.epoch && fell
        });
        // One that is joining in an older epoch may have been ready since, and its wait is of before that.
        if fell || marker.mark().is_before(self.newest) {
            self.lapse();
            return false;
        }
        self.newest = marker.epoch;
        self.of_others = false;
        // What has kept its data says less only where an operator has lowered it.
        let lasts = marker.ready && self.marker.is_some_and(|before| before.epoch == marker.epoch);
        self.max_ttl = if lasts { marker.max_ttl } else { self.max_ttl.max(marker.max_ttl) };
        self.marker = Some(marker);
        let told = match marker.ready {
            true => Standing::Ready,
            false => Standing::Joining { since: now, waited: marker.waited, epoch: marker.epoch },
        };
        let (epoch, known) = self.standing.waited(now).unzip();
        if told == Standing::Ready && self.standing == told {
            return true;
        }
        // It goes on waiting. Neither time is longer than the true one, so that the longer of them counts.
        if !marker.ready && epoch == Some(marker.epoch) {
            if known < Some(marker.waited) {
                self.standing = told;
            }
            return true;
        }
        self.lapse_if_ready();
        self.held_back = None;
        self.standing = told;
        true
    }

    /// The floor that a sealed majority of the others gave it in this epoch.
    pub(super) fn sealed_floor(&self, epoch: u64) -> Option<Floor> {
        self.sealed_floor.filter(|(sealed, _)| *sealed == epoch).map(|(_, floor)| floor)
    }

    pub(super) const fn set_sealed_floor(&mut self, epoch: u64, floor: Floor) {
        self.sealed_floor = Some((epoch, floor));
    }

    /// How long it still has to wait, if it is joining.
    pub(super) fn remaining(&self, quarantine: Duration, now: Timestamp) -> Option<Duration> {
        let (_, waited) = self.standing.waited(now)?;
        Some(quarantine.saturating_sub(waited))
    }

    /// Whether it may vote at `now`.
    pub(super) fn may_vote(&self, quarantine: Duration, now: Timestamp) -> Result<(), VoteBlock> {
        let remaining = self.remaining(quarantine, now).unwrap_or_default();
        Err(match self.standing {
            Standing::Ready => return Ok(()),
            Standing::Unknown if self.unreadable => VoteBlock::MarkerUnreadable,
            Standing::Unknown if self.jumped_in.is_some() => VoteBlock::ClockInQuestion,
            Standing::Unknown => VoteBlock::NotLookedAt,
            Standing::Joining { .. } => match self.held_back {
                Some(block) if remaining.is_zero() => VoteBlock::HeldBack(block),
                _ => VoteBlock::Quarantined { remaining },
            },
        })
    }
}

impl Admission {
    /// Whether a node may be asked for a vote at `now`.
    ///
    /// # Errors
    ///
    /// [`VoteBlock`] says why not.
    pub fn may_vote(&self, node: NodeId, now: Timestamp) -> Result<(), VoteBlock> {
        let Some(record) = self.record(node) else { return Err(VoteBlock::NotLookedAt) };
        record.may_vote(self.quarantine(), now)
    }

    /// The same of the process that is seen behind the node just now. Commands need not ask for that: they say
    /// themselves for which process they are.
    ///
    /// # Errors
    ///
    /// [`VoteBlock`] says why it may not vote.
    pub fn may_vote_as(
        &self,
        node: NodeId,
        identity: Option<&Arc<str>>,
        now: Timestamp,
    ) -> Result<(), VoteBlock> {
        if self.record(node).is_some_and(|record| !record.is_known(identity)) {
            return Err(VoteBlock::AnotherProcess);
        }
        self.may_vote(node, now)
    }

    /// Whether this process was looked at, and has lost its standing since for a reason that a look may mend.
    pub(super) fn has_lapsed(&self, node: NodeId, identity: Option<&Arc<str>>) -> bool {
        self.record(node).is_some_and(|record| {
            let is_unknown = record.standing == Standing::Unknown && record.marker.is_some();
            is_unknown && record.jumped_in.is_none() && record.is_known(identity)
        })
    }

    /// To be taken before anything is asked of a node whose answer is a vote.
    pub fn vote_guard(&self, node: NodeId) -> VoteGuard {
        let record = self.record(node);
        let lapses = record.map_or(0, |record| record.lapses);
        VoteGuard { node, lapses, mark: record.and_then(NodeRecord::mark) }
    }

    /// Whether an answer counts that was asked for under this vote guard and has come now.
    pub fn counts(&self, vote_guard: VoteGuard) -> bool {
        self.vote_guard(vote_guard.node).lapses == vote_guard.lapses
    }

    /// A node has refused what was asked of it under this vote guard, as one that is not admitted, or not in the state that was
    /// asked for. Where it has been looked at since, that is explained, and tells nothing of its standing now. True says that
    /// it has to be looked at.
    #[must_use]
    pub fn handle_refused(&mut self, vote_guard: VoteGuard) -> bool {
        self.vote_guard(vote_guard.node) == vote_guard && self.handle_not_admitted(vote_guard.node)
    }
}

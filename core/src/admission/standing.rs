//! One node's standing with one client, and what the client knows of the node for that.
//!
//! It decides when a standing is taken away and what may give it back. Only a marker that says so makes a node `Ready`
//! again, and never a marker that is older than another seen of the same process.

use alloc::sync::Arc;
use core::time::Duration;

use super::{Admission, AdmissionBlock, Floor, Marker};
use crate::{
    command::{EpochMark, NodeId},
    members::Relation,
    time::Timestamp,
};

/// The standing of one node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Standing {
    /// Its marker has not been read since it was last connected, or it has to be admitted anew.
    #[default]
    Unknown,
    /// It may vote.
    Ready,
    /// It may have forgotten, and waits its quarantine.
    Joining {
        /// When this client first saw it joining, or was last told of a longer wait than it had counted, by its clock.
        since: Timestamp,
        /// How long it had been joining by then, as counted by other clients' clocks.
        waited: Duration,
        /// The epoch that it waits in. In another epoch, the wait begins again.
        epoch: u64,
    },
}

impl Standing {
    /// Of a joining node: its epoch, and how long it has waited at least by `now`. Other clients counted `waited`
    /// before `since`, so that no moment is counted twice.
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
    /// The node is another process than the one whose standing is known.
    AnotherProcess,
    /// Its clock seems to have jumped, and the question whose clock it was is open, or could not be judged.
    ClockInQuestion,
    /// It may have forgotten what it granted.
    Quarantined {
        /// How long the quarantine still lasts. At zero, the other nodes are being asked.
        remaining: Duration,
    },
    /// Its quarantine is over, but it cannot be admitted yet.
    HeldBack(AdmissionBlock),
}

/// A node's standing at the time of a command. An answer that comes after the standing was taken away may be from
/// before the cause of that, and no longer counts: [`Admission::counts`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct VoteGuard {
    pub(super) node: NodeId,
    lapses: u64,
    /// Its last marker's epoch and seal.
    mark: Option<EpochMark>,
}

/// Everything known of one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct NodeRecord {
    pub(super) standing: Standing,
    /// Its last marker. It outlives the standing, to recognize older data of the same process.
    pub(super) marker: Option<Marker>,
    /// The newest epoch in any answer of this process, even to a look for another node's admission.
    pub(super) newest: u64,
    /// How often its standing was taken away.
    pub(super) lapses: u64,
    /// The epoch in which its clock was seen to jump, until the jump is settled. The node may have to join again
    /// without a restart.
    pub(super) jumped_in: Option<u64>,
    /// The epoch in which a sealed majority of the others gave it a floor, and that floor.
    sealed_floor: Option<(u64, Floor)>,
    /// The last process seen behind it.
    identity: Option<Arc<str>>,
    /// Whether its marker could not be read or set, for a reason that does not pass by itself.
    pub(super) unreadable: bool,
    /// What its last answer said of another list that it belongs to.
    pub(super) relation: Option<Relation>,
    /// The longest ttl that it is known to have been told.
    pub(super) max_ttl: Duration,
    /// Why the last attempt did not admit it.
    pub(super) held_back: Option<AdmissionBlock>,
}

impl NodeRecord {
    /// Takes its standing away. An answer after this to an earlier question does not count.
    pub(super) const fn lapse(&mut self) {
        self.standing = Standing::Unknown;
        self.lapses = self.lapses.wrapping_add(1);
        self.held_back = None;
    }

    /// Takes its standing away if it may vote, and returns whether it could. A joining node goes on waiting.
    pub(super) fn lapse_if_ready(&mut self) -> bool {
        let ready = self.standing == Standing::Ready;
        if ready {
            self.lapse();
        }
        ready
    }

    /// Takes note that its clock was seen to jump in this epoch.
    pub(super) const fn handle_jump(&mut self, epoch: u64) {
        self.jumped_in = Some(epoch);
        self.lapse();
    }

    fn mark(&self) -> Option<EpochMark> {
        self.marker.map(|marker| marker.mark())
    }

    /// Closes the question of a jump.
    pub(super) const fn forget_jump(&mut self) {
        self.jumped_in = None;
    }

    /// Notes the process behind it, and returns whether it is another than before. What was known of the former says
    /// nothing of it.
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
        self.relation = None;
        self.lapse();
    }

    /// Takes its marker, read at `now`. Returns false if its data is older than was seen of it before.
    pub(super) fn handle_marker(&mut self, marker: Marker, now: Timestamp) -> bool {
        let fell = self.marker.is_some_and(|before| {
            let fell = before.high_water > marker.high_water || before.seal > marker.seal;
            marker.ready && before.epoch == marker.epoch && fell
        });
        // A node that is joining in an older epoch may have been ready since, and its wait is from before that.
        if fell || marker.mark().is_before(self.newest) {
            self.lapse();
            return false;
        }
        self.newest = marker.epoch;
        self.relation = None;
        // A node that kept its data tells a shorter ttl only where an operator has lowered it.
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
        // It goes on waiting. Neither time exceeds the true one, so the longer counts.
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
            Standing::Unknown if matches!(self.relation, Some(Relation::Into(_))) => {
                VoteBlock::HeldBack(AdmissionBlock::NotOpen)
            }
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

    /// The same, for the process now seen behind the node. Commands need not ask for that: each names the process it is
    /// for.
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

    /// Whether this process was looked at, and has since lost its standing for a reason that a look may mend.
    pub(super) fn has_lapsed(&self, node: NodeId, identity: Option<&Arc<str>>) -> bool {
        self.record(node).is_some_and(|record| {
            let is_unknown = record.standing == Standing::Unknown && record.marker.is_some();
            is_unknown && record.jumped_in.is_none() && record.is_known(identity)
        })
    }

    /// The guard that a client takes before it asks a node for a vote.
    pub fn vote_guard(&self, node: NodeId) -> VoteGuard {
        let record = self.record(node);
        let lapses = record.map_or(0, |record| record.lapses);
        VoteGuard { node, lapses, mark: record.and_then(NodeRecord::mark) }
    }

    /// Whether an answer counts that comes now, to a question under this vote guard.
    pub fn counts(&self, vote_guard: VoteGuard) -> bool {
        self.vote_guard(vote_guard.node).lapses == vote_guard.lapses
    }

    /// A node has refused a command under this vote guard, as not admitted, or not in the expected state. If its
    /// standing or marker has changed since, the refusal says nothing of its standing now. Returns true if the node has
    /// to be looked at.
    #[must_use]
    pub fn handle_refused(&mut self, vote_guard: VoteGuard) -> bool {
        self.vote_guard(vote_guard.node) == vote_guard && self.handle_not_admitted(vote_guard.node)
    }
}

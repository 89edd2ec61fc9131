//! What the rest of the engine asks of `protocol::Admission`, and reports to it.
//!
//! It translates answers into errors and states, and failures into a node's standing. It decides only that all nodes
//! may vote in classic mode. It never makes an acquire wait, and asks no node anything; `probe` does.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use super::{Engine, NodeSlot};
#[cfg(feature = "inspect")]
use crate::protocol::Members;
use crate::{
    node::{NodeError, NodeState, Refusal},
    protocol::{
        Admission, EpochMark, FencingToken, NodeId, Relation, Timestamp, VoteBlock, VoteGuard,
    },
};

impl Engine {
    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock()
    }

    /// The list or the lists of this handle, in the generation that the nodes told.
    #[cfg(feature = "inspect")]
    pub(crate) fn members(&self) -> Members {
        self.members.at(self.admission().generation())
    }

    /// Whether a node may be asked for a vote.
    pub(super) fn may_vote(&self, node: NodeId) -> Result<(), NodeError> {
        if self.config.classic {
            return Ok(());
        }
        let now = self.runtime.steady();
        let block = self.admission().may_vote(node, now);
        block.map_err(|block| self.blocked(node, block))
    }

    /// Like `may_vote`, together with the vote guard of the same standing.
    pub(super) fn ask_vote(
        &self,
        node: NodeId,
        steady: Timestamp,
    ) -> (Option<VoteGuard>, Option<NodeError>) {
        let (vote_guard, block) = {
            let admission = self.admission();
            let vote_guard = admission.vote_guard(node);
            let block = if self.config.classic { Ok(()) } else { admission.may_vote(node, steady) };
            (vote_guard, block)
        };
        (Some(vote_guard), block.err().map(|block| self.blocked(node, block)))
    }

    fn blocked(&self, node: NodeId, block: VoteBlock) -> NodeError {
        match block {
            VoteBlock::MarkerUnreadable => self.trouble(node).unwrap_or(NodeError::NotAdmitted),
            VoteBlock::Quarantined { remaining } => NodeError::Quarantined { remaining },
            VoteBlock::HeldBack(_) => NodeError::Quarantined { remaining: Duration::ZERO },
            VoteBlock::NotLookedAt | VoteBlock::AnotherProcess | VoteBlock::ClockInQuestion => {
                NodeError::NotAdmitted
            }
        }
    }

    /// What a node's standing says beyond its connection.
    pub(super) fn standing_as_state(
        &self,
        node: NodeId,
        identity: Option<&Arc<str>>,
    ) -> Option<NodeState> {
        if self.config.classic {
            return None;
        }
        let now = self.runtime.steady();
        let block = self.admission().may_vote_as(node, identity, now).err()?;
        Some(match block {
            VoteBlock::MarkerUnreadable => match self.trouble(node) {
                Some(NodeError::Refused(refusal)) => NodeState::Refused(refusal),
                Some(error) => NodeState::Down { reason: Arc::from(error.to_string()) },
                None => NodeState::Connecting,
            },
            VoteBlock::Quarantined { remaining } => NodeState::Quarantined { remaining },
            VoteBlock::HeldBack(_) => NodeState::Quarantined { remaining: Duration::ZERO },
            VoteBlock::NotLookedAt | VoteBlock::AnotherProcess | VoteBlock::ClockInQuestion => {
                NodeState::Connecting
            }
        })
    }

    /// The hint of an acquire of `count` tokens; none in classic mode.
    pub(super) fn hint(&self, count: u64) -> Option<u64> {
        let wall_us = self.runtime.wall_us();
        (!self.config.classic).then(|| self.admission().hint(wall_us, count))
    }

    /// Records the counter that a round has won, which is above its hint.
    pub(super) fn counted(&self, counter: FencingToken) {
        let wall_us = self.runtime.wall_us();
        self.admission().handle_counter(counter.get(), wall_us);
    }

    /// What is known of each node, for an acquire round that begins now.
    pub(super) fn marks(&self) -> Box<[EpochMark]> {
        if self.config.classic { Box::default() } else { self.admission().marks() }
    }

    /// Take it before asking for a vote.
    pub(super) fn vote_guard(&self, node: NodeId) -> VoteGuard {
        self.admission().vote_guard(node)
    }

    /// Records what a failure says about a node's standing. For a vote, `asked` is the guard under which it was asked
    /// for.
    pub(super) fn node_failed(&self, node: NodeId, error: &NodeError, asked: Option<VoteGuard>) {
        let changed = match error {
            NodeError::NotAdmitted => match asked {
                Some(vote_guard) => self.admission().handle_refused(vote_guard),
                None => self.admission().handle_not_admitted(node),
            },
            NodeError::ClockJumped => {
                let Some(slot) = self.slot(node) else { return };
                let seen = slot.node.status().ok().and_then(|status| status.epoch);
                self.admission().handle_clock_jumped(node, seen);
                true
            }
            _ => false,
        };
        if changed {
            self.fleet.attention.notify_one();
            self.fleet.refused.notify_one();
        }
    }

    /// Records why a marker could not be read or set. Failures that pass by themselves are skipped, and a node that is
    /// down says so itself.
    pub(super) fn admission_failed(&self, node: NodeId, error: NodeError) {
        let Some(slot) = self.slot(node) else { return };
        let trouble = match error {
            NodeError::NotConnected { .. }
            | NodeError::ConnectionLost { .. }
            | NodeError::TimedOut
            | NodeError::Overloaded
            | NodeError::NotAdmitted
            | NodeError::Outdated
            | NodeError::VoteLapsed
            | NodeError::Quarantined { .. }
            | NodeError::ArrivedLate
            | NodeError::CounterImplausible
            | NodeError::ClockJumped => return,
            NodeError::Refused(_) | NodeError::MarkerUnreadable { .. } => error,
            NodeError::Rejected { .. }
            | NodeError::CounterExhausted
            | NodeError::Panicked { .. }
            | NodeError::Unexpected { .. } => {
                NodeError::MarkerUnreadable { cause: Box::new(error) }
            }
        };
        let NodeError::Refused(Refusal::OtherMembers { other, configured, age, belongs }) = trouble
        else {
            *slot.trouble() = Some(trouble);
            let _ = self.admission().handle_unreadable(node);
            return;
        };
        let relation = self.admission().handle_other_members(node, &other, belongs);
        let refusal = match relation {
            Relation::Others => Some(Refusal::OtherMembers { other, configured, age, belongs }),
            Relation::Left => Some(Refusal::MembersChanged { now: other, configured }),
            // The next look knows what to do.
            Relation::Later(_) | Relation::Into(_) | Relation::Earlier | Relation::Claimed => None,
        };
        *slot.trouble() = refusal.map(NodeError::Refused);
        self.fleet.attention.notify_one();
    }

    /// Why a node's marker could not be read, such as a missing permission.
    fn trouble(&self, node: NodeId) -> Option<NodeError> {
        self.slot(node)?.trouble().clone()
    }
}

impl NodeSlot {
    fn trouble(&self) -> MutexGuard<'_, Option<NodeError>> {
        self.trouble.lock()
    }
}

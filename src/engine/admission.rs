//! What is known of the nodes' standing, and what the rest of the engine asks of it.
//!
//! It answers from what `protocol::Admission` says. It never makes an acquire wait, and asks no node anything;
//! `quarantine` does.

use std::sync::{Arc, MutexGuard, PoisonError, atomic::Ordering};

use super::{Engine, NodeSlot};
use crate::{
    node::{NodeError, NodeState},
    protocol::{Admission, Floor, Mark, NodeId, Standing},
};

impl Engine {
    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a node may be asked for a vote.
    pub(super) fn may_vote(&self, node: NodeId) -> Result<(), NodeError> {
        if self.config.classic {
            return Ok(());
        }
        let admission = self.admission();
        match admission.standing(node) {
            Standing::Ready => Ok(()),
            Standing::Unknown => Err(self.trouble(node).unwrap_or(NodeError::NotAdmitted)),
            Standing::Joining { .. } => {
                let remaining = admission.remaining(node, self.runtime.steady());
                Err(NodeError::Quarantined { remaining: remaining.unwrap_or_default() })
            }
        }
    }

    /// The hint of an acquire; none in classic mode.
    pub(super) fn hint(&self) -> Option<u64> {
        let wall_us = self.runtime.wall_us();
        (!self.config.classic).then(|| self.admission().hint(wall_us))
    }

    /// What is known of each node, for an acquire round that begins now.
    pub(super) fn marks(&self) -> Box<[Mark]> {
        if self.config.classic { Box::default() } else { self.admission().marks() }
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
        // Another process is there than the one whose standing is known.
        if self.slot(node).is_some_and(|slot| !slot.is_known(identity)) {
            return Some(NodeState::Connecting);
        }
        let admission = self.admission();
        match admission.standing(node) {
            Standing::Ready => None,
            Standing::Unknown => Some(match self.trouble(node) {
                Some(NodeError::Refused(refusal)) => NodeState::Refused(refusal),
                Some(error) => NodeState::Down { reason: Arc::from(error.to_string()) },
                None => NodeState::Connecting,
            }),
            Standing::Joining { .. } => {
                let remaining =
                    admission.remaining(node, self.runtime.steady()).unwrap_or_default();
                Some(NodeState::Quarantined { remaining })
            }
        }
    }

    /// Why a node's marker could not be read, such as a right that is missing.
    fn trouble(&self, node: NodeId) -> Option<NodeError> {
        self.slot(node)?.trouble().clone()
    }

    /// Takes note of what a failure says about a node's standing.
    pub(super) fn node_failed(&self, node: NodeId, error: &NodeError) {
        match error {
            NodeError::NotAdmitted => {
                let mut admission = self.admission();
                // One that is joining has said so before, and goes on waiting.
                if admission.standing(node) == Standing::Ready {
                    self.lapse(node, &mut admission);
                    self.fleet.attention.notify_one();
                }
            }
            NodeError::ClockJumped => {
                let Some(slot) = self.slot(node) else { return };
                // A look that is under way may have told of a newer era.
                let seen = slot.node.status().ok().and_then(|status| status.era);
                let mut admission = self.admission();
                let era = admission.era(node).max(seen).unwrap_or(u64::MAX).max(1);
                slot.jumped_in.store(era, Ordering::Release);
                self.lapse(node, &mut admission);
                self.fleet.attention.notify_one();
            }
            _ => {}
        }
    }

    /// Takes a node's standing away. What it was asked before that, and answers after it, does not count.
    pub(super) fn lapse(&self, node: NodeId, admission: &mut Admission) {
        admission.handle_forgotten(node);
        if let Some(slot) = self.slot(node) {
            slot.lapses.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often a node's standing has been taken away.
    pub(super) fn lapses(&self, node: NodeId) -> u64 {
        self.slot(node).map_or(0, |slot| slot.lapses.load(Ordering::Acquire))
    }
}

impl NodeSlot {
    /// The era in which the node's clock was seen to jump, until that has been dealt with.
    pub(super) fn jumped_in(&self) -> Option<u64> {
        Some(self.jumped_in.load(Ordering::Acquire)).filter(|era| *era != 0)
    }

    /// The floor that a sealed majority of the others gave it in this era.
    pub(super) fn sealed_floor(&self, era: u64) -> Option<Floor> {
        let sealed = *self.sealed_floor.lock().unwrap_or_else(PoisonError::into_inner);
        sealed.filter(|(sealed, _)| *sealed == era).map(|(_, floor)| floor)
    }

    pub(super) fn set_sealed_floor(&self, era: u64, floor: Floor) {
        *self.sealed_floor.lock().unwrap_or_else(PoisonError::into_inner) = Some((era, floor));
    }

    /// The jump in this era has been dealt with; one that was seen since has not.
    pub(super) fn forget_jump(&self, era: u64) {
        let _ = self.jumped_in.compare_exchange(era, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn set_trouble(&self, trouble: Option<NodeError>) {
        *self.trouble() = trouble;
    }

    /// Whether this has been noted already, and told.
    pub(super) fn has_trouble(&self, trouble: &NodeError) -> bool {
        self.trouble().as_ref() == Some(trouble)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<NodeError>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self, identity: Option<&Arc<str>>) -> bool {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == identity
    }

    /// Whether the server behind this node is another one than when it was last looked at.
    pub(super) fn is_another(&self, identity: Option<Arc<str>>) -> bool {
        let mut known = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        let another = known.is_some() && *known != identity;
        *known = identity;
        another
    }
}

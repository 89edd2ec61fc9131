//! Where the key of an acquire may stand, so that it has to be released there.
//!
//! It keeps what an acquire has set apart from what has turned out since. It must never forget a node on which
//! something may stand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::NodeId;

/// The nodes to release on.
#[derive(Debug)]
pub(crate) struct Footprint {
    /// Of each node, whether its acquire may still be executed.
    pub(crate) nodes: Vec<(NodeId, bool)>,
    pub(crate) refusals: Refusals,
}

impl Footprint {
    /// On one node, where the key has been set by something else than the acquire.
    pub(super) fn at(node: NodeId, may_land_late: bool) -> Self {
        Self { nodes: vec![(node, may_land_late)], refusals: Refusals::default() }
    }
}

/// The nodes that have refused an acquire after its release was sent there. Nothing was set on them, so that a release
/// that fails as well need not be sent again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<NodeId>>>);

impl Refusals {
    pub(super) fn add(&self, node: NodeId) {
        self.nodes().push(node);
    }

    pub(super) fn contain(&self, node: NodeId) -> bool {
        self.nodes().contains(&node)
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<NodeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

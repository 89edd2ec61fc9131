//! One step of a probe: what its driver does next.
//!
//! Plain values. It decides nothing.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Floor, Join};
use crate::{command::NodeId, members::Serves};

/// The driver's next step for the nodes' standing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ProbeStep {
    /// Look at these nodes at once. Each marker goes to [`Probe::handle_marker`](super::Probe::handle_marker) when it
    /// comes; failures are left out.
    Look(Vec<(NodeId, Join)>),
    /// Admit this node. Success goes to [`Probe::handle_admitted`](super::Probe::handle_admitted).
    Admit {
        /// Which.
        node: NodeId,
        /// The only epoch in which it is admitted.
        epoch: u64,
        /// Where its counters go on.
        floor: Floor,
        /// Whom it serves from then on.
        serves: Serves,
    },
    /// The probe is over. The next is due after this pause, or when a node has changed.
    Done(Duration),
}

/// The same look at each of these nodes.
pub(super) fn look_at(nodes: Vec<NodeId>, look: Join) -> ProbeStep {
    ProbeStep::Look(nodes.into_iter().map(|node| (node, look)).collect())
}

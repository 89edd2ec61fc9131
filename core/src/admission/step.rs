//! One step of a probe to the nodes: what whoever pumps it is asked to do next.
//!
//! Plain values. It decides nothing.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Floor, Join};
use crate::command::NodeId;

/// What is to be done next for the nodes' standing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ProbeStep {
    /// Look at these nodes at once. Each marker goes to [`Probe::handle_marker`](super::Probe::handle_marker) when it comes; what fails is left out.
    Look(Vec<(NodeId, Join)>),
    /// Let this node vote. That it was let in goes to [`Probe::handle_admitted`](super::Probe::handle_admitted).
    Admit {
        /// Which.
        node: NodeId,
        /// In this epoch, and in no other.
        epoch: u64,
        /// From where its counters go on.
        floor: Floor,
    },
    /// It is over. The next one is due after this pause, or when a node has changed.
    Done(Duration),
}

/// The same look at each of these nodes.
pub(super) fn look_at(nodes: Vec<NodeId>, look: Join) -> ProbeStep {
    ProbeStep::Look(nodes.into_iter().map(|node| (node, look)).collect())
}

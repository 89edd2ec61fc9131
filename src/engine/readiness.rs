//! Waits until the nodes are in a wanted state.
//!
//! It asks nothing of a node, and decides nothing of locks.

use super::Engine;
use crate::{
    node::{NodeState, NodeStatus},
    protocol::{NodeId, NodeSet, Timestamp},
};

/// The nodes that vote.
pub(crate) fn ready(statuses: &[NodeStatus]) -> NodeSet {
    let ready = statuses.iter().enumerate().filter(|(_, status)| status.state == NodeState::Ready);
    ready.map(|(index, _)| NodeId::new(index)).collect()
}

impl Engine {
    /// Ends when it is known of every node how its first connection ended and whether it may vote; or at `deadline`.
    pub(crate) async fn tried(&self, deadline: Timestamp) -> Vec<NodeStatus> {
        // A node whose quarantine is over is about to be admitted, unless it is held back.
        let settled = |status: &NodeStatus| match status.state {
            NodeState::Connecting => false,
            NodeState::Quarantined { remaining } => !remaining.is_zero(),
            _ => true,
        };
        self.seen(deadline, |statuses| statuses.iter().all(settled)).await
    }

    /// Ends when the nodes are as `wanted`, or at `deadline`.
    pub(crate) async fn seen(
        &self,
        deadline: Timestamp,
        wanted: impl Fn(&[NodeStatus]) -> bool,
    ) -> Vec<NodeStatus> {
        let mut timeout = self.runtime.sleep_until(deadline);
        loop {
            // Registered before the nodes are looked at, so that no change in between is missed.
            let changed = self.fleet.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let statuses = self.statuses();
            if wanted(&statuses) {
                return statuses;
            }
            if let futures::future::Either::Right(_) =
                futures::future::select(changed, &mut timeout).await
            {
                return self.statuses();
            }
        }
    }

    /// Waits until a quorum of nodes votes, or until `deadline`, and returns the nodes' states; `None` once nothing
    /// runs the engine.
    pub(crate) async fn voting(&self, deadline: Timestamp) -> Option<Vec<NodeStatus>> {
        let mut timeout = self.runtime.sleep_until(deadline);
        while self.is_served() {
            // Registered before the nodes are looked at, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.fleet.changed.notified());
            changed.as_mut().enable();
            let statuses = self.statuses();
            if self.quorum.is_met_by(ready(&statuses)) {
                return Some(statuses);
            }
            if let futures::future::Either::Right(_) =
                futures::future::select(changed, &mut timeout).await
            {
                return self.is_served().then(|| self.statuses());
            }
        }
        None
    }
}

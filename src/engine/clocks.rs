//! Looks at the clocks of all nodes, and asks the others whose it was when one has jumped.
//!
//! It carries out what `protocol::Clocks` decides. It must not let a jump be judged by readings from before it.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Engine, NodeSlot};
use crate::{
    node::{Join, NodeState},
    protocol::{Blame, Clocks, NodeClock, NodeId, Timestamp, Witness},
    telemetry,
};

/// Two looks are taken, and two more where a further jump is seen in them, but no more often than this. Then it is
/// left for the next time.
const MOST_LOOKS: usize = 4;

impl Engine {
    /// The nodes that are to blame for a jump of their clocks, and have to join again for the whole fleet. Where it
    /// was our own clock nobody is blamed. Where too few can tell, the nodes in question do not vote for this client
    /// until they can, or until a quarantine is over that only this client keeps.
    pub(super) async fn judge_clocks(self: &Arc<Self>) -> Vec<NodeId> {
        let mut suspects = self.suspects();
        if suspects.iter().all(Option::is_none) {
            return Vec::new();
        }
        for _ in 0..MOST_LOOKS {
            let (answered, clocks) = self.look_at_clocks(&self.connected_nodes()).await;
            let _ = self.look_at_clocks(&answered).await;
            let seen_by_then = std::mem::replace(&mut suspects, self.suspects());
            if suspects == seen_by_then {
                return self.judge(&answered, &clocks);
            }
        }
        Vec::new()
    }

    fn judge(&self, answered: &[NodeId], clocks: &[Option<NodeClock>]) -> Vec<NodeId> {
        let connected = self.connected_nodes();
        let witness = |(index, slot): (usize, &NodeSlot)| {
            let node = NodeId::new(index);
            let clock = clocks.get(index).copied().flatten();
            let suspected = slot.jumped_in().is_some() && connected.contains(&node);
            Witness::new(suspected, answered.contains(&node), clock)
        };
        let witnesses: Vec<Witness> = self.nodes.iter().enumerate().map(witness).collect();
        let quarantine = self.admission().quarantine();
        let verdicts = self.clocks().judge(&witnesses, self.runtime.steady(), quarantine);
        let mut blamed = Vec::new();
        let mut ours = false;
        for (index, (slot, verdict)) in self.nodes.iter().zip(verdicts).enumerate() {
            match (verdict, slot.jumped_in()) {
                (Some(Blame::Node), _) => blamed.push(NodeId::new(index)),
                (Some(Blame::Ours), Some(era)) => {
                    ours = true;
                    slot.forget_jump(era);
                }
                (Some(Blame::Nobody), Some(era)) => slot.forget_jump(era),
                _ => {}
            }
        }
        if ours {
            telemetry::own_clock_jumped();
        }
        blamed
    }

    /// Notes what the clocks have shown at a look that began at `since`, if it was at everyone. A node that has just
    /// been met was not looked at together with the others, and so all are looked at once more.
    pub(super) async fn note_clocks(
        self: &Arc<Self>,
        since: Timestamp,
        everyone: bool,
        read: &[NodeId],
    ) {
        let just_met = |node: &NodeId| {
            let tells = self.slot(*node).is_some_and(|slot| slot.node.clock().is_some());
            tells && !self.clocks().has_seen(*node)
        };
        let (since, clocks) = if everyone {
            (since, self.node_clocks())
        } else if read.iter().any(just_met) {
            let since = self.runtime.steady();
            (since, self.look_at_clocks(&self.connected_nodes()).await.1)
        } else {
            return;
        };
        // One that shows a jump is judged first.
        if self.suspects().iter().all(Option::is_none) {
            self.clocks().handle_look(since, &clocks);
        }
    }

    /// Reads the clocks of some nodes at once. Returns which have answered, and the clocks of all.
    async fn look_at_clocks(
        self: &Arc<Self>,
        nodes: &[NodeId],
    ) -> (Vec<NodeId>, Vec<Option<NodeClock>>) {
        let since = self.runtime.steady();
        let look = Join::look(self.admission().longest());
        let read = self.markers(nodes, look, &[]).await;
        let clocks = self.node_clocks();
        let answered = |node: &NodeId| match clocks.get(node.index()).copied().flatten() {
            Some(clock) => clock.read_at().is_some_and(|at| at >= since),
            // One that does not tell its clock is not heard while it is in question, but it is there.
            None => {
                let suspected = self.slot(*node).is_some_and(|node| node.jumped_in().is_some());
                suspected || read.iter().any(|(other, _)| other == node)
            }
        };
        (nodes.iter().copied().filter(answered).collect(), clocks)
    }

    /// The nodes whose clocks are in question, each with the series that has begun since.
    fn suspects(&self) -> Vec<Option<u64>> {
        let suspect = |slot: &NodeSlot| {
            slot.jumped_in().map(|_| slot.node.clock().map_or(0, |clock| clock.series()))
        };
        self.nodes.iter().map(suspect).collect()
    }

    fn node_clocks(&self) -> Vec<Option<NodeClock>> {
        self.nodes.iter().map(|slot| slot.node.clock()).collect()
    }

    fn connected_nodes(&self) -> Vec<NodeId> {
        let connected = |node: &NodeId| {
            self.slot(*node)
                .and_then(|slot| slot.node.status().ok())
                .is_some_and(|status| status.state == NodeState::Ready)
        };
        (0..self.nodes.len()).map(NodeId::new).filter(connected).collect()
    }

    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

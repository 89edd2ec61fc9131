//! Who holds a resource: asks every node once, beside whatever else is under way.
//!
//! It takes no turn and no lock, and delays no request. An answer counts like a vote: only if the node might vote all
//! the time, since a node that has forgotten would report no holder.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    Engine,
    fanout::{Fanout, Progress},
};
use crate::{
    node::NodeError,
    protocol::{NodeId, Note, Resource, Sighting},
};

/// What each node says, in node order.
pub(crate) type Sightings = Vec<Result<Sighting, NodeError>>;

/// The answers of those nodes that have one.
pub(crate) fn answered(seen: &Sightings) -> impl Iterator<Item = (NodeId, &Sighting)> + Clone {
    let seen = seen.iter().enumerate();
    seen.filter_map(|(index, seen)| Some((NodeId::new(index), seen.as_ref().ok()?)))
}

impl Engine {
    /// The note of a round that begins now; none without a label, nor in classic mode, where nodes keep none.
    pub(super) fn note(&self) -> Option<Note> {
        let label = self.config.label.as_ref().ok()?.as_ref().filter(|_| !self.config.classic)?;
        Some(Note::new(self.runtime.wall_us(), label.clone()))
    }

    /// Asks who holds a resource. The sender is dropped if the runtime has ended.
    pub(crate) fn ask_who_holds(
        self: &Arc<Self>,
        resource: Resource,
    ) -> oneshot::Receiver<Sightings> {
        let (answer, receiver) = oneshot::channel();
        if self.is_served() {
            let engine = Arc::clone(self);
            // Not counted: closing need not wait for a mere query.
            self.spawn_uncounted(async move {
                // The caller may be gone.
                let _ = answer.send(engine.who_holds(&resource).await);
            });
        }
        receiver
    }

    async fn who_holds(&self, resource: &Resource) -> Sightings {
        let mut seen: Sightings = vec![Err(NodeError::TimedOut); self.nodes.len()];
        let mut calls: Fanout<Sighting> = Fanout::new(self);
        for (index, (slot, seen)) in self.nodes.iter().zip(&mut seen).enumerate() {
            let node = NodeId::new(index);
            match slot.node.reachable().and_then(|()| self.may_vote(node)) {
                Ok(()) => {
                    let answer = slot.node.holder(resource.clone(), !self.config.classic);
                    calls.add_vote(self, node, answer);
                }
                Err(error) => *seen = Err(error),
            }
        }
        while let Progress::Answered((node, answer)) = calls.progress(self).await {
            if let Some(seen) = seen.get_mut(node.index()) {
                *seen = answer;
            }
        }
        seen
    }

    /// The address of each node.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().map(|slot| &slot.address)
    }
}

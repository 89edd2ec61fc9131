//! Who holds a resource, and what is done of it: asks every node once, beside whatever else is under way.
//!
//! It takes no turn and no lock, and delays no request. An answer counts like a vote: only if the node might vote all
//! the time, since a node that has forgotten would report no holder.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    Engine, NodeSlot,
    fanout::{Fanout, Progress},
    shield::Answering,
};
use crate::{
    node::NodeError,
    protocol::{Completed, NodeId, Note, Resource, Sighting},
};

/// The longest pause before nodes are told again what is done.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What each node says, in node order.
type Said<T> = Vec<Result<T, NodeError>>;

/// What each node says of a key.
pub(crate) type Sightings = Said<Sighting>;

/// What each node says to be done of a resource.
pub(crate) type Completions = Said<Option<Completed>>;

/// The answers of those nodes that have one.
pub(crate) fn answered<T>(
    said: &[Result<T, NodeError>],
) -> impl Iterator<Item = (NodeId, &T)> + Clone {
    let said = said.iter().enumerate();
    said.filter_map(|(index, said)| Some((NodeId::new(index), said.as_ref().ok()?)))
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
        let fenced = !self.config.classic;
        self.ask_voters(move |slot| slot.node.holder(resource.clone(), fenced))
    }

    /// Asks what is done of a resource, or has that kept. The sender is dropped if the runtime has ended.
    pub(crate) fn ask_completed(
        self: &Arc<Self>,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> oneshot::Receiver<Completions> {
        self.ask_voters(move |slot| slot.node.completed(resource.clone(), every, done.clone()))
    }

    /// Goes on telling all nodes what is done until each has it, with longer and longer pauses, for half of a period at
    /// most. It does not keep the engine alive.
    pub(crate) fn tell_completed(
        self: &Arc<Self>,
        resource: Resource,
        every: Duration,
        done: Completed,
    ) {
        let (this, mut pause) = (Arc::downgrade(self), self.config.node_timeout);
        let begun = self.now();
        let until = begun.saturating_add(every / 2);
        self.spawn_uncounted(async move {
            loop {
                let Some(wait) = this.upgrade().and_then(|engine| {
                    let at = engine.now().saturating_add(pause);
                    (at < until).then(|| engine.sleep_until(at))
                }) else {
                    return;
                };
                wait.await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                let Some(engine) = this.upgrade() else { return };
                let left = done.left.saturating_sub(engine.now().saturating_since(begun));
                let told = Completed { left, ..done.clone() };
                let ask = |slot: &NodeSlot| {
                    slot.node.completed(resource.clone(), every, Some(told.clone()))
                };
                if engine.told_by_voters(ask).await.iter().all(Result::is_ok) {
                    return;
                }
            }
        });
    }

    fn ask_voters<T: Clone + Send + 'static>(
        self: &Arc<Self>,
        ask: impl Fn(&NodeSlot) -> Answering<T> + Send + 'static,
    ) -> oneshot::Receiver<Said<T>> {
        let (answer, receiver) = oneshot::channel();
        if self.is_served() {
            let engine = Arc::clone(self);
            // Not counted: closing need not wait for a mere query.
            self.spawn_uncounted(async move {
                // The caller may be gone.
                let _ = answer.send(engine.told_by_voters(ask).await);
            });
        }
        receiver
    }

    async fn told_by_voters<T: Clone>(&self, ask: impl Fn(&NodeSlot) -> Answering<T>) -> Said<T> {
        let mut said: Said<T> = vec![Err(NodeError::TimedOut); self.nodes.len()];
        let mut calls: Fanout<T> = Fanout::new(self);
        for (index, (slot, said)) in self.nodes.iter().zip(&mut said).enumerate() {
            let node = NodeId::new(index);
            match slot.node.reachable().and_then(|()| self.may_vote(node)) {
                Ok(()) => calls.add_vote(self, node, ask(slot)),
                Err(error) => *said = Err(error),
            }
        }
        while let Progress::Answered((node, answer)) = calls.progress(self).await {
            if let Some(said) = said.get_mut(node.index()) {
                *said = answer;
            }
        }
        said
    }

    /// The address of each node.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().map(|slot| &slot.address)
    }
}

//! Queries of operators to all nodes: facts of their servers, pages of their keys, and the release of a lease by its
//! owner's name.
//!
//! It decides nothing, and no answer is a vote: a node that must not vote is asked too.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    Engine, NodeSlot,
    fanout::{Fanout, Progress},
    shield::{Answering, Shielded},
};
use crate::{
    node::{NodeError, NodeLine, Page, Scan, ServerFacts},
    protocol::{Command, NodeId, Owner, Reply, Resource, Target},
};

/// What each node has answered, in node order.
pub(crate) type Answers<T> = Vec<Result<T, NodeError>>;

/// What a node has pages of: keys that look like locks, or lines.
pub(crate) trait Scanned: Sized + Send + 'static {
    #[allow(private_interfaces, reason = "only the engine calls it")]
    fn page(node: &Shielded, scan: Scan) -> Answering<Page<Self>>;
}

impl Scanned for Box<[u8]> {
    #[allow(private_interfaces, reason = "as above")]
    fn page(node: &Shielded, scan: Scan) -> Answering<Page<Self>> {
        node.scan(scan)
    }
}

impl Scanned for NodeLine {
    #[allow(private_interfaces, reason = "as above")]
    fn page(node: &Shielded, scan: Scan) -> Answering<Page<Self>> {
        node.scan_lines(scan)
    }
}

/// The most commands that ask one node for its facts, each of which may take the connect timeout.
const FACTS: u32 = 12;

impl Engine {
    /// Asks every node for facts of its server, and looks at its clock for the time `over`.
    pub(crate) fn ask_facts(
        self: &Arc<Self>,
        over: Duration,
    ) -> oneshot::Receiver<Answers<ServerFacts>> {
        let limit = self.config.connect_timeout.saturating_mul(FACTS).saturating_add(over);
        self.ask_each(limit, move |slot| slot.node.examine(over))
    }

    /// Asks a node for a page of what it has. The answers are those of all nodes; the others are not asked, and are
    /// `TimedOut`.
    pub(crate) fn ask_page<T: Scanned>(
        self: &Arc<Self>,
        node: NodeId,
        scan: Scan,
    ) -> oneshot::Receiver<Answers<Page<T>>> {
        let asked = self.slot(node).map(|slot| Arc::clone(&slot.address));
        self.ask_each(self.config.connect_timeout, move |slot| {
            if asked.as_ref().is_some_and(|asked| Arc::ptr_eq(asked, &slot.address)) {
                T::page(&slot.node, scan.clone())
            } else {
                NodeError::TimedOut.into()
            }
        })
    }

    /// Has every node delete the key of a resource if its value is this owner.
    pub(crate) fn ask_release(
        self: &Arc<Self>,
        resource: Resource,
        owner: Owner,
    ) -> oneshot::Receiver<Answers<Reply>> {
        let target = Target::One(resource);
        self.ask_each(self.config.node_timeout, move |slot| {
            slot.node.call(Command::Release { target: target.clone(), owner, keep: None })
        })
    }

    /// Asks every node, and answers when all have answered or the limit has passed. The sender is dropped if the
    /// runtime has ended.
    fn ask_each<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        mut ask: impl FnMut(&NodeSlot) -> Answering<T> + Send + 'static,
    ) -> oneshot::Receiver<Answers<T>> {
        let (answer, receiver) = oneshot::channel();
        if self.is_served() {
            let engine = Arc::clone(self);
            // Not counted: closing need not wait for a mere query.
            self.spawn_uncounted(async move {
                let until = engine.now().saturating_add(limit);
                let mut answers: Answers<T> =
                    engine.nodes.iter().map(|_| Err(NodeError::TimedOut)).collect();
                let mut calls: Fanout<T> = Fanout::until(&engine, until);
                for (index, slot) in engine.nodes.iter().enumerate() {
                    calls.add(NodeId::new(index), ask(slot));
                }
                while let Progress::Answered((node, answer)) = calls.progress(&engine).await {
                    if let Some(slot) = answers.get_mut(node.index()) {
                        *slot = answer;
                    }
                }
                // The caller may be gone.
                let _ = answer.send(answers);
            });
        }
        receiver
    }
}

//! Every future of the API dropped at every point, with every node behaving in every way.
//!
//! Goal: whatever a caller drops, and whenever, nothing of ours stays behind on any node, and nothing
//! stays active. Method: nodes that follow a script (`node.rs`) on the simulation's runtime, in virtual
//! time; the cross product of seven behaviours on three nodes with every step of the engine as a point at
//! which to drop. Afterwards everything settles, and `Fixture::assert_clean` looks at what is left.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod acquire;
mod heard;
mod holds;
mod node;
mod pending;
mod release;
mod restore;
mod turns;

use std::{sync::Arc, time::Duration};

use node::{Behaviour, ScriptedNode};
use quorlock::runtime::Runtime as _;
use quorlock::{Redlock, node::NodeSpec};
use quorlock_harness::SimRuntime;

const MS: Duration = Duration::from_millis(1);

/// Short beside the ttl, so that a key which merely expired is not taken for one that was released.
const NODE_TIMEOUT: Duration = Duration::from_millis(10);
const TTL: Duration = Duration::from_secs(10);

struct Fixture {
    runtime: SimRuntime,
    nodes: Vec<ScriptedNode>,
    redlock: Redlock,
}

impl Fixture {
    fn new(seed: u64, behaviours: [Behaviour; 3]) -> Self {
        Self::with(seed, behaviours, |_| ())
    }

    /// Nodes that are prepared before they begin to behave as they are to.
    fn with(seed: u64, behaviours: [Behaviour; 3], prepare: impl FnOnce(&[ScriptedNode])) -> Self {
        let runtime = SimRuntime::new(seed);
        let nodes: Vec<_> = (0..3)
            .map(|index| ScriptedNode::new(index, behaviours[index], runtime.clone()))
            .collect();
        let redlock = Redlock::builder()
            .nodes(nodes.iter().map(|node| NodeSpec::new(Arc::new(node.clone()))))
            .ttl(TTL)
            .wait(15 * MS)
            .node_timeout(NODE_TIMEOUT)
            .retry(MS, 5 * MS)
            .close_timeout(Duration::from_secs(3600))
            .runtime(Arc::new(runtime.clone()))
            .build()
            .unwrap();
        // All are admitted before any misbehaves: one that is not is left out of every round.
        runtime.pass(MS);
        prepare(&nodes);
        nodes.iter().for_each(ScriptedNode::begin);
        Self { runtime, nodes, redlock }
    }

    /// Lets everything settle, and finds nothing left: long before the ttl no node that answers holds a
    /// key of ours, every acquire that may have been executed has a release behind it; a node that was
    /// stopped all the while goes on and holds nothing either; and closing works.
    fn assert_clean(&self, what: &str) {
        self.runtime.pass(Duration::from_secs(1));
        for node in &self.nodes {
            assert_eq!(node.our_keys(), Vec::<Vec<u8>>::new(), "{what}: left on {node:?}");
            assert_eq!(node.not_released(), Vec::new(), "{what}: no release was sent to {node:?}");
        }
        self.nodes.iter().for_each(ScriptedNode::revive);
        self.assert_closes(what);
        for node in &self.nodes {
            assert_eq!(node.our_keys(), Vec::<Vec<u8>>::new(), "{what}: came late on {node:?}");
        }
        self.runtime.shut_down();
    }

    fn assert_closes(&self, what: &str) {
        let redlock = self.redlock.clone();
        let closed = self.runtime.block_on(async move { redlock.close().await });
        assert_eq!(closed.map(|closed| closed.held), Ok(0), "{what}");
    }
}

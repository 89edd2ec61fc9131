//! Goal: a handle answers operators by what is there, whatever kind of node it is; and a resource is taken from the one
//! holder that a quorum names, and from no other.
//!
//! Method: nodes in memory where the answer depends on keys alone, real servers where it depends on a server. The command
//! `quorlock doctor` has its own tests (`cli/tests/operators`), and findings those of planted facts (`src/inspect`).
#![cfg(feature = "inspect")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod facts;
mod fleet;
mod forced;
mod lines;
mod listed;
mod races;

use std::time::Duration;

use futures::executor::block_on;
use quorlock::{Redlock, node::MemoryNode};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

fn nodes(count: usize) -> Vec<MemoryNode> {
    (0..count).map(|_| MemoryNode::new()).collect()
}

fn connect(nodes: &[MemoryNode]) -> Redlock {
    block_on(Redlock::connect(nodes)).unwrap()
}

//! The whole crate, unchanged, in virtual time: clients, nodes, a network and a nemesis, from one seed.
//!
//! Goal: the seams hold, and under faults no two clients ever hold one resource at once, and nothing stays
//! behind. Method: `world.rs` runs clients on `SimRuntime` (virtual time) over `SimNode`s (a `MemoryNode`
//! behind an unreliable connection), `invariants/` judges the history, and bugs that are planted on
//! purpose show that it can tell. A seed that fails prints the command that replays it.
//!
//! Not modelled: the wire, forks, and threads.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod determinism;
mod elections;
mod faults;
mod invariants;
mod jumps;
mod machine;
mod node;
mod once;
mod planted;
mod processes;
mod reached;
mod seeds;
mod setup;
mod world;

use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

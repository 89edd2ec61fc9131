//! Goal: what has been seen of a node outweighs an answer that the node gave before, no clock is blamed, or forgiven,
//! for lack of evidence, and counters go on from what was said under a seal.
//!
//! Method: nodes in memory behind a node of our own that holds back an answer, says of one command that the clock
//! has jumped, or is cut off (`slow.rs`); in `seals.rs`, behind one that notes in which order nodes are sealed and
//! admitted. Where times matter they are virtual; an answer is let go once the event that must precede it has happened.
#![cfg(feature = "tokio")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod jumps;
#[cfg(feature = "tracing")]
mod log;
mod looks;
mod rounds;
mod seals;
mod slow;
mod stale_answers;

use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);

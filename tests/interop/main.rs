//! Goal: this crate and other lock libraries exclude each other on the same nodes, so that a fleet can migrate service by
//! service, and services in several languages can share a lock (`docs/moving.md`).
//!
//! Method: the other library itself, on the same real servers. `rslock` is linked; those of other languages are installed
//! by their package names and run in processes of their own. Where that cannot be done the tests beside them are undecided.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod foreign;
mod line;
mod others;
mod peers;
mod readers;
mod rslock;
mod together;

use std::time::Duration;

use quorlock::{Builder, Redlock};
use quorlock_harness::Cluster;

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);

/// A client on servers made for the test, with timing not the subject.
fn quorlock(cluster: &Cluster) -> Builder {
    let builder = Redlock::builder().nodes(cluster.urls()).node_timeout(2 * SECOND);
    builder.connect_timeout(10 * SECOND).max_ttl(600 * SECOND).danger_skip_quarantine()
}

//! Goal: each recipe of `docs/fencing.md` refuses a holder whose lease is over.
//!
//! Method: two clients share three nodes. The lease of the first runs out, the second gets the next one, and
//! then both write to a real store.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod http;
mod readers;
mod redis;
mod sqlite;

use std::time::Duration;

use quorlock::{Lease, Redlock, node::MemoryNode};

/// Two clients of the same nodes.
async fn two_clients() -> (Redlock, Redlock) {
    let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    let client = || Redlock::connect(&nodes);
    (client().await.unwrap(), client().await.unwrap())
}

/// A lease that is not renewed, and so will be lost.
async fn short_lease(redlock: &Redlock) -> Lease {
    let request = redlock.acquire("invoice:42").ttl(Duration::from_millis(150)).without_renewal();
    request.await.unwrap()
}

/// The next lease, granted once the one before is lost.
async fn next_lease(redlock: &Redlock, before: &Lease) -> Lease {
    before.lost().await;
    let next = redlock.acquire("invoice:42").wait(Duration::from_secs(20)).await.unwrap();
    assert!(next.token().unwrap() > before.token().unwrap());
    before.check().expect_err("the one before is over");
    next
}

/// The token as stores take it.
fn token(lease: &Lease) -> u64 {
    lease.token().expect("a token").get()
}

//! Goal: each file of `examples/fences` keeps a holder out whose lease is over, whatever else is at work; and so do the
//! statements of `docs/fencing.md` and `docs/kinds.md`.
//!
//! Method: clients share three nodes in memory, and write to a real store by the file. `late` has a holder that is paused
//! beyond its lease, `crowd` many writers at once whose history is judged. Each judge must find the fault where the
//! comparison is taken out of the file.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod crowd;
mod http;
mod late;
mod objects;
mod page;
mod postgres;
mod readers;
mod redis;
mod sqlite;

use std::time::Duration;

use quorlock::{Lease, Redlock, node::MemoryNode};

/// A store as one of its writers reaches it. An error that is not about the token is a panic.
trait Store {
    /// Whether the store has taken the value.
    async fn write(&mut self, token: u64, value: &str) -> bool;

    /// The value as a holder reads it, which moves the fence. Nothing where a later holder has been here.
    async fn read(&mut self, token: u64) -> Option<String>;

    /// The value as anybody reads it.
    async fn look(&mut self) -> String;
}

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

/// The text of a file with one place changed, as a fault is planted.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "`{from}` stands once");
    text.replace(from, to)
}

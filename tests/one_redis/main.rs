//! Goal: one address with a master behind it, and a replica that is promoted when the master is gone, is safe with this
//! crate at the price of a quarantine (`docs/deploying.md`); and is not with a plain `SET NX PX` or with `rlock`.
//!
//! Method: two real servers that replicate, behind a proxy that is the one address. Replication is cut, so that the
//! replica misses the last writes, the master is killed, the replica promoted, the address turned. Every worker writes
//! down from when until when its leases held, by its own `check()`; no two may overlap.
#![cfg(all(feature = "redis", feature = "tracing"))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod failover;
mod group;
mod kept;
mod lives_on;
mod log;
mod managed;
mod other_locks;
mod pair;
mod planned;
mod sentinel;
mod workers;

use std::time::{Duration, Instant};

use quorlock::{Builder, Lease, Redlock, node::NodeState};

use pair::Pair;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

/// Short, so that the quarantine is: it is `TTL`, a tenth of it, and two node timeouts.
const TTL: Duration = Duration::from_secs(2);
const NODE_TIMEOUT: Duration = Duration::from_millis(200);
const QUARANTINE: Duration = Duration::from_millis(2_600);

/// A client of the one address that knows of no other client, ready to acquire.
async fn client(pair: &Pair) -> Redlock {
    let redlock = joining(pair).await;
    soon("it votes", || state(&redlock) == NodeState::Ready).await;
    redlock
}

/// The same, not yet ready.
async fn joining(pair: &Pair) -> Redlock {
    settings(pair).connect().await.unwrap()
}

fn settings(pair: &Pair) -> Builder {
    let builder = Redlock::builder().node(pair.url()).node_timeout(NODE_TIMEOUT);
    builder.connect_timeout(10 * SECOND).close_timeout(20 * SECOND).ttl(TTL).max_ttl(TTL)
}

fn state(redlock: &Redlock) -> NodeState {
    redlock.nodes()[0].state.clone()
}

/// Waits for a condition without blocking the thread.
async fn soon(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        tokio::time::sleep(5 * MS).await;
    }
}

#[track_caller]
fn token(lease: &Lease) -> u64 {
    lease.token().expect("a fencing token").get()
}

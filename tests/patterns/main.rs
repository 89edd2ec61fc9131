//! Goal: every step from a lock of two commands to a fenced quorum lock is there for a reason.
//!
//! Method: each test shows a common pattern failing on real servers, by the commands alone, and then the call
//! of this crate in the same situation, which has no such failure (`docs/fencing.md`). It waits for
//! conditions up to a deadline, never for a fixed time.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod failover;
mod getset;
mod paused_holder;
mod plain_del;
mod plain_redlock;
mod reentrancy;
mod renewal;
mod setnx_expire;

use std::time::Duration;

use quorlock::{Builder, Redlock};
use quorlock_harness::{
    Cluster, Server, all_ready, connected, eventually,
    redis::{Value, from_redis_value},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

/// Settings for tests in which timing is not the subject, on servers made for the test.
fn throwaway() -> Builder {
    Redlock::builder()
        .node_timeout(2 * SECOND)
        .connect_timeout(10 * SECOND)
        .max_ttl(60 * SECOND)
        .danger_skip_quarantine()
}

/// A client of these nodes that knows of no other client.
fn client(cluster: &Cluster) -> Redlock {
    connected(throwaway().nodes(cluster.urls()))
}

/// The number that a command answers with.
#[track_caller]
fn number(server: &Server, command: &[&str]) -> i64 {
    from_redis_value(server.run(command)).unwrap()
}

/// `SET key value NX PX ms`: whether it was set.
#[track_caller]
fn set_nx_px(server: &Server, key: &str, value: &str, ms: &str) -> bool {
    match server.run(&["SET", key, value, "NX", "PX", ms]) {
        Value::Okay => true,
        Value::Nil => false,
        other => panic!("{other:?}"),
    }
}

/// Waits until a key has expired on a server.
#[track_caller]
fn expired(server: &Server, key: &str) {
    eventually("the key has expired", SOON, || server.pttl(key) == -2);
}

//! Goal: every promise of the public API holds against real servers, with real kills, pauses and cut
//! connections.
//!
//! Method: each test starts servers of its own through the harness, acts through `Redlock`, and looks
//! at the keys past the code under test. It waits for conditions up to a deadline, never for a fixed
//! time; the nodes' time limits are generous wherever timing is not the subject.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod acquire;
mod conformance;
mod credentials;
mod detached;
mod forgotten;
mod holder;
mod line_rights;
mod links;
mod markers;
mod nodes;
mod once;
mod own_clock;
mod places;
mod refusals;
#[cfg(all(target_os = "linux", feature = "tracing"))]
mod resolver;
mod returns;
#[cfg(feature = "tls-rustls-ring")]
mod tls;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use quorlock::{Builder, Redlock, node::NodeState};
use quorlock_harness::{Cluster, Server, all_ready, chain, connected, eventually, redis};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

/// Settings for tests in which timing is not the subject.
fn plain() -> Builder {
    let builder = Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
    builder.close_timeout(20 * SECOND)
}

/// The same for servers that have just been started for the test, and would be quarantined.
fn patient() -> Builder {
    plain().max_ttl(120 * SECOND).danger_skip_quarantine()
}

/// Stops, or kills and empties, one of three nodes after another until it is over; behind each all are ready again, so that the
/// next one is a minority too. Returns how many it were.
fn fail_one_by_one(cluster: &Cluster, is_over: &AtomicBool, all_are_ready: impl Fn()) -> usize {
    let mut faults = 0;
    while !is_over.load(Ordering::Relaxed) {
        let node = &cluster[faults % 3];
        if faults % 4 == 3 {
            node.kill();
            node.restart_empty();
        } else {
            node.pause();
            std::thread::sleep(200 * MS);
            node.resume();
        }
        faults += 1;
        all_are_ready();
    }
    faults
}

/// All nodes of a cluster, connected.
fn connect(cluster: &Cluster) -> Redlock {
    connected(patient().nodes(cluster.urls()))
}

#[track_caller]
fn is_down(redlock: &Redlock, node: usize) {
    eventually("the node is seen to be down", SOON, || {
        matches!(redlock.nodes()[node].state, NodeState::Down { .. })
    });
}

/// Waits until no key is left on any node that can be asked.
#[track_caller]
fn no_key_within(cluster: &Cluster, within: Duration) {
    eventually("no key is left on any node", within, || cluster.locks_left().is_empty());
}

/// Acquires and releases without ever waiting for a node that does not answer.
fn undisturbed(redlock: &Redlock, node_timeout: Duration) {
    let started = Instant::now();
    let lease = redlock.try_acquire("r").ttl(60 * SECOND).blocking().unwrap();
    let acquired = started.elapsed();
    lease.blocking_release().unwrap();
    let released = started.elapsed();
    assert!(released < node_timeout, "acquired after {acquired:?}, released after {released:?}");
}

/// Everything that a server executes from now on, in order, as `MONITOR` tells it.
struct Monitor(redis::Connection);

impl Monitor {
    fn start(server: &Server) -> Self {
        let mut connection = server.control();
        redis::cmd("MONITOR").exec(&mut connection).expect("MONITOR");
        Self(connection)
    }

    /// The next line that contains `text`.
    #[track_caller]
    fn next(&mut self, text: &str) -> String {
        loop {
            let line = self.0.recv_response().unwrap_or_else(|error| panic!("no {text}: {error}"));
            let line: String = redis::from_redis_value(line).expect("a line of text");
            if line.contains(text) {
                return line;
            }
        }
    }
}

//! Goal: at most one holder at a time, and nothing left behind, while nodes are killed, hung and cut off.
//!
//! Method: workers of several `Redlock`s fight for one resource on five real servers while a nemesis
//! harms a minority at a time. Every lease is recorded with the time in which its holder may act, and
//! the history is searched for two holders at once. That the search finds them is tested too: by
//! planted histories, and by the same workload on locks that really do not exclude each other.
//! `QUORLOCK_CHAOS_SECONDS` says for how long (20).
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod checker;
mod drops;
mod nemesis;
mod workload;

use std::time::Duration;

use quorlock::{Builder, Redlock, node::NodeState};
use quorlock_harness::{Cluster, eventually};

use self::{nemesis::Nemesis, workload::Workload};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The ttl of every lease of the workload: long beside a round, short beside a fault.
const TTL: Duration = Duration::from_millis(800);
const WORKERS: usize = 8;
const RESOURCE: &str = "chaos";

fn run_time() -> Duration {
    let seconds = std::env::var("QUORLOCK_CHAOS_SECONDS").ok();
    Duration::from_secs(seconds.map_or(20, |text| text.parse().expect("a number of seconds")))
}

fn settings() -> Builder {
    Redlock::builder().ttl(TTL).node_timeout(100 * MS).connect_timeout(SECOND)
}

#[test]
fn there_is_never_more_than_one_holder() {
    // A node that is restarted with its keys must have written them down.
    let cluster = Cluster::start_with(5, |_, builder| builder.append_only(true));
    let clients: Vec<Redlock> =
        (0..3).map(|_| settings().nodes(cluster.urls()).connect_blocking().unwrap()).collect();

    let workload = Workload::start(&clients, WORKERS);
    let faults = Nemesis::new(&cluster).rage(run_time(), || workload.granted());
    let outcome = workload.stop();
    println!("{faults:?}");
    println!("{outcome}");

    let overlaps = checker::overlaps(&outcome.history);
    assert!(overlaps.is_empty(), "two holders at once: {overlaps:#?}");
    assert!(faults.each_kind_happened(), "{faults:?}");
    // Leases are held for some 5 ms on average, so this is far below what a healthy run gives.
    let least = run_time().as_secs() as usize * 5;
    assert!(outcome.history.len() > least, "only {} leases", outcome.history.len());
    assert!(outcome.workers_served() >= WORKERS / 2, "{outcome}");
    assert!(faults.granted_meanwhile > 0, "nothing was granted while nodes were away: {faults:?}");

    for client in &clients {
        eventually("every node is back", 20 * SECOND, || {
            client.nodes().iter().all(|node| node.state == NodeState::Ready)
        });
    }
    eventually("every key has gone", 20 * SECOND, || cluster.keys_left().is_empty());
    for client in &clients {
        let lease = client.acquire(RESOURCE).blocking().expect("all is well again");
        lease.release_blocking().unwrap();
        client.close_blocking().expect("nothing is left to be done");
    }
}

/// The planted bug: locks of two fleets that do not know of each other do not exclude each other.
#[test]
fn two_holders_at_once_are_found_in_a_workload() {
    let cluster = Cluster::start(4);
    let urls = cluster.urls();
    let clients = [
        settings().nodes(&urls[..3]).connect_blocking().unwrap(),
        settings().nodes(&urls[3..]).connect_blocking().unwrap(),
    ];
    let workload = Workload::start(&clients, WORKERS);
    eventually("enough leases", 30 * SECOND, || workload.granted() > 200);
    let outcome = workload.stop();
    let overlaps = checker::overlaps(&outcome.history);
    println!("{outcome}; {} overlaps found", overlaps.len());
    assert!(!overlaps.is_empty(), "a checker that sees nothing proves nothing");
    for (earlier, later) in &overlaps {
        assert!(earlier.worker % 2 != later.worker % 2, "only the two fleets overlap");
    }
}

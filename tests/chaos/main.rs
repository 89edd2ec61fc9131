//! Goal: at most one holder at a time, and nothing left behind, while nodes are killed, hung and cut off.
//!
//! Method: workers of several `Redlock`s fight for one resource on five real servers while a nemesis
//! harms a minority at a time. Every lease is recorded with its fencing token and the time in which its
//! holder may act, and the history is searched for two holders at once, and for tokens that repeat or fall.
//! Once as by default, with nodes that come back empty at once and are quarantined, and once as plain Redlock,
//! with nodes that stay away for longer than the ttl. That the search finds something is tested too: by
//! planted histories, and by the same workload on locks that really do not exclude each other.
//! `QUORLOCK_CHAOS_SECONDS` says for how long each (20).
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

use self::{
    nemesis::Nemesis,
    workload::{Outcome, Workload},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The ttl of every lease of the workload: long beside a round, short beside a fault.
const TTL: Duration = Duration::from_millis(800);
/// The same where nodes are quarantined for a little longer than the longest ttl.
const SHORT_TTL: Duration = Duration::from_millis(500);
const MAX_TTL: Duration = Duration::from_millis(600);
const WORKERS: usize = 8;
const RESOURCE: &str = "chaos";

fn run_time() -> Duration {
    let seconds = std::env::var("QUORLOCK_CHAOS_SECONDS").ok();
    Duration::from_secs(seconds.map_or(20, |text| text.parse().expect("a number of seconds")))
}

fn settings() -> Builder {
    Redlock::builder().ttl(TTL).node_timeout(100 * MS).connect_timeout(SECOND)
}

/// Rages against one cluster, and judges what came of it.
fn chaos(builder: &Builder, ttl: Duration, away: Duration, peace: Duration) -> Outcome {
    // A node that is restarted with its keys must have written them down.
    let cluster = Cluster::start_with(5, |_, builder| builder.append_only(true));
    let client = || builder.clone().nodes(cluster.urls()).connect_blocking().unwrap();
    let clients: Vec<Redlock> = (0..3).map(|_| client()).collect();
    clients.iter().for_each(ready);

    let workload = Workload::start(&clients, WORKERS, ttl);
    let faults = Nemesis::new(&cluster, ttl, away, peace).rage(run_time(), || workload.granted());
    let outcome = workload.stop();
    println!("{faults:?}");
    println!("{outcome}");

    let overlaps = checker::overlaps(&outcome.history);
    assert!(overlaps.is_empty(), "two holders at once: {overlaps:#?}");
    let wrong = checker::wrong_tokens(&outcome.history);
    assert!(wrong.is_empty(), "tokens that repeat or fall: {wrong:#?}");
    assert!(faults.each_kind_happened(), "{faults:?}");
    // Leases are held for some 5 ms on average, so this is far below what a healthy run gives.
    let least = run_time().as_secs() as usize * 5;
    assert!(outcome.history.len() > least, "only {} leases", outcome.history.len());
    assert!(outcome.workers_served() >= WORKERS / 2, "{outcome}");
    assert!(faults.granted_meanwhile > 0, "nothing was granted while nodes were away: {faults:?}");

    clients.iter().for_each(ready);
    eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
    for client in &clients {
        let lease = client.acquire(RESOURCE).blocking().expect("all is well again");
        lease.release_blocking().unwrap();
        client.close_blocking().expect("nothing is left to be done");
    }
    outcome
}

fn ready(client: &Redlock) {
    eventually("every node is ready", 20 * SECOND, || {
        client.nodes().iter().all(|node| node.state == NodeState::Ready)
    });
}

/// Any lease that a node had voted for is over when it comes back empty, after the ttl: the clocks are ours.
#[test]
fn there_is_never_more_than_one_holder_in_plain_redlock() {
    let outcome = chaos(&settings().classic(), TTL, TTL + TTL / 4, 500 * MS);
    assert!(outcome.history.iter().all(|held| held.token.is_none()));
}

#[test]
fn there_is_never_more_than_one_holder_and_tokens_rise_though_nodes_come_back_empty_at_once() {
    let builder = settings().ttl(SHORT_TTL).max_ttl(MAX_TTL);
    // Most of the time a quarantine of some 860 ms is over before the next fault.
    let outcome = chaos(&builder, SHORT_TTL, Duration::ZERO, 1500 * MS);
    assert!(outcome.history.iter().all(|held| held.token.is_some()));
}

/// The planted bug: locks of two fleets that do not know of each other do not exclude each other.
#[test]
fn two_holders_at_once_are_found_in_a_workload() {
    let cluster = Cluster::start(4);
    let urls = cluster.urls();
    let clients = [
        settings().danger_skip_quarantine().nodes(&urls[..3]).connect_blocking().unwrap(),
        settings().danger_skip_quarantine().nodes(&urls[3..]).connect_blocking().unwrap(),
    ];
    let workload = Workload::start(&clients, WORKERS, TTL);
    eventually("enough leases", 30 * SECOND, || workload.granted() > 200);
    let outcome = workload.stop();
    let overlaps = checker::overlaps(&outcome.history);
    println!("{outcome}; {} overlaps found", overlaps.len());
    assert!(!overlaps.is_empty(), "a checker that sees nothing proves nothing");
    for (earlier, later) in &overlaps {
        assert!(earlier.worker % 2 != later.worker % 2, "only the two fleets overlap");
    }
}

/// The planted bug: nodes that come back empty vote at once, by the setting that says what it gives up. Each is
/// restarted as soon as the one before is back, so that the keys of a lease are gone before its time is up.
#[test]
fn two_holders_at_once_are_found_where_nodes_that_forgot_vote_at_once() {
    let cluster = Cluster::start(5);
    // Some leases are held for all of that.
    let ttl = 3 * SECOND;
    let builder = settings().ttl(ttl).max_ttl(ttl).danger_skip_quarantine();
    let client = || builder.clone().nodes(cluster.urls()).connect_blocking().unwrap();
    let clients: Vec<Redlock> = (0..3).map(|_| client()).collect();
    clients.iter().for_each(ready);
    let workload = Workload::start(&clients, WORKERS, ttl);
    let began = std::time::Instant::now();
    let overlaps = loop {
        for server in &cluster {
            server.restart_empty();
            clients.iter().for_each(ready);
        }
        let overlaps = checker::overlaps(&workload.history());
        if !overlaps.is_empty() || began.elapsed() > 60 * SECOND {
            break overlaps;
        }
    };
    println!("{}; {} overlaps after {:?}", workload.stop(), overlaps.len(), began.elapsed());
    assert!(!overlaps.is_empty(), "a checker that sees nothing proves nothing");
}

//! Goal: whoever waits for a resource need not sit out a pause when the key is gone.
//!
//! Method: pauses between rounds that are far longer than the test, on nodes in memory and on real servers, and a
//! release: by the process that waits, or by another one where the nodes tell.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock::{
    Builder, Redlock,
    node::{MemoryNode, NodeSpec},
};
use quorlock_harness::Cluster;

const MINUTE: Duration = Duration::from_secs(60);

fn builder(nodes: impl IntoIterator<Item = impl Into<NodeSpec>>) -> Builder {
    let builder = Redlock::builder().nodes(nodes).danger_skip_quarantine();
    // The shortest pause is a quarter of a minute.
    builder.ttl(5 * MINUTE).max_ttl(5 * MINUTE).wait(3 * MINUTE).retry(MINUTE, MINUTE)
}

/// `waiter` waits for what `holder` has and then lets go.
fn is_woken(holder: &Redlock, waiter: &Redlock) {
    let lease = holder.acquire("r").blocking().unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire("r").blocking().unwrap());
        // It has been refused, and pauses.
        thread::sleep(Duration::from_millis(300));
        assert!(!waiting.is_finished());
        lease.blocking_release().unwrap();
        let next = waiting.join().unwrap();
        assert!(began.elapsed() < MINUTE / 6, "it has sat out its pause: {:?}", began.elapsed());
        next.blocking_release().unwrap();
    });
}

#[test]
fn a_release_wakes_one_who_waits_in_the_same_process() {
    let cluster = Cluster::start(3);
    let redlock = builder(cluster.urls()).blocking_connect().unwrap();
    is_woken(&redlock, &redlock);
    let cluster = Cluster::start(3);
    let classic = builder(cluster.urls()).classic().blocking_connect().unwrap();
    is_woken(&classic, &classic);
}

#[test]
fn a_release_by_another_process_wakes_one_who_waits_where_the_nodes_tell() {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let redlock = || builder(&nodes).blocking_connect().unwrap();
    is_woken(&redlock(), &redlock());
}

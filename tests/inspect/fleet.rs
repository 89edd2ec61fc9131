//! What becomes of nodes that nobody else uses, where they are claimed, and of the longest ttl of nodes in memory.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    executor::block_on,
    future::{ready, select},
};
use quorlock::{
    Redlock,
    inspect::{FleetError, MaxTtlWatch, Outcome},
    node::MemoryNode,
    runtime::Runtime as _,
};
use quorlock_harness::SimRuntime;

use super::{MS, SECOND, connect, nodes};

#[test]
fn nodes_of_this_list_are_not_touched_and_one_that_is_down_is_named() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let lease = redlock.acquire("r").blocking().unwrap();
    nodes[2].kill();
    let claimed = block_on(redlock.claim_nodes()).unwrap();
    assert!(claimed[..2].iter().all(|node| matches!(node.outcome, Outcome::Ours)), "{claimed:?}");
    assert!(matches!(claimed[2].outcome, Outcome::Failed(_)), "{claimed:?}");
    lease.check().unwrap();
}

#[test]
fn without_one_node_and_in_classic_mode_nothing_is_lowered() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    nodes[1].kill();
    let error = block_on(redlock.watch_max_ttl()).unwrap_err();
    let FleetError::NotAll { nodes: silent } = &error else { panic!("{error}") };
    assert_eq!(silent.len(), 1, "{error}");
    let classic = Redlock::builder().nodes(&nodes).classic().build().unwrap();
    assert!(matches!(block_on(classic.watch_max_ttl()), Err(FleetError::Classic)));
    assert!(matches!(block_on(classic.claim_nodes()), Err(FleetError::Classic)));
}

#[test]
fn the_longest_ttl_is_lowered_behind_the_wait_and_not_where_that_is_given_up() {
    let nodes = nodes(3);
    let longest = |redlock: &Redlock| {
        let watch = block_on(redlock.watch_max_ttl()).unwrap();
        (watch.longest(), watch.remaining())
    };
    let set = |max_ttl: Duration| {
        let builder = Redlock::builder().nodes(&nodes).ttl(SECOND).max_ttl(max_ttl);
        builder.danger_skip_quarantine().blocking_connect().unwrap()
    };
    drop(set(5 * SECOND));
    let redlock = set(SECOND);
    let (known, remaining) = longest(&redlock);
    assert_eq!(known, 5 * SECOND);
    assert!(remaining > 11 * SECOND && remaining <= 12 * SECOND, "{remaining:?}");
    block_on(async {
        let lowers = Box::pin(watch(&redlock).await.lower());
        drop(select(lowers, ready(())).await);
    });
    assert_eq!(longest(&redlock).0, 5 * SECOND, "it was dropped");
    let begun = Instant::now();
    let lowered = block_on(async { watch(&redlock).await.lower().await }).unwrap();
    assert!(begun.elapsed() > 12 * SECOND - 100 * MS, "{:?}", begun.elapsed());
    assert!(lowered.is_lowered() && lowered.longer().is_none(), "{lowered:?}");
    assert!(lowered.nodes.iter().all(|node| node.from == 5 * SECOND), "{lowered:?}");
    assert_eq!(longest(&redlock).0, SECOND);
}

/// A watch does not know what was told before it began.
#[test]
fn behind_a_watch_that_began_later_nothing_is_lowered() {
    let sim = SimRuntime::new(1);
    let node = |_| {
        let clock = sim.clone();
        MemoryNode::with_clock(move || clock.now())
    };
    let nodes: Vec<MemoryNode> = (0..3).map(node).collect();
    let set = |max_ttl: Duration| {
        let builder = Redlock::builder().nodes(&nodes).ttl(SECOND).max_ttl(max_ttl);
        let redlock = builder.danger_skip_quarantine().runtime(Arc::new(sim.clone())).build();
        sim.block_on(sim.sleep(MS));
        redlock.unwrap()
    };
    drop(set(5 * SECOND));
    let redlock = set(SECOND);
    let lowers = |watch: MaxTtlWatch| sim.block_on(async move { watch.lower().await }).unwrap();
    let begins = || {
        let redlock = redlock.clone();
        sim.block_on(async move { watch(&redlock).await })
    };
    let (first, second) = (begins(), begins());
    let left = lowers(first);
    assert!(!left.is_lowered(), "{left:?}");
    assert!(left.nodes.iter().all(|node| node.to == Ok(5 * SECOND)), "{left:?}");
    assert!(lowers(second).is_lowered());
    sim.shut_down();
}

async fn watch(redlock: &Redlock) -> MaxTtlWatch {
    redlock.watch_max_ttl().await.unwrap()
}

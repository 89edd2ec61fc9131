//! Goal: a new deployment waits its quarantine and says so; the two settings that change that do what they say.
//!
//! Method: servers that nobody has admitted, and the time until the first grant.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Redlock, node::NodeState};
use quorlock_harness::{Cluster, eventually};

use super::{
    MS, SECOND, SOON, all_ready, quarantine, quarantine_by_default, ready, settings, token,
};

const MAX_TTL: Duration = Duration::from_millis(600);

#[test]
fn a_new_deployment_waits_the_quarantine_and_says_why() {
    let cluster = Cluster::start(5);
    let start = Instant::now();
    let redlock = settings(&cluster, MAX_TTL).blocking_connect().unwrap();
    let remaining: Vec<Duration> = redlock
        .nodes()
        .into_iter()
        .map(|node| match node.state {
            NodeState::Quarantined { remaining } => remaining,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(remaining.iter().all(|left| !left.is_zero() && *left <= quarantine(MAX_TTL)));
    let error = redlock.try_acquire("r").blocking().unwrap_err();
    assert!(matches!(error, AcquireError::Quarantined { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("quarantine") && !text.contains("danger"), "{text}");
    let lease = redlock.acquire("r").wait(SOON).blocking().unwrap();
    let waited = start.elapsed();
    println!("the first grant of a new deployment came after {waited:?}");
    assert!(waited >= quarantine(MAX_TTL), "{waited:?}");
    all_ready(&redlock);
    assert!(token(&lease) > 1_700_000_000_000_000, "counters begin at the wall clock");
}

/// Nothing is set but the nodes.
#[test]
fn the_first_acquire_of_a_new_deployment_is_granted_in_one_call_with_the_defaults() {
    let cluster = Cluster::start(3);
    let start = Instant::now();
    let redlock = Redlock::builder().nodes(cluster.urls()).blocking_connect().unwrap();
    let lease = redlock.acquire("r").blocking().unwrap_or_else(|error| panic!("{error}"));
    let waited = start.elapsed();
    println!("the first grant with the defaults came after {waited:?}");
    assert!(lease.is_valid() && waited >= quarantine_by_default(10 * SECOND), "{waited:?}");
}

#[test]
fn a_client_is_ready_when_a_quorum_votes_and_says_until_then_why_it_is_not() {
    let cluster = Cluster::start(3);
    let start = Instant::now();
    let redlock = settings(&cluster, MAX_TTL).blocking_connect().unwrap();
    let error = redlock.blocking_ready(100 * MS).unwrap_err();
    assert_eq!((error.votes, error.needed, error.waited), (0, 2, 100 * MS));
    assert!(error.remaining().unwrap() <= quarantine(MAX_TTL));
    let text = error.to_string();
    assert!(text.contains("wait longer than that") && text.contains("quarantine"), "{text}");
    // A `ready` that is dropped changes nothing.
    drop(redlock.ready(SOON));
    redlock.blocking_ready(SOON).unwrap();
    assert!(start.elapsed() >= quarantine(MAX_TTL), "{:?}", start.elapsed());
    redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
    // A quorum of them was enough so far, and one is killed.
    all_ready(&redlock);
    cluster[0].kill();
    eventually("it is seen", SOON, || redlock.nodes()[0].state != NodeState::Ready);
    redlock.blocking_ready(Duration::ZERO).unwrap();
    cluster[1].kill();
    eventually("it is seen", SOON, || redlock.nodes()[1].state != NodeState::Ready);
    let error = redlock.blocking_ready(100 * MS).unwrap_err();
    assert_eq!((error.votes, error.remaining()), (1, None));
    assert!(error.to_string().contains("fix the nodes that are not ready"), "{error}");
}

#[test]
fn a_client_that_comes_later_does_not_wait() {
    let cluster = super::admitted(3, 30 * SECOND);
    let start = Instant::now();
    let redlock = settings(&cluster, 30 * SECOND).blocking_connect().unwrap();
    let lease = redlock.acquire("r").wait(SOON).blocking().unwrap();
    assert!(lease.is_valid() && start.elapsed() < quarantine(30 * SECOND), "{:?}", start.elapsed());
}

#[test]
fn the_skip_does_not_wait() {
    let cluster = Cluster::start(3);
    let start = Instant::now();
    let redlock =
        settings(&cluster, 30 * SECOND).danger_skip_quarantine().blocking_connect().unwrap();
    drop(redlock.acquire("r").wait(SOON).blocking().unwrap());
    assert!(start.elapsed() < quarantine(30 * SECOND), "{:?}", start.elapsed());
}

#[test]
fn a_strict_fleet_admits_no_node_until_an_operator_says_so() {
    let cluster = Cluster::start(3);
    let strict = settings(&cluster, MAX_TTL).strict_admission().blocking_connect().unwrap();
    let start = Instant::now();
    while start.elapsed() < quarantine(MAX_TTL) * 2 {
        let error = strict.acquire("r").wait(100 * MS).blocking().unwrap_err();
        assert!(matches!(error, AcquireError::Quarantined { .. }), "{error}");
    }
    let over = |node: &quorlock::node::NodeStatus| {
        node.state == NodeState::Quarantined { remaining: Duration::ZERO }
    };
    assert!(strict.nodes().iter().all(over), "the time is over, and nobody is admitted");
    // The operator's client admits them.
    drop(ready(settings(&cluster, MAX_TTL)));
    all_ready(&strict);
    drop(strict.acquire("r").wait(SOON).blocking().unwrap());
}

#[test]
fn a_strict_fleet_admits_a_minority_by_itself() {
    let cluster = super::admitted(3, MAX_TTL);
    let strict = ready(settings(&cluster, MAX_TTL).strict_admission());
    cluster[0].restart_empty();
    eventually("it is quarantined", SOON, || super::is_quarantined(&strict, 0));
    all_ready(&strict);
}

/// A node remembers the longest ttl that it was told, and a client that comes with a shorter one honours it.
#[test]
fn the_quarantine_is_that_of_the_longest_ttl_of_the_fleet() {
    let cluster = super::admitted(3, 2 * SECOND);
    let redlock = ready(settings(&cluster, MAX_TTL));
    let start = Instant::now();
    cluster[1].restart_empty();
    eventually("it is quarantined", SOON, || super::is_quarantined(&redlock, 1));
    all_ready(&redlock);
    assert!(start.elapsed() >= quarantine(2 * SECOND), "{:?}", start.elapsed());
}

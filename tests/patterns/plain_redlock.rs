//! Goal: a node that has forgotten a lock does not give it to another client.
//!
//! Method: three servers without persistence, of which the third takes no part in the first acquire and the
//! second comes back empty. Plain Redlock (`classic`) then has two holders. In strict mode the test does what
//! `docs/deploying.md` tells an operator to do.

use std::time::Duration;

use quorlock::{
    AcquireError, Builder, Redlock,
    node::{NodeState, NodeStatus},
};
use quorlock_harness::{Cluster, Server, eventually, redis::from_redis_value};

use super::{MS, SECOND, SOON, all_ready, connected};

fn builder(cluster: &Cluster) -> Builder {
    Redlock::builder()
        .nodes(cluster.urls())
        .node_timeout(2 * SECOND)
        .connect_timeout(10 * SECOND)
        .close_timeout(20 * SECOND)
        .max_ttl(60 * SECOND)
}

#[tokio::test]
async fn a_restarted_node_votes_a_second_time_in_plain_redlock() {
    let cluster = Cluster::start(3);
    let (a, b) = (connected(builder(&cluster).classic()), connected(builder(&cluster).classic()));
    // A holds 0 and 1, because 2 is down; then 1 forgets, and 2 is back.
    cluster[2].kill();
    let first = a.acquire("r").ttl(60 * SECOND).await.unwrap();
    cluster[1].restart_empty();
    cluster[2].restart_empty();
    all_ready_again(&b);
    let second = b.acquire("r").ttl(60 * SECOND).await.unwrap();
    assert!(first.is_valid() && second.is_valid(), "two holders");
    assert!(first.token().is_err(), "and nothing to tell them apart by");
    drop((first, second));
}

#[tokio::test]
async fn a_restarted_node_does_not_vote_here() {
    let cluster = Cluster::start(3);
    // New nodes are let in at once; after that, the rule is the default one.
    drop(connected(builder(&cluster).danger_skip_quarantine()));
    let (a, b) = (connected(builder(&cluster)), connected(builder(&cluster)));
    cluster[2].kill();
    let first = a.acquire("r").ttl(60 * SECOND).await.unwrap();
    cluster[1].restart_empty();
    cluster[2].restart_empty();
    let error = b.acquire("r").wait(2 * SECOND).await.unwrap_err();
    assert!(matches!(error, AcquireError::Quarantined { .. }), "{error}");
    let says = |part: &str| assert!(error.to_string().contains(part), "{part}: {error}");
    says("may have forgotten leases");
    // An operator of nodes that are kept reads it.
    assert!(!error.to_string().contains("danger"), "{error}");
    first.check().expect("the first still holds");
    eventually("both are in quarantine", SOON, || quarantined(&b) == 2);
}

#[tokio::test]
async fn an_operator_admits_the_nodes_of_a_strict_fleet() {
    let cluster = Cluster::start(3);
    let strict = Redlock::builder()
        .nodes(cluster.urls())
        .node_timeout(200 * MS)
        .connect_timeout(10 * SECOND)
        .ttl(SECOND)
        .max_ttl(SECOND)
        .strict_admission();
    let redlock = strict.connect().await.unwrap();
    eventually("the quarantine is over, and nobody is admitted", SOON, || {
        let over =
            |node: &NodeStatus| node.state == NodeState::Quarantined { remaining: Duration::ZERO };
        redlock.nodes().iter().all(over)
    });
    assert!(redlock.try_acquire("r").await.is_err());

    // Step 3 of docs/deploying.md: a minute ahead of every clock, above every counter, and the same on all nodes.
    let floor = |server: &Server| {
        let (seconds, micros): (u64, u64) = from_redis_value(server.run(&["TIME"])).unwrap();
        let high_water = server.run(&["HGET", "quorlock:node", "high_water"]);
        let high_water: u64 = from_redis_value(high_water).unwrap();
        high_water.max((seconds + 60) * 1_000_000 + micros)
    };
    let floor = cluster.iter().map(floor).max().unwrap().to_string();
    for server in &cluster {
        server.run(&["HSET", "quorlock:node", "state", "approved", "floor", &floor]);
    }
    let lease = redlock.acquire("r").wait(SOON).await.expect("they vote");
    assert!(lease.token().is_ok());
    lease.release().await.unwrap();
}

fn quarantined(redlock: &Redlock) -> usize {
    let waits = |node: &&NodeStatus| matches!(node.state, NodeState::Quarantined { .. });
    redlock.nodes().iter().filter(waits).count()
}

/// The connections of before the restarts have been replaced.
fn all_ready_again(redlock: &Redlock) {
    eventually("every node answers", SOON, || redlock.try_acquire("another").blocking().is_ok());
    all_ready(redlock);
}

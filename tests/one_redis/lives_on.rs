//! Goal: a case that this crate cannot see. A master that lives on, and still serves its connected clients, is a second
//! node that no client counts; it must be dead, or stop taking writes.
//!
//! Method: the address is turned while the master lives and connections stay. Without more there are two holders; with
//! `min-replicas-to-write` the old master refuses to renew, and there is one.

use std::time::Instant;

use quorlock::node::NodeState;

use super::{
    MS, NODE_TIMEOUT, Pair, SECOND, SOON, TTL, settings, soon, state,
    workers::{hold, one_at_a_time},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_lives_on_behind_old_connections_gives_two_holders() {
    let pair = Pair::start();
    let ttl = 4 * TTL;
    let client = async || {
        let redlock = settings(&pair).ttl(ttl).max_ttl(ttl).connect().await.unwrap();
        soon("it votes", || state(&redlock) == NodeState::Ready).await;
        redlock
    };
    let a = client().await;
    pair.cut_replication();
    let first = a.acquire("split").await.unwrap();
    pair.promote();
    let b = client().await;
    let second = b.acquire("split").wait(SOON).await.unwrap();
    first.check().expect("renewed on the old master");
    second.check().expect("and granted on the new one");
    // The next contact with the address ends it.
    pair.close_connections();
    soon("A finds out", || first.check().is_err()).await;
}

/// The replica is promoted in the moment in which it is cut off, and the old master finds out only after the allowed
/// lag and a second. So the quarantine has to cover that beside the ttl.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_stops_taking_writes_without_its_replica_gives_one_holder() {
    let pair = Pair::start_with(&[("min-replicas-to-write", "1"), ("min-replicas-max-lag", "1")]);
    let lag = SECOND;
    let max_ttl = 2 * TTL;
    let quarantine = max_ttl + max_ttl / 10 + 2 * NODE_TIMEOUT;
    assert!(quarantine >= TTL + lag + SECOND);
    let client = async || {
        let redlock = settings(&pair).ttl(TTL).max_ttl(max_ttl).connect().await.unwrap();
        soon("it votes", || state(&redlock) == NodeState::Ready).await;
        redlock
    };
    let a = client().await;
    let first = a.acquire("fenced off").await.unwrap();
    pair.cut_replication();
    // The promoted one has no replica yet.
    pair.replica.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    pair.promote();
    let promoted = Instant::now();
    let (had, next) = tokio::join!(hold(0, &first, SOON), async {
        let lease = client().await.acquire("fenced off").wait(SOON).await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    assert!(had.until > promoted, "it was renewed on the old one for a while");
    one_at_a_time(&[had, next]);
}

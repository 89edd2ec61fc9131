//! Goal: a planned failover, and the way back, are no different: a server that was a replica in between, or was
//! restarted, waits.
//!
//! Method: the master becomes a replica while clients are connected, as a managed service does it; the old master comes
//! back as a replica of the new one, and is promoted in turn.

use std::time::Instant;

use quorlock::node::{NodeState, Refusal};

use super::{
    MS, Pair, QUARANTINE, SECOND, SOON, TTL, client,
    pair::{follow, promote},
    soon, state, token,
    workers::{hold, one_at_a_time},
};

/// Roles are exchanged under living processes; the connections of clients are closed only later.
#[tokio::test(flavor = "multi_thread")]
async fn roles_that_are_exchanged_give_one_holder() {
    let pair = Pair::start();
    let (a, b) = (client(&pair).await, client(&pair).await);
    pair.cut_replication();
    let held = a.acquire("planned").await.unwrap();
    // No server has the lease in its data once the master has taken over those of its replica.
    promote(&pair.replica);
    follow(&pair.master, pair.replica.port());
    assert_eq!(pair.master.get("planned"), None);
    let began = Instant::now();
    let asking = tokio::spawn(async move {
        let lease = b.acquire("planned").wait(SOON).await;
        (lease, b)
    });
    // The address leads to a replica for a while.
    soon("it is refused as a replica", || state(&a) == NodeState::Refused(Refusal::Replica)).await;
    pair.lead_to(&pair.replica);
    pair.close_connections();
    let first = hold(0, &held, SOON).await;
    let (lease, b) = asking.await.unwrap();
    // It gives up early if no node votes and it cannot tell when one will.
    let lease = match lease {
        Ok(lease) => lease,
        Err(_) => b.acquire("planned").wait(SOON).await.unwrap(),
    };
    let second = hold(1, &lease, 10 * MS).await;
    one_at_a_time(&[first, second.clone()]);
    assert!(second.from - began >= TTL / 2);
    lease.release().await.unwrap();
}

/// There and back: the old master follows the new one, which is killed in turn.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_master_comes_back_and_takes_over_again() {
    let pair = Pair::start();
    let (a, b) = (client(&pair).await, client(&pair).await);
    let mut tokens = Vec::new();
    for (dying, rising) in [(&pair.master, &pair.replica), (&pair.replica, &pair.master)] {
        let held = a.acquire("there and back").wait(SOON).await.unwrap();
        tokens.push(token(&held));
        dying.kill();
        promote(rising);
        pair.lead_to(rising);
        let (first, second) = tokio::join!(hold(0, &held, SOON), async {
            let lease = b.acquire("there and back").wait(SOON).await.unwrap();
            let held = hold(1, &lease, 10 * MS).await;
            lease.release().await.unwrap();
            held
        });
        one_at_a_time(&[first, second.clone()]);
        tokens.push(second.token);
        // The former master follows.
        dying.restart();
        follow(dying, rising.port());
        let lease = a.acquire("another").wait(10 * SECOND).await.unwrap();
        lease.release().await.unwrap();
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

/// The promoted one dies within its quarantine, and the other one takes over with all notes, also of the time waited.
/// But that was the wait of another server.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_failover_within_the_quarantine_begins_it_anew() {
    let pair = Pair::start();
    let a = client(&pair).await;
    pair.fail_over();
    soon("it is in quarantine", || matches!(state(&a), NodeState::Quarantined { .. })).await;
    pair.master.restart();
    follow(&pair.master, pair.replica.port());
    // Late in it, if nothing is slow.
    let nearly =
        |state| matches!(state, NodeState::Quarantined { remaining } if remaining < TTL / 4);
    soon("it is nearly over", || nearly(state(&a))).await;
    pair.replica.kill();
    promote(&pair.master);
    pair.lead_to(&pair.master);
    let began = Instant::now();
    let lease = a.acquire("anew").wait(SOON).wait_through_outages().await.unwrap();
    assert!(began.elapsed() >= QUARANTINE - 100 * MS, "{:?}", began.elapsed());
    lease.release().await.unwrap();
}

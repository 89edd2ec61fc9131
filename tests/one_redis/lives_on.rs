//! Goal: what this cannot see. A master that lives on, and still serves those who are connected to it, is a second node
//! that nobody counts; it must be dead, or stop taking writes.
//!
//! Method: the address is turned while the master lives and connections stay. Without more there are two holders; with
//! `min-replicas-to-write` the old master refuses to renew, and there is one.

use super::{
    MS, Pair, SECOND, SOON, client, soon,
    workers::{hold, one_at_a_time},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_lives_on_behind_old_connections_gives_two_holders() {
    let pair = Pair::start();
    let a = client(&pair).await;
    pair.cut_replication();
    let first = a.acquire("split").await.unwrap();
    pair.promote();
    let b = client(&pair).await;
    let second = b.acquire("split").wait(SOON).await.unwrap();
    first.check().expect("renewed on the old master");
    second.check().expect("and granted on the new one");
    // The next contact with the address ends it.
    pair.close_connections();
    soon("A finds out", || first.check().is_err()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_without_replicas_that_stops_taking_writes_gives_one_holder() {
    let settings = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "1")];
    let pair = Pair::start_with(&settings);
    let a = client(&pair).await;
    let first = a.acquire("fenced off").await.unwrap();
    pair.cut_replication();
    // Sentinel, or an operator, finds the master gone after longer than the lag that is allowed.
    tokio::time::sleep(3 * SECOND).await;
    // Settings of the old one: the promoted one has no replica yet.
    pair.replica.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    pair.promote();
    let (had, next) = tokio::join!(hold(0, &first, SOON), async {
        let b = client(&pair).await;
        let lease = b.acquire("fenced off").wait(SOON).await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    one_at_a_time(&[had, next]);
}

//! Goal: work that takes longer than the ttl goes on alone, or learns that it is not alone.
//!
//! Method: progress is measured by the renewals that a server has executed, not by a clock.

use quorlock::protocol::LossReason;
use quorlock_harness::{Cluster, Server, eventually};

use super::{SECOND, SOON, client, expired, set_nx_px};

#[tokio::test]
async fn work_that_outlives_the_ttl_is_not_alone() {
    let server = Server::start();
    assert!(set_nx_px(&server, "r", "a", "50"));
    // A is still at work.
    expired(&server, "r");
    assert!(set_nx_px(&server, "r", "b", "60000"), "B has it too, and A has not been told");

    // Here the lease is renewed beside the work.
    let cluster = Cluster::start(3);
    let (a, b) = (client(&cluster), client(&cluster));
    let lease = a.acquire("r").ttl(SECOND).await.unwrap();
    // Six renewals are two ttls.
    while cluster[0].command_calls("pexpire") < 6 {
        lease.check().expect("it holds");
        let busy = b.try_acquire("r").await.unwrap_err();
        assert!(busy.is_contended(), "{busy}");
    }
    lease.check().expect("it still holds");
    let token = lease.token().unwrap();
    lease.release().await.unwrap();
    let next = b.acquire("r").await.unwrap();
    assert!(next.token().unwrap() > token);
}

#[tokio::test]
async fn whoever_can_no_longer_renew_is_told_before_anybody_else_has_it() {
    let cluster = Cluster::start(3);
    let (a, b) = (client(&cluster), client(&cluster));
    let lease = a.acquire("r").ttl(SECOND).await.unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    cluster[0].pause();
    cluster[1].pause();
    let lost = lease.lost().await;
    assert_eq!(lost.reason, LossReason::RenewalFailed);
    lease.check().expect_err("and every later look at it says so");
    cluster[0].resume();
    cluster[1].resume();
    let next = b.acquire("r").wait(SOON).await.unwrap();
    assert!(next.token().unwrap() > lease.token().unwrap());
    next.release().await.unwrap();
}

//! Goal: a fleet can migrate service by service: quorlock and `rslock` exclude each other on the same nodes.
//!
//! Method: both libraries on the same five real servers, in both directions, with each taking over after
//! the other's release and after the other's expiry.

use std::time::Duration;

use ::rslock::{Lock, LockError, LockManager};
use quorlock::{Lease, Redlock, ReleaseError};
use quorlock_harness::{Cluster, eventually};

use super::{SECOND, SOON, quorlock};

async fn both() -> (Cluster, Redlock, LockManager) {
    let cluster = Cluster::start(5);
    let quorlock = quorlock(&cluster).connect().await.unwrap();
    let mut rslock = LockManager::new(cluster.urls());
    rslock.set_retry(1, Duration::from_millis(1));
    (cluster, quorlock, rslock)
}

async fn rslock_takes(rslock: &LockManager, ttl: Duration) -> Lock {
    rslock.lock("invoice:42", ttl).await.expect("rslock gets it")
}

async fn rslock_is_denied(rslock: &LockManager) {
    let denied = rslock.lock("invoice:42", 60 * SECOND).await;
    assert!(matches!(denied, Err(LockError::Unavailable)), "{denied:?}");
}

async fn quorlock_takes(quorlock: &Redlock) -> Lease {
    let request = quorlock.acquire("invoice:42").ttl(60 * SECOND).wait(SOON);
    request.await.expect("quorlock gets it")
}

#[tokio::test]
async fn quorlock_keeps_rslock_out_until_the_release() {
    let (cluster, quorlock, rslock) = both().await;
    let lease = quorlock_takes(&quorlock).await;
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    rslock_is_denied(&rslock).await;
    // Its clean-up after the denial has not touched our keys.
    let owner = lease.owner().to_string();
    assert!(cluster.iter().all(|s| s.get("invoice:42").as_deref() == Some(owner.as_bytes())));
    lease.release().await.unwrap();
    eventually("all five are free", SOON, || cluster.locks_left().is_empty());
    let lock = rslock_takes(&rslock, 60 * SECOND).await;
    rslock.unlock(&lock).await;
    assert_eq!(cluster.locks_left(), []);
}

#[tokio::test]
async fn rslock_keeps_quorlock_out_until_the_release_and_is_named() {
    let (cluster, quorlock, rslock) = both().await;
    let lock = rslock_takes(&rslock, 60 * SECOND).await;
    let busy = quorlock.try_acquire("invoice:42").await.unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    let (_, denial) = busy.nodes().unwrap().denials().next().unwrap();
    assert_eq!(denial.holder.as_deref(), Some(&lock.val[..]), "its value, which is no text");
    assert!(cluster.iter().all(|s| s.get("invoice:42").as_deref() == Some(&lock.val[..])));

    rslock.unlock(&lock).await;
    let lease = quorlock_takes(&quorlock).await;
    rslock_is_denied(&rslock).await;
    lease.release().await.unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

#[tokio::test]
async fn each_takes_over_when_the_other_has_expired() {
    let (cluster, quorlock, rslock) = both().await;
    let short = Duration::from_millis(300);
    // Nobody releases it.
    let lock = rslock_takes(&rslock, short).await;
    let lease = quorlock_takes(&quorlock).await;
    // rslock's release of what it no longer holds leaves ours alone.
    rslock.unlock(&lock).await;
    rslock_is_denied(&rslock).await;
    lease.release().await.unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());

    let expired = quorlock.acquire("invoice:42").ttl(short).without_renewal().await.unwrap();
    eventually("it expires", SOON, || cluster.locks_left().is_empty());
    let lock = rslock_takes(&rslock, 60 * SECOND).await;
    let ended = expired.release().await.unwrap_err();
    assert!(matches!(ended, ReleaseError::AlreadyEnded { released: 0, .. }), "{ended}");
    eventually("theirs stands", SOON, || {
        cluster.iter().all(|s| s.get("invoice:42").as_deref() == Some(&lock.val[..]))
    });
    rslock.unlock(&lock).await;
}

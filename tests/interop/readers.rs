//! Goal: readers keep locks of other libraries out, and are kept out by them: to those a writer is any lock.
//!
//! Method: as for one resource, in turns on real servers.

use std::time::Duration;

use ::rslock::{LockError, LockManager};
use quorlock::Holder;
use quorlock_harness::{Cluster, eventually};

use super::{SECOND, SOON, quorlock};

#[tokio::test]
async fn a_lock_of_rslock_and_readers_keep_each_other_out() {
    let cluster = Cluster::start(5);
    let redlock = quorlock(&cluster).connect().await.unwrap();
    let mut rslock = LockManager::new(cluster.urls());
    rslock.set_retry(1, Duration::from_millis(1));

    let lock = rslock.lock("r", 20 * SECOND).await.unwrap();
    let denied = redlock.try_read("r").await.unwrap_err();
    assert!(denied.is_contended(), "{denied}");
    let waiting = tokio::spawn({
        let request = redlock.read("r").ttl(20 * SECOND).wait(SOON);
        async move { request.await.unwrap() }
    });
    tokio::time::sleep(SECOND / 10).await;
    rslock.unlock(&lock).await;
    let (one, other) = (waiting.await.unwrap(), redlock.try_read("r").await.unwrap());
    match redlock.holder("r").await.unwrap() {
        Holder::Held(by) => assert!(by.to_string().contains("shared by readers"), "{by}"),
        free => panic!("{free}"),
    }
    for lease in [one, other] {
        let denied = rslock.lock("r", 20 * SECOND).await;
        assert!(matches!(denied, Err(LockError::Unavailable)), "{denied:?}");
        lease.extend().await.expect("its attempts have left our keys alone");
        lease.release().await.unwrap();
    }
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
    let lock = rslock.lock("r", 20 * SECOND).await.unwrap();
    rslock.unlock(&lock).await;
}

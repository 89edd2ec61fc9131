//! Goal: several resources at once are locks like any other: those of other libraries on one of them, and node-redlock's on
//! several, keep them out and are kept out.
//!
//! Method: as for one resource, in turns on real servers.

use std::time::Duration;

use ::rslock::{LockError, LockManager};
use quorlock::{AcquireError, Redlock};
use quorlock_harness::{Cluster, Server, eventually};

use super::{SECOND, SOON, foreign::Foreign, quorlock};

async fn is_kept_out(redlock: &Redlock, names: &[&str], by: &str) {
    match redlock.try_acquire_all(names).ttl(300 * SECOND).await {
        Err(AcquireError::Contended { resource: Some(resource), .. }) => {
            assert_eq!(resource.as_bytes(), by.as_bytes());
        }
        other => panic!("{names:?}: {other:?}"),
    }
}

#[tokio::test]
async fn a_lock_of_rslock_on_one_of_them_and_a_set_keep_each_other_out() {
    let cluster = Cluster::start(5);
    let redlock = quorlock(&cluster).connect().await.unwrap();
    let mut rslock = LockManager::new(cluster.urls());
    rslock.set_retry(1, Duration::from_millis(1));

    let lock = rslock.lock("b", 300 * SECOND).await.unwrap();
    is_kept_out(&redlock, &["a", "b", "c"], "b").await;
    assert!(cluster.iter().all(|server| server.locks().len() == 1), "nothing else was taken");
    rslock.unlock(&lock).await;

    let set = redlock.acquire_all(["a", "b", "c"]).ttl(300 * SECOND).wait(SOON).await.unwrap();
    for name in ["a", "b", "c"] {
        let denied = rslock.lock(name, 300 * SECOND).await;
        assert!(matches!(denied, Err(LockError::Unavailable)), "{name}: {denied:?}");
    }
    set.extend().await.expect("its attempts have left our keys alone");
    set.release().await.unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

#[tokio::test]
async fn several_keys_of_node_redlock_and_a_set_that_overlaps_keep_each_other_out() {
    let (cluster, counter) = (Cluster::start(3), Server::start());
    let Some(mut foreign) = Foreign::start("node-redlock", &counter, "a,b", &cluster) else {
        return;
    };
    let redlock = quorlock(&cluster).connect().await.unwrap();

    eventually("it gets both", SOON, || foreign.ask("try 20000") == "got");
    is_kept_out(&redlock, &["b", "c"], "b").await;
    assert_eq!(foreign.ask("release"), "released");

    let set = redlock.acquire_all(["b", "c"]).ttl(300 * SECOND).wait(SOON).await.unwrap();
    assert_eq!(foreign.ask("try 20000"), "busy");
    // It holds no part of what it wanted.
    let a = redlock.acquire("a").ttl(300 * SECOND).wait(SOON).await.unwrap();
    assert_eq!(foreign.ask("try 20000"), "busy");
    set.release().await.unwrap();
    a.release().await.unwrap();
    eventually("it gets both again", SOON, || foreign.ask("try 500") == "got");
    // And we, when that has expired.
    let set = redlock.acquire_all(["a", "b"]).ttl(300 * SECOND).wait(SOON).await.unwrap();
    foreign.ask("release");
    set.extend().await.expect("still ours");
    set.release().await.unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

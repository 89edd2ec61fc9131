//! Goal: controls. The schedule of `failover.rs` gives two holders to a plain `SET NX PX`, and to `rlock`. As long as
//! nothing fails, `rlock` and this crate exclude each other.
//!
//! Method: the same pair, replication cut, the master killed. Both holders are asked whether they hold at the same
//! instant: the key of each stands, or its library says so.

use std::time::Duration;

use quorlock_harness::redis;
use rlock::{AcquireOptions, LeaseState, async_lock::RLock};

use super::{Pair, SECOND, SOON, client};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_set_nx_px_has_two_holders() {
    let pair = Pair::start();
    let client = || {
        let client = redis::Client::open(pair.url()).unwrap();
        client.get_connection_with_timeout(SECOND).unwrap()
    };
    let take = |owner: &str| {
        let mut set = redis::cmd("SET");
        let set = set.arg("plain").arg(owner).arg("NX").arg("PX").arg(60_000);
        set.query::<Option<String>>(&mut client()).unwrap().is_some()
    };
    pair.cut_replication();
    assert!(take("a"), "A has it for a minute");
    assert!(!take("b"), "B does not");
    pair.fail_over();
    assert!(take("b"), "B has it too, well within the minute of A");
}

#[tokio::test(flavor = "multi_thread")]
async fn rlock_has_two_holders() {
    let pair = Pair::start();
    let (a, b) = (RLock::new(pair.url()).await.unwrap(), RLock::new(pair.url()).await.unwrap());
    // As its front page has it, but for the ttl: renewed at half of it.
    let options = || {
        let options = AcquireOptions::builder().ttl(LONG);
        options.lock_timeout(Some(20 * SECOND)).build().unwrap()
    };
    pair.cut_replication();
    let first = a.acquire_mutex_with_options("rlock", options()).await.unwrap();
    let busy = b.try_acquire_mutex_with_options("rlock", options()).await.unwrap();
    assert!(busy.is_none(), "B does not get it");
    pair.fail_over();
    // Its connections are mended by the next command or two.
    let second = loop {
        match b.acquire_mutex_with_options("rlock", options()).await {
            Ok(guard) => break guard,
            Err(rlock::AcquireError::RedisError(_)) => tokio::time::sleep(SECOND / 10).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(
        (first.lease_state(), second.lease_state()),
        (LeaseState::Active, LeaseState::Active),
        "both are told that they hold it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rlock_and_quorlock_keep_each_other_out() {
    let pair = Pair::start();
    let (quorlock, rlock) = (client(&pair).await, RLock::new(pair.url()).await.unwrap());
    let lease = quorlock.acquire("both").await.unwrap();
    assert!(rlock.try_acquire_mutex("both").await.unwrap().is_none());
    lease.release().await.unwrap();
    let mut guard = rlock.try_acquire_mutex("both").await.unwrap().expect("it is free");
    assert!(quorlock.try_acquire("both").await.unwrap_err().is_contended());
    guard.release().await.unwrap();
    quorlock.acquire("both").wait(SOON).await.unwrap().release().await.unwrap();
}

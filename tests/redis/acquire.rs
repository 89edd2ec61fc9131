//! Goal: acquiring, waiting, releasing, dropping and closing do what their documentation says.
//!
//! Method: five real servers per test and the asynchronous API; the keys are read from the servers.

use std::time::Instant;

use quorlock::{AcquireError, Redlock, ReleaseError, RunError};
use quorlock_harness::{Cluster, eventually};

use super::{MS, SECOND, SOON, connect, connected, no_key_within, patient};

/// A cluster and two clients that know nothing of each other.
fn two_clients() -> (Cluster, Redlock, Redlock) {
    let cluster = Cluster::start(5);
    let (a, b) = (connect(&cluster), connect(&cluster));
    (cluster, a, b)
}

#[tokio::test]
async fn a_lease_is_a_string_with_an_expiry_at_the_resource_on_every_node() {
    let (cluster, redlock, _) = two_clients();
    let lease = redlock.acquire("invoice:42").ttl(30 * SECOND).await.unwrap();
    // The lease is there at the third grant; the other two nodes have been asked as well.
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    for server in &cluster {
        assert_eq!(server.locks(), [b"invoice:42"]);
        assert_eq!(server.get("invoice:42").unwrap(), lease.owner().to_string().as_bytes());
        let remaining = server.pttl("invoice:42");
        assert!((20_000..=30_000).contains(&remaining), "{remaining}");
    }
    assert_eq!(lease.ttl(), 30 * SECOND);
    assert!(lease.validity() <= 30 * SECOND - 302 * MS, "the drift is taken off");
    assert!(lease.validity() > 20 * SECOND);
    lease.release().await.unwrap();
    no_key_within(&cluster, SOON);
}

#[tokio::test]
async fn two_clients_exclude_each_other_and_are_told_by_whom() {
    let (cluster, a, b) = two_clients();
    let lease = a.acquire("r").ttl(30 * SECOND).await.unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);

    let busy = b.try_acquire("r").await.unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    let AcquireError::Contended { expires_in: Some(expires_in), nodes, .. } = &busy else {
        panic!("{busy}")
    };
    assert!(*expires_in > 20 * SECOND && *expires_in <= 30 * SECOND, "{expires_in:?}");
    let owner = lease.owner().to_string();
    assert!(nodes.denials().count() >= 3, "{nodes}");
    for (_, denial) in nodes.denials() {
        assert_eq!(denial.holder.as_deref(), Some(owner.as_bytes()));
    }
    assert!(busy.to_string().contains(&owner), "{busy}");
    // The failed acquire has taken nothing away.
    assert!(cluster.iter().all(|s| s.get("r").as_deref() == Some(owner.as_bytes())));

    let other = b.try_acquire("another").await.unwrap();
    lease.release().await.unwrap();
    let next = b.acquire("r").await.unwrap();
    assert_ne!(next.owner().to_string(), owner);
    other.release().await.unwrap();
    next.release().await.unwrap();
    no_key_within(&cluster, SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_gets_it_after_the_release() {
    let (cluster, a, b) = two_clients();
    let lease = a.acquire("r").ttl(60 * SECOND).await.unwrap();
    let waiting = tokio::spawn(async move { b.acquire("r").wait(30 * SECOND).await });
    // Proof that it waits: it has been denied at least twice on a node.
    let asked = |server: &quorlock_harness::Server| server.command_calls("pttl") >= 5;
    eventually("it has asked and been denied", SOON, || asked(&cluster[0]));
    assert!(!waiting.is_finished());
    lease.release().await.unwrap();
    let lease = waiting.await.unwrap().expect("the waiter is served");
    assert!(lease.validity() > SECOND);
    lease.release().await.unwrap();
    no_key_within(&cluster, SOON);
}

#[tokio::test]
async fn a_wait_ends_at_its_deadline() {
    let (_cluster, a, b) = two_clients();
    let _lease = a.acquire("r").ttl(60 * SECOND).await.unwrap();
    let started = Instant::now();
    let busy = b.acquire("r").wait(300 * MS).await.unwrap_err();
    let elapsed = started.elapsed();
    assert!(busy.is_contended(), "{busy}");
    // The longest pause between two rounds is 100 ms, and no round begins after the deadline.
    assert!(elapsed >= 190 * MS, "it gave up early: {elapsed:?}");
    assert!(elapsed < 300 * MS + 2 * SECOND, "it waited too long: {elapsed:?}");
    let AcquireError::Contended { waited, .. } = busy else { unreachable!() };
    assert!(waited <= elapsed && waited >= 190 * MS, "{waited:?} of {elapsed:?}");
}

#[tokio::test]
async fn a_lease_that_is_not_released_ends_with_its_ttl() {
    let (cluster, a, b) = two_clients();
    let started = Instant::now();
    let lease = a.acquire("r").ttl(2 * SECOND).without_renewal().await.unwrap();
    let next = b.acquire("r").wait(30 * SECOND).ttl(60 * SECOND).await.unwrap();
    assert!(started.elapsed() >= 2 * SECOND, "granted before the ttl was over");
    assert!(lease.validity().is_zero());
    let ended = lease.release().await.unwrap_err();
    // A minority may have set its keys late, and still has them.
    assert!(matches!(ended, ReleaseError::AlreadyEnded { released: 0..=2, .. }), "{ended}");
    // The late release has not touched the new holder's keys.
    let owner = next.owner().to_string();
    let standing = cluster.iter().filter(|s| s.get("r").as_deref() == Some(owner.as_bytes()));
    assert!(standing.count() >= 3);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_minimum_validity_that_no_round_can_reach_is_refused_or_lost() {
    let (cluster, redlock, _) = two_clients();
    let asked = redlock.acquire("r").ttl(SECOND).min_validity(SECOND).await.unwrap_err();
    assert!(matches!(asked, AcquireError::Ttl { .. }), "{asked}");
    // A nanosecond below what the drift leaves: no round trip is that fast.
    let close = SECOND - 12 * MS - std::time::Duration::from_nanos(1);
    let late = redlock.try_acquire("r").ttl(SECOND).min_validity(close).await.unwrap_err();
    assert!(matches!(late, AcquireError::TooLate { .. }), "{late}");
    no_key_within(&cluster, SOON);
    let lease = redlock.try_acquire("r").ttl(10 * SECOND).min_validity(SECOND).await.unwrap();
    assert!(lease.validity() > SECOND);
}

#[tokio::test]
async fn the_release_says_when_the_lease_had_been_taken_away() {
    let (cluster, redlock, _) = two_clients();
    let lease = redlock.acquire("r").await.unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    cluster.servers[..2].iter().for_each(|server| assert!(server.del("r")));
    lease.release().await.expect("three of five is a quorum");

    let lease = redlock.acquire("r").await.unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    cluster.servers[..3].iter().for_each(|server| server.set("r", "thief", None));
    let ended = lease.release().await.unwrap_err();
    assert!(matches!(ended, ReleaseError::AlreadyEnded { .. }), "{ended}");
    eventually("ours are gone", SOON, || cluster.locks_left().len() == 3);
    assert!(cluster.servers[..3].iter().all(|s| s.get("r").as_deref() == Some(b"thief")));
}

#[tokio::test]
async fn dropping_a_lease_releases_it_in_and_outside_a_runtime() {
    let (cluster, redlock, _) = two_clients();
    drop(redlock.acquire("r").ttl(120 * SECOND).await.unwrap());
    no_key_within(&cluster, SOON);

    let lease = redlock.acquire("r").ttl(120 * SECOND).await.unwrap();
    std::thread::spawn(move || drop(lease)).join().unwrap();
    no_key_within(&cluster, SOON);
}

#[tokio::test]
async fn a_release_goes_on_when_its_future_is_dropped() {
    let (cluster, redlock, _) = two_clients();
    let lease = redlock.acquire("r").ttl(120 * SECOND).await.unwrap();
    drop(lease.release());
    no_key_within(&cluster, SOON);
}

#[tokio::test]
async fn run_holds_the_lease_during_the_work_and_not_longer() {
    let (cluster, a, b) = two_clients();
    let answer = a.acquire("r").ttl(120 * SECOND).run(async |lease| {
        let busy = b.try_acquire("r").await.unwrap_err();
        assert!(busy.is_contended() && !lease.validity().is_zero(), "{busy}");
        42
    });
    assert_eq!(answer.await.unwrap(), 42);
    no_key_within(&cluster, SOON);

    let held = b.acquire("r").ttl(120 * SECOND).await.unwrap();
    let not_run = a.try_acquire("r").run(async |_| panic!("without a lease")).await;
    let busy = |error: RunError| matches!(error, RunError::Acquire(error) if error.is_contended());
    assert!(not_run.is_err_and(busy));

    // Work that is dropped half-way releases too.
    held.release().await.unwrap();
    let (begins, begun) = tokio::sync::oneshot::channel();
    let mut work = Box::pin(a.acquire("r").ttl(120 * SECOND).run(async |_| {
        begins.send(()).unwrap();
        std::future::pending::<()>().await;
    }));
    tokio::select! {
        _ = &mut work => panic!("it ends"),
        begun = begun => begun.unwrap(),
    }
    assert!(!cluster.locks_left().is_empty());
    drop(work);
    no_key_within(&cluster, SOON);
}

#[tokio::test]
async fn close_flushes_what_was_dropped_and_refuses_what_comes_after() {
    let cluster = Cluster::start(5);
    let redlock = connected(patient().nodes(cluster.urls()).close_timeout(60 * SECOND));
    let held = redlock.acquire("held").ttl(60 * SECOND).await.unwrap();
    for i in 0..200 {
        drop(redlock.acquire(format!("dropped:{i}")).ttl(60 * SECOND).await.unwrap());
    }
    redlock.close().await.unwrap();
    let left = cluster.locks_left();
    assert!(left.iter().all(|(_, key)| key == b"held"), "{left:?}");
    let clone = redlock.clone();
    for request in [redlock.acquire("r"), redlock.try_acquire("r"), clone.acquire("r")] {
        assert!(matches!(request.await.unwrap_err(), AcquireError::Closed));
    }
    // A lease that is still held can be released, and that can be waited for again.
    held.release().await.unwrap();
    redlock.close().await.unwrap();
    assert_eq!(cluster.locks_left(), []);
}

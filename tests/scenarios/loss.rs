//! Goal: a lease is extended, in doubt or lost, says which, and ends when its holder's limits say so.
//!
//! Method: nodes stopped by SIGSTOP, keys deleted under a held lease, holders whose heartbeat stops.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use quorlock::{ExtendError, Lease, RunError, protocol::LossReason};
use quorlock_harness::{Cluster, Server, eventually};

use super::{MS, SECOND, SOON, admitted, all_ready, has_key, ready, settings};

fn blocking<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

fn deletions(cluster: &Cluster) -> Vec<u64> {
    let calls = |server: &Server| server.command_calls("del") + server.command_calls("unlink");
    cluster.iter().map(calls).collect()
}

#[test]
fn a_key_deleted_on_a_majority_is_told_at_the_next_renewal() {
    let ttl = 3 * SECOND;
    let cluster = admitted(5, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let lease = redlock.acquire("r").blocking().unwrap();
    eventually("all have the key", SOON, || cluster.iter().all(|server| has_key(server, &lease)));
    for node in 0..3 {
        assert!(cluster[node].del("r"));
    }
    let lost = blocking(lease.lost());
    // A renewal has found that: by itself the lease would have ended for another reason.
    assert_eq!(lost.reason, LossReason::Gone);
    assert_eq!(lease.validity(), Duration::ZERO);
    assert!((0..3).all(|node| cluster[node].get("r").is_none()), "it is never taken again");
}

#[test]
fn a_key_deleted_on_a_minority_is_set_again() {
    let ttl = 2 * SECOND;
    let cluster = admitted(5, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let lease = redlock.acquire("r").blocking().unwrap();
    eventually("all have the key", SOON, || cluster.iter().all(|server| has_key(server, &lease)));
    for node in 0..2 {
        assert!(cluster[node].del("r"));
    }
    eventually("the key is back", SOON, || (0..2).all(|node| has_key(&cluster[node], &lease)));
    assert!((0..2).all(|node| cluster[node].pttl("r") > 0), "with an end");
    lease.check().unwrap();
    lease.blocking_release().unwrap();
    eventually("and it is released there too", SOON, || {
        cluster.iter().all(|server| server.get("r").is_none())
    });
}

#[test]
fn an_extension_prolongs_the_lease() {
    let ttl = 10 * SECOND;
    let cluster = admitted(5, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let lease = redlock.acquire("r").without_renewal().blocking().unwrap();
    eventually("some of it has passed", SOON, || lease.validity() < ttl - SECOND);
    let before = lease.validity();
    let left = blocking(lease.extend()).unwrap();
    assert!(left > before && lease.validity() > before, "{left:?}");
    eventually("the nodes know", SOON, || {
        cluster.iter().all(|server| server.pttl("r") > i64::try_from(before.as_millis()).unwrap())
    });
}

#[test]
fn an_extension_with_a_majority_hung_is_in_doubt_and_deletes_nothing() {
    let ttl = 20 * SECOND;
    let cluster = admitted(5, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let lease = redlock.acquire("r").without_renewal().blocking().unwrap();
    eventually("all have the key", SOON, || cluster.iter().all(|server| has_key(server, &lease)));
    let before = deletions(&cluster);
    let validity = lease.validity();
    (0..3).for_each(|node| cluster[node].pause());
    // A third timeout would end the connections, and a new one deletes a key of its own to see if it may.
    for _ in 0..2 {
        match blocking(lease.extend()) {
            Err(ExtendError::InDoubt { validity: left, .. }) => {
                assert!(left > Duration::ZERO && left < validity, "the old one runs: {left:?}");
            }
            other => panic!("{other:?}"),
        }
        lease.check().unwrap();
    }
    (0..3).for_each(|node| cluster[node].resume());
    all_ready(&redlock);
    eventually("an extension succeeds again", SOON, || blocking(lease.extend()).is_ok());
    assert!(cluster.iter().all(|server| has_key(server, &lease)));
    assert_eq!(deletions(&cluster), before, "a failed extension deletes nothing");
}

#[test]
fn an_extension_of_a_lost_lease_is_refused_and_takes_nothing() {
    let ttl = 10 * SECOND;
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let lease = redlock.acquire("r").without_renewal().blocking().unwrap();
    eventually("all have the key", SOON, || cluster.iter().all(|server| has_key(server, &lease)));
    cluster.iter().take(2).for_each(|server| assert!(server.del("r")));
    for _ in 0..2 {
        match blocking(lease.extend()) {
            Err(ExtendError::Lost(lost)) => assert_eq!(lost.reason, LossReason::Gone),
            other => panic!("{other:?}"),
        }
    }
    assert!(cluster.iter().take(2).all(|server| server.get("r").is_none()));
}

/// The time for which a lease was held, and why it ended.
fn held(lease: &Lease, since: Instant) -> (Duration, LossReason) {
    let lost = blocking(lease.lost());
    (since.elapsed(), lost.reason)
}

#[test]
fn a_lease_ends_by_itself_without_renewal() {
    let ttl = 500 * MS;
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let start = Instant::now();
    let lease = redlock.acquire("r").without_renewal().blocking().unwrap();
    let (time, reason) = held(&lease, start);
    assert_eq!(reason, LossReason::NotRenewed);
    assert!(time > ttl / 2, "{time:?}");
    assert_eq!(lease.validity(), Duration::ZERO);
}

#[test]
fn a_lease_is_not_held_for_longer_than_its_limit() {
    let (ttl, limit) = (300 * MS, 700 * MS);
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let start = Instant::now();
    let lease = redlock.acquire("r").max_hold(limit).blocking().unwrap();
    let (time, reason) = held(&lease, start);
    assert_eq!(reason, LossReason::MaxHold);
    assert!(time > limit - ttl / 2, "{time:?}");
}

#[test]
fn a_worker_that_hangs_loses_its_lease_and_one_that_goes_on_keeps_it() {
    let (ttl, within) = (10 * SECOND, 4 * SECOND);
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let start = Instant::now();
    let asks = |resource: &str| redlock.acquire(resource).heartbeat_within(within).blocking();
    let lease = asks("r").unwrap();
    let hangs = asks("hangs").unwrap();
    // Beside each other: the one is lost while the other goes on, which is kept for as long again.
    let mut since = None;
    while since.is_none_or(|since: Instant| since.elapsed() < within) {
        lease.heartbeat();
        lease.check().unwrap();
        std::thread::sleep(5 * MS);
        if since.is_none() && hangs.check().is_err() {
            let (time, reason) = held(&hangs, start);
            assert_eq!(reason, LossReason::NoHeartbeat);
            assert!(time >= within, "{time:?}");
            since = Some(Instant::now());
        }
        assert!(start.elapsed() < SOON, "it is not lost");
    }
    assert_eq!(held(&lease, start).1, LossReason::NoHeartbeat);
}

#[test]
fn run_stops_its_work_when_the_lease_is_lost() {
    let ttl = 500 * MS;
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl));
    let (begun, dropped) = (AtomicBool::new(false), AtomicBool::new(false));
    let result = blocking(redlock.acquire("r").run(async |lease| {
        let _dropped = Flag(&dropped);
        lease.check().unwrap();
        begun.store(true, Ordering::Relaxed);
        cluster.iter().for_each(Server::pause);
        std::future::pending::<()>().await;
    }));
    cluster.iter().for_each(Server::resume);
    match result {
        Err(RunError::Lost(lost)) => assert_eq!(lost.reason, LossReason::RenewalFailed),
        other => panic!("{other:?}"),
    }
    assert!(begun.into_inner() && dropped.into_inner());
    all_ready(&redlock);
    assert_eq!(blocking(redlock.acquire("r").wait(SOON).run(async |_| 7)).unwrap(), 7);
}

struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_short_lease_is_kept_under_a_hung_minority() {
    let ttl = 2 * SECOND;
    let cluster = admitted(5, ttl);
    // A client that waited for the hung nodes would have lost it.
    let redlock = ready(settings(&cluster, ttl).node_timeout(2 * ttl));
    let lease = redlock.acquire("r").blocking().unwrap();
    (0..2).for_each(|node| cluster[node].pause());
    let start = Instant::now();
    let mut least = ttl;
    while start.elapsed() < 5 * SECOND {
        least = least.min(lease.check().unwrap());
        std::thread::sleep(2 * MS);
    }
    println!("a lease of {ttl:?}, renewed for 5 s under a hung minority: least validity {least:?}");
    lease.blocking_release().unwrap();
}

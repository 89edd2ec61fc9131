//! Goal: users' tests can do with `quorlock::testing` what it promises, wherever they run.
//!
//! Method: what a test would do, in each place where a fleet can be made: a tokio runtime with one thread, with its time
//! paused and not, one with several threads, another executor, and none. `time` has what is only true of a clock,
//! `nodes` what becomes of nodes and of those who hold, `blocking` what blocks, `threads` what must end.
#![cfg(feature = "testing")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod blocking;
mod nodes;
mod threads;
mod time;

use std::{
    future::Future,
    time::{Duration, Instant},
};

use quorlock::{AcquireError, testing::Fleet};
use quorlock_harness::cpu_time;
use tokio::runtime::Builder;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Longer than any quarantine with the default settings.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(60);

/// A tokio runtime with one thread, whose time is paused.
pub(crate) fn paused<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test)
}

pub(crate) fn one_thread<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

pub(crate) fn threads<T>(test: impl Future<Output = T>) -> T {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

/// Runs a test wherever a fleet can be made, and none of it may wait in real time.
pub(crate) fn everywhere(test: impl AsyncFn(Fleet)) {
    let places: [(&str, &dyn Fn()); 6] = [
        ("time paused", &|| paused(async { test(Fleet::new(5)).await })),
        ("one thread", &|| one_thread(async { test(Fleet::new(5)).await })),
        ("one thread, and one of its own", &|| {
            one_thread(async { test(Fleet::on_thread(5)).await });
        }),
        ("several threads", &|| threads(async { test(Fleet::new(5)).await })),
        ("smol", &|| smol::block_on(async { test(Fleet::new(5)).await })),
        ("made outside", &|| {
            let fleet = Fleet::new(5);
            threads(async { test(fleet).await });
        }),
    ];
    for (place, run) in places {
        without_waiting(place, run);
    }
}

/// Its time passes without being waited for.
pub(crate) fn without_waiting(what: &str, run: impl FnOnce()) {
    let (began, computed) = (Instant::now(), cpu_time());
    run();
    let (took, computed) = (began.elapsed(), cpu_time() - computed);
    println!("{what}: {took:?}, {computed:?} of it computing");
    assert!(computed < 20 * SECOND, "{what}: {computed:?} of computing");
    assert!(took < 60 * SECOND, "{what}: {took:?} of real time");
}

#[test]
fn contention() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let other = fleet.hold("invoice:42").await;
        assert!(redlock.try_acquire("invoice:42").await.unwrap_err().is_contended());
        let waiting = async { redlock.acquire("invoice:42").wait(9 * SECOND).await };
        let (refused, ()) = tokio::join!(waiting, fleet.advance(9 * SECOND));
        let AcquireError::Contended { waited, .. } = refused.unwrap_err() else { panic!() };
        assert!(waited >= 8 * SECOND && waited <= 10 * SECOND, "{waited:?}");
        // One that waits longer gets it when it is free.
        let waiting = async { redlock.acquire("invoice:42").wait(9 * SECOND).await };
        let (granted, ()) = tokio::join!(waiting, async {
            fleet.advance(SECOND).await;
            drop(other);
        });
        granted.unwrap().release().await.unwrap();
    });
}

#[test]
fn expiry() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.builder().without_renewal().build().unwrap();
        let lease = redlock.acquire("r").ttl(8 * SECOND).await.unwrap();
        fleet.advance(7 * SECOND).await;
        lease.check().unwrap();
        assert!(fleet.nodes().iter().all(|node| node.keys().len() == 1));
        fleet.advance(2 * SECOND).await;
        assert!(lease.check().is_err());
        assert!(fleet.nodes().iter().all(|node| node.keys().is_empty()));
        drop(fleet.redlock().try_acquire("r").await.unwrap());
    });
}

#[test]
fn loss() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").await.unwrap();
        fleet.fail([0, 2, 4]);
        fleet.advance(30 * SECOND).await;
        assert!(lease.check().is_err());
        // Nothing of it has to pass any more.
        lease.lost().await;
    });
}

#[test]
fn outage() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        fleet.fail(0..=2);
        let broken = redlock.try_acquire("r").await.unwrap_err();
        assert!(!broken.is_contended(), "{broken}");
        fleet.restore(..);
        fleet.advance(SECOND).await;
        drop(redlock.acquire("r").await.unwrap());
    });
}

#[test]
fn two_services_exclude_each_other() {
    everywhere(async |fleet: Fleet| {
        let (one, two) = (fleet.redlock(), fleet.redlock());
        let first = one.acquire("r").await.unwrap();
        assert!(two.try_acquire("r").await.unwrap_err().is_contended());
        let token = first.token().unwrap();
        let (released, second) =
            tokio::join!(first.release(), async { two.acquire("r").wait(9 * SECOND).await });
        released.unwrap();
        assert!(second.unwrap().token().unwrap() > token);
    });
}

#[test]
fn a_hundred_of_a_hundred_are_acquired() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        for _ in 0..100 {
            let lease = redlock.acquire("r").await.unwrap();
            lease.release().await.unwrap();
        }
        let all = (0..100).map(|job: u32| {
            let redlock = redlock.clone();
            async move { redlock.acquire(format!("job:{job}")).await.unwrap() }
        });
        assert_eq!(futures::future::join_all(all).await.len(), 100);
    });
}

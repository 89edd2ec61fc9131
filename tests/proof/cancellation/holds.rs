//! Leases that keep others out for a while: dropped or released, the keys of a quorum stand until then, and afterwards none
//! does; where nobody had the lease they are gone at once.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Waker},
};

use quorlock::{AcquireError, Lease};

use super::*;

const HOLD: Duration = Duration::from_secs(2);
/// The allowance for drift of such a hold, and some round trips.
const SLACK: Duration = Duration::from_millis(50);

/// One node may behave as it likes.
fn fixtures() -> impl Iterator<Item = (Fixture, String)> {
    let places = (0..3).flat_map(|place| Behaviour::ALL.map(|behaviour| (place, behaviour)));
    (500..).zip(places).map(|(seed, (place, behaviour))| {
        let mut behaviours = [Behaviour::Ok; 3];
        behaviours[place] = behaviour;
        (Fixture::new(seed, behaviours), format!("node {place} {behaviour:?}"))
    })
}

fn poll<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn acquire(fixture: &Fixture) -> Lease {
    let request = fixture.redlock.acquire("r").hold_at_least(HOLD);
    fixture.runtime.block_on(request.into_future()).unwrap()
}

/// The keys of a quorum stand until the time is up, and none does afterwards, long before the ttl.
fn stands_and_goes(fixture: &Fixture, since: quorlock_core::Timestamp, what: &str) {
    let until = since.saturating_add(HOLD);
    while fixture.runtime.now() < until {
        let standing = fixture.nodes.iter().filter(|node| !node.our_keys().is_empty()).count();
        assert!(standing >= 2, "{what}: {standing} at {:?}", fixture.runtime.now());
        fixture.runtime.pass((until.saturating_since(fixture.runtime.now())).min(100 * MS));
    }
    fixture.runtime.pass(SLACK);
    fixture.assert_clean(what);
}

#[test]
fn a_release_that_is_dropped_at_any_step_keeps_others_out_and_then_no_more() {
    for steps in 0..24 {
        for (fixture, what) in fixtures() {
            let lease = acquire(&fixture);
            let since = fixture.runtime.now();
            let mut release = Box::pin(lease.release());
            if steps % 2 == 1 {
                assert!(!poll(&mut release));
            }
            for _ in 0..steps / 2 {
                fixture.runtime.step();
            }
            drop(release);
            stands_and_goes(&fixture, since, &format!("{what}, dropped at step {steps}"));
        }
    }
}

#[test]
fn a_lease_that_is_dropped_keeps_others_out_and_then_no_more() {
    for (fixture, what) in fixtures() {
        let lease = acquire(&fixture);
        let since = fixture.runtime.now();
        drop(lease);
        stands_and_goes(&fixture, since, &what);
    }
}

#[test]
fn an_acquire_that_is_dropped_at_any_step_keeps_nobody_out() {
    for steps in 0..40 {
        for (fixture, what) in fixtures() {
            let mut request = fixture.redlock.acquire("r").hold_at_least(HOLD).into_future();
            assert!(!poll(&mut request));
            for _ in 0..steps {
                fixture.runtime.step();
            }
            // Whatever it is answered by then, nobody looks.
            drop(request);
            fixture.assert_clean(&format!("{what}, dropped after {steps} steps"));
        }
    }
}

/// An expiry of its keys would take longer than is waited here.
#[test]
fn a_shutdown_that_is_dropped_at_any_step_releases_everything() {
    for steps in 0..24 {
        for (fixture, what) in fixtures() {
            let lease = fixture.redlock.acquire("r").into_future();
            let lease = fixture.runtime.block_on(lease).unwrap();
            let mut shutdown = Box::pin(fixture.redlock.shutdown());
            assert!(!poll(&mut shutdown));
            for _ in 0..steps {
                fixture.runtime.step();
            }
            drop(shutdown);
            assert!(lease.check().is_err());
            fixture.assert_clean(&format!("{what}, dropped after {steps} steps"));
        }
    }
}

#[test]
fn an_acquire_that_a_shutdown_overtakes_at_any_step_gives_nobody_a_lease() {
    for steps in 0..40 {
        for (fixture, what) in fixtures() {
            let what = format!("{what}, after {steps} steps");
            let mut acquire = fixture.redlock.acquire("r").into_future();
            assert!(!poll(&mut acquire));
            for _ in 0..steps {
                fixture.runtime.step();
            }
            let mut shutdown = Box::pin(fixture.redlock.shutdown());
            assert!(!poll(&mut shutdown), "{what}");
            fixture.runtime.pass(100 * MS);
            match fixture.runtime.block_on(acquire) {
                Ok(lease) => assert!(lease.check().is_err(), "{what}: {lease:?}"),
                Err(error) => assert!(matches!(error, AcquireError::Closed), "{what}: {error}"),
            }
            drop(shutdown);
            fixture.assert_clean(&what);
        }
    }
}

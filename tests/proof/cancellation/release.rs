//! Releases dropped: the future, the lease, the `Redlock` itself, while releases are under way.

use std::{
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Wake, Waker},
};

use quorlock::Lease;

use super::*;

/// One node may behave as it likes without any harm to the acquire.
fn fixtures() -> impl Iterator<Item = (Fixture, Lease, Behaviour)> {
    let places = (0..3).flat_map(|place| Behaviour::ALL.map(|behaviour| (place, behaviour)));
    (100..).zip(places).map(|(seed, (place, behaviour))| {
        let mut behaviours = [Behaviour::Ok; 3];
        behaviours[place] = behaviour;
        let fixture = Fixture::new(seed, behaviours);
        let request = fixture.redlock.acquire("r");
        let lease = fixture.runtime.block_on(request.into_future()).unwrap();
        (fixture, lease, behaviour)
    })
}

#[test]
fn a_dropped_lease_is_released_everywhere() {
    for (fixture, lease, behaviour) in fixtures() {
        drop(lease);
        fixture.assert_clean(&format!("lease dropped, one node {behaviour:?}"));
    }
}

#[test]
fn a_release_goes_on_when_its_future_is_dropped_at_any_step() {
    for steps in 0..40 {
        for (fixture, lease, behaviour) in fixtures() {
            let mut release = Box::pin(lease.release());
            if steps % 2 == 1 {
                let polled = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
            }
            for _ in 0..steps / 2 {
                fixture.runtime.step();
            }
            drop(release);
            fixture.assert_clean(&format!("dropped at step {steps}, one node {behaviour:?}"));
        }
    }
}

/// How the lease of a writer that reads on ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Dropped,
    Released,
    /// The future of its release is dropped unpolled.
    ReleasedUnheard,
    /// An extension of its own is under way, of which nobody hears.
    Extending,
    /// The redlock goes first.
    RedlockFirst,
}

#[test]
fn a_writer_that_reads_on_leaves_nothing_at_whichever_step_it_is_let_go() {
    use Ends::{Dropped, Extending, RedlockFirst, Released, ReleasedUnheard};
    let polled_once = |future: Pin<&mut dyn Future<Output = ()>>| {
        let _ = future.poll(&mut Context::from_waker(Waker::noop()));
    };
    for (before, behind, ends) in [0, 1, 3].into_iter().flat_map(|before| {
        let ends = [Dropped, Released, ReleasedUnheard, Extending, RedlockFirst];
        (0..14).flat_map(move |behind| ends.map(|ends| (before, behind, ends)))
    }) {
        for (fixture, lease, behaviour) in fixtures() {
            let what = format!("{before} and {behind} steps, {ends:?}, one node {behaviour:?}");
            let step = |times| {
                for _ in 0..times {
                    fixture.runtime.step();
                }
            };
            // What is left of the acquire is under way.
            step(before);
            if matches!(ends, Extending) {
                polled_once(pin!(async {
                    let _ = lease.extend().await;
                }));
            }
            let reads = lease.downgrade().unwrap();
            step(behind);
            reads.check().unwrap_or_else(|lost| panic!("{what}: {lost}"));
            match ends {
                Dropped => drop(reads),
                Released => polled_once(pin!(async {
                    let _ = reads.release().await;
                })),
                ReleasedUnheard => drop(reads.release()),
                Extending => {
                    polled_once(pin!(async {
                        let _ = reads.extend().await;
                    }));
                    drop(reads);
                }
                RedlockFirst => {
                    let Fixture { runtime, nodes, redlock } = fixture;
                    drop(redlock);
                    drop(reads);
                    runtime.pass(Duration::from_secs(2));
                    for node in &nodes {
                        assert_eq!(node.our_keys(), Vec::<Vec<u8>>::new(), "{what}, {node:?}");
                        assert_eq!(node.not_released(), Vec::new(), "{what}, {node:?}");
                    }
                    runtime.shut_down();
                    continue;
                }
            }
            fixture.assert_clean(&what);
        }
    }
}

/// A waker of a careless executor.
struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the user's");
    }
}

/// Lets time pass. A task that panics ends, and the others go on, as on any executor.
fn pass_with_panics(fixture: &Fixture, time: Duration) {
    let end = fixture.runtime.now().saturating_add(time);
    fixture.runtime.spawn(fixture.runtime.sleep(time));
    while fixture.runtime.now() < end {
        drop(catch_unwind(AssertUnwindSafe(|| fixture.runtime.step())));
    }
}

#[test]
fn a_release_goes_on_when_the_waker_of_its_caller_panics() {
    let waker = Waker::from(Arc::new(Panicking));
    for (fixture, lease, behaviour) in fixtures() {
        let mut release = Box::pin(lease.release());
        assert!(release.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        pass_with_panics(&fixture, 100 * MS);
        fixture.assert_clean(&format!("the waker panics, one node {behaviour:?}"));
    }
}

#[test]
fn a_release_that_is_awaited_is_confirmed_by_the_other_two() {
    for (fixture, lease, behaviour) in fixtures() {
        let before = fixture.runtime.now();
        let released = fixture.runtime.block_on(lease.release());
        assert!(released.is_ok(), "one node {behaviour:?}: {released:?}");
        let took = fixture.runtime.now().saturating_since(before);
        assert!(took <= 3 * MS, "one node {behaviour:?} made the release take {took:?}");
        fixture.assert_clean(&format!("awaited, one node {behaviour:?}"));
    }
}

#[test]
fn releases_go_on_when_the_redlock_is_dropped_under_way() {
    for steps in 0..20 {
        for (fixture, lease, behaviour) in fixtures() {
            let Fixture { runtime, nodes, redlock } = fixture;
            drop(lease);
            for _ in 0..steps {
                runtime.step();
            }
            drop(redlock);
            runtime.pass(Duration::from_secs(2));
            for node in &nodes {
                let what = format!("step {steps}, one node {behaviour:?}, {node:?}");
                assert_eq!(node.our_keys(), Vec::<Vec<u8>>::new(), "{what}");
                assert_eq!(node.not_released(), Vec::new(), "{what}");
            }
            runtime.shut_down();
        }
    }
}

#[test]
fn a_lease_outlives_its_redlock_and_is_still_released() {
    for (fixture, lease, behaviour) in fixtures() {
        let Fixture { runtime, nodes, redlock } = fixture;
        drop(redlock);
        runtime.pass(Duration::from_millis(100));
        assert!(lease.validity() > Duration::ZERO);
        drop(lease);
        runtime.pass(Duration::from_secs(2));
        for node in &nodes {
            assert_eq!(node.our_keys(), Vec::<Vec<u8>>::new(), "one node {behaviour:?}, {node:?}");
        }
        runtime.shut_down();
    }
}

#[test]
fn a_close_that_is_dropped_leaves_the_releases_under_way() {
    for (fixture, lease, behaviour) in fixtures() {
        drop(lease);
        let redlock = fixture.redlock.clone();
        {
            let mut close = pin!(redlock.close());
            let polled = close.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        let refused = fixture.runtime.block_on(redlock.acquire("r").into_future());
        assert!(matches!(refused, Err(quorlock::AcquireError::Closed)), "{refused:?}");
        fixture.assert_clean(&format!("close dropped, one node {behaviour:?}"));
    }
}

#[test]
fn a_node_that_never_answers_again_does_not_keep_anything_active_for_ever() {
    let behaviours = [Behaviour::Ok, Behaviour::Never, Behaviour::Ok];
    let fixture = Fixture::new(1, behaviours);
    let lease = fixture.runtime.block_on(fixture.redlock.acquire("r").into_future()).unwrap();
    let before = fixture.runtime.now();
    drop(lease);
    fixture.assert_closes("a node that never answers");
    let took = fixture.runtime.now().saturating_since(before);
    // The key may still appear for a ttl; the node is watched for a minute more.
    assert!(
        took >= TTL + Duration::from_secs(60),
        "given up after {took:?}, when the key may still come to stand there"
    );
    assert!(took <= TTL + Duration::from_secs(62), "followed for {took:?}");
}

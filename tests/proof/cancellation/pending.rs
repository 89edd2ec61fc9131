//! Releases that a node has not confirmed, sent again once it answers.

use std::{
    future::IntoFuture,
    task::{Context, Waker},
};

use super::*;

/// How many leases were released while a node stood still.
const MANY: usize = 3_000;

#[test]
fn a_node_that_goes_on_is_soon_rid_of_thousands_of_releases() {
    let fixture = Fixture::new(1, [Behaviour::Ok, Behaviour::Ok, Behaviour::Never]);
    for number in 0..MANY {
        let request = fixture.redlock.acquire(format!("r{number}"));
        drop(fixture.runtime.block_on(request.into_future()).unwrap());
    }
    // All are unconfirmed by now, and the pauses between two tries are the longest ones.
    fixture.runtime.pass(Duration::from_secs(5));
    fixture.nodes[2].turn(Behaviour::Ok);
    fixture.nodes[2].revive();
    let before = fixture.runtime.now();
    fixture.assert_closes("after the resume");
    let took = fixture.runtime.now().saturating_since(before);
    println!("{MANY} releases took {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(fixture.nodes.iter().all(|node| node.our_keys().is_empty()));
    fixture.runtime.shut_down();
}

/// Nothing was set, so that there is nothing to be released, though the releases that were sent by then fail as well.
#[test]
fn nothing_is_left_for_a_node_that_refuses_the_acquire_after_the_verdict() {
    use Behaviour::{Denied, NotAllowed, Ok};
    for behaviours in [
        [Ok, Ok, NotAllowed],
        [Denied, Denied, NotAllowed],
        [Ok, NotAllowed, NotAllowed],
        [NotAllowed; 3],
    ] {
        // Dropped before the verdict, between it and the last answer, and behind that.
        for steps in 0..40 {
            let fixture = Fixture::new(steps, behaviours);
            let request = fixture.redlock.try_acquire("r");
            let mut acquire = Box::pin(request.into_future());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(acquire.as_mut().poll(&mut cx).is_pending());
            for _ in 0..steps {
                fixture.runtime.step();
            }
            drop(acquire);
            let what = format!("{behaviours:?}, dropped after {steps} steps");
            let before = fixture.runtime.now();
            fixture.assert_closes(&what);
            let took = fixture.runtime.now().saturating_since(before);
            assert!(took < Duration::from_millis(100), "{what}: {took:?}");
            assert!(fixture.nodes.iter().all(|node| node.our_keys().is_empty()), "{what}");
            fixture.runtime.shut_down();
        }
    }
}

#[test]
fn releases_are_sent_again_also_after_a_node_has_panicked() {
    let fixture = Fixture::new(1, [Behaviour::Ok, Behaviour::Ok, Behaviour::Never]);
    let node = &fixture.nodes[2];
    let dropped = |resource: &str| {
        let request = fixture.redlock.acquire(resource);
        drop(fixture.runtime.block_on(request.into_future()).unwrap());
        // The release has had its time, and is left for later.
        fixture.runtime.pass(2 * NODE_TIMEOUT);
    };
    dropped("r");
    node.turn(Behaviour::Panics);
    let before = node.sent();
    fixture.runtime.pass(Duration::from_secs(1));
    assert!(node.sent() > before + 1, "it is not sent again after a panic");
    node.turn(Behaviour::Never);
    dropped("s");
    let before = node.sent();
    fixture.runtime.pass(Duration::from_secs(1));
    assert!(node.sent() > before, "nobody sends it again");
    node.turn(Behaviour::Ok);
    node.revive();
    fixture.assert_closes("after a panic");
    fixture.runtime.shut_down();
}

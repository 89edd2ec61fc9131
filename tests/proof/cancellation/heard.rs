//! A round that was lost to the holder, and that a far node has not answered yet.
//!
//! Goal: that node is not asked to delete what it is about to deny; and nothing of the round stands in the way of whatever
//! comes next. Method: two nodes that deny at once, and one whose answer is on its way when the round is lost.

use std::{
    future::{Future as _, IntoFuture as _},
    pin::Pin,
    task::{Context, Waker},
};

use super::{
    node::{FAR, Sort},
    *,
};
use Sort::{Acquire, Release};

const NEAR_AND_FAR: [Behaviour; 3] = [Behaviour::Denied, Behaviour::Denied, Behaviour::Far];

/// The waiter has been denied twice, the second time from its place in the line, and the far node has answered nothing
/// yet.
fn waiting(deny: bool) -> (Fixture, quorlock::runtime::Task) {
    let fixture = Fixture::with(1, NEAR_AND_FAR, |nodes| {
        if deny {
            nodes[2].deny()
        }
    });
    let redlock = fixture.redlock.clone();
    let mut request: quorlock::runtime::Task = Box::pin(async move {
        redlock.acquire("r").await.unwrap_err();
    });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut cx).is_pending());
    fixture.runtime.pass(FAR - 2 * MS);
    assert_eq!(fixture.nodes[2].sorts(), [Acquire; 2], "it has been asked and not answered");
    (fixture, request)
}

#[test]
fn what_is_denied_late_is_not_released() {
    let (fixture, request) = waiting(true);
    fixture.runtime.pass(4 * MS);
    assert_eq!(fixture.nodes[2].sorts(), [Acquire; 2], "both are denied by now");
    fixture.runtime.block_on(request);
    assert!(!fixture.nodes[2].sorts().contains(&Release));
    fixture.assert_clean("denied late");
}

#[test]
fn what_is_granted_late_is_released_when_that_is_known() {
    let (fixture, request) = waiting(false);
    // A little longer: at the very moment of the answer this test may be the first to go on.
    fixture.runtime.pass(2 * MS + MS / 10);
    assert_eq!(fixture.nodes[2].sorts(), [Acquire, Acquire, Release]);
    // The key of the first round denied the second one.
    fixture.runtime.pass(MS);
    assert_eq!(fixture.nodes[2].sorts(), [Acquire, Acquire, Release]);
    fixture.runtime.block_on(request);
    fixture.assert_clean("granted late");
}

#[test]
fn a_caller_who_goes_away_has_it_released_at_once() {
    let (fixture, request) = waiting(true);
    drop(request);
    fixture.runtime.pass(MS / 10);
    assert_eq!(fixture.nodes[2].sorts(), [Acquire, Acquire, Release, Release]);
    fixture.assert_clean("dropped");
}

/// Sent before those releases, the round would be denied for a key of this very client.
#[test]
fn the_next_round_is_sent_behind_the_releases_of_those_before() {
    let (fixture, request) = waiting(true);
    fixture.nodes[..2].iter().for_each(ScriptedNode::tell_freed);
    fixture.runtime.pass(MS / 10);
    assert_eq!(fixture.nodes[2].sorts(), [Acquire, Acquire, Release, Release, Acquire]);
    fixture.runtime.block_on(request);
    fixture.assert_clean("woken");
}

/// A node that grants takes the client out of its line by itself.
#[test]
fn whoever_has_won_leaves_the_line_of_a_node_that_has_denied_it() {
    let fixture = Fixture::with(1, [Behaviour::Ok; 3], |nodes| {
        nodes.iter().for_each(ScriptedNode::deny);
    });
    let mut request = fixture.redlock.acquire("r").into_future();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut request).poll(&mut cx).is_pending());
    fixture.runtime.pass(4 * MS);
    for node in &fixture.nodes[..2] {
        node.forget("r");
        node.tell_freed();
    }
    let lease = fixture.runtime.block_on(request).unwrap();
    fixture.runtime.pass(2 * MS);
    let left = fixture.nodes.iter().map(ScriptedNode::left).collect::<Vec<_>>();
    assert_eq!(left, [0, 0, 1]);
    drop(lease);
    fixture.assert_clean("won on two of three");
}

/// The lease may have been given back before that node's denial was known. Once it is, there is nothing to wait for.
#[test]
fn what_is_denied_behind_the_end_of_the_lease_keeps_nobody_waiting() {
    for seed in 0..50 {
        let fixture =
            Fixture::with(seed, [Behaviour::Ok, Behaviour::Ok, Behaviour::Far], |nodes| {
                nodes[2].deny();
            });
        let began = fixture.runtime.now();
        let request = fixture.redlock.try_acquire("r").into_future();
        let lease = fixture.runtime.block_on(request).unwrap();
        fixture.runtime.block_on(lease.release().into_future()).unwrap();
        fixture.assert_closes("denied behind the end");
        let took = fixture.runtime.now().saturating_since(began);
        println!("seed {seed}: {took:?}");
        assert!(took < FAR + 3 * MS, "seed {seed}: {took:?}");
        assert_eq!(fixture.nodes[2].sorts(), [Acquire, Release], "seed {seed}");
    }
}

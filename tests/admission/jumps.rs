//! Goal: of several clocks that seem to have jumped none is blamed, or forgiven, before there is evidence.

use std::{sync::Arc, time::Duration};

use quorlock::{Redlock, node::NodeState, runtime::Runtime as _};
use quorlock_harness::SimRuntime;

/// Two of five cannot be asked, and the clocks of two others jump at their next acquire.
fn two_of_five_jump(max_ttl: Duration) -> (SimRuntime, Vec<Arc<Slow>>, Redlock) {
    let (runtime, slow, redlock) = in_virtual_time_with(5, max_ttl);
    slow[3].cut(true);
    slow[4].cut(true);
    runtime.pass(10 * MS);
    slow[0].plan().jump = true;
    slow[1].plan().jump = true;
    (runtime, slow, redlock)
}

use super::{
    MS, SECOND,
    slow::{Slow, ask, in_virtual_time, in_virtual_time_with},
};

/// Two of five clocks have jumped, and two nodes cannot be asked: one that goes on as it should is no evidence
/// that ours does, and no evidence that it does not.
#[test]
fn nodes_whose_clocks_jumped_do_not_vote_until_the_others_can_be_asked() {
    let max_ttl = 3 * SECOND;
    let (runtime, slow, redlock) = two_of_five_jump(max_ttl);
    ask(&runtime, &redlock);
    let asked = [slow[0].plan().acquires, slow[1].plan().acquires];
    for _ in 0..20 {
        runtime.pass(100 * MS);
        ask(&runtime, &redlock);
    }
    assert_eq!([slow[0].plan().acquires, slow[1].plan().acquires], asked, "they are not asked");
    assert!(slow.iter().all(|node| node.plan().forced.is_empty()), "and not blamed");
    slow[3].cut(false);
    slow[4].cut(false);
    runtime.pass(SECOND);
    assert!(slow[..2].iter().all(|node| !node.plan().forced.is_empty()), "now they are");
    assert!(slow[2..].iter().all(|node| node.plan().forced.is_empty()));
    runtime.pass(max_ttl + SECOND);
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));
    runtime.shut_down();
}

/// The others are away for good.
#[test]
fn nodes_whose_clocks_jumped_vote_again_when_no_lease_of_before_lasts() {
    let max_ttl = 3 * SECOND;
    let quarantine = max_ttl + max_ttl / 10 + 100 * MS;
    let (runtime, slow, redlock) = two_of_five_jump(max_ttl);
    let jumped = runtime.now();
    ask(&runtime, &redlock);
    let acquires = || [slow[0].plan().acquires, slow[1].plan().acquires];
    let asked = acquires();
    while runtime.now().saturating_since(jumped) < quarantine {
        assert_eq!(acquires(), asked, "they are not asked");
        runtime.pass(50 * MS);
        ask(&runtime, &redlock);
    }
    runtime.pass(SECOND);
    ask(&runtime, &redlock);
    assert!(acquires().iter().zip(asked).all(|(now, before)| *now > before), "they are asked");
    assert!(slow.iter().all(|node| node.plan().forced.is_empty()), "and nobody was blamed");
    assert!(redlock.nodes()[..3].iter().all(|node| node.state == NodeState::Ready));
    runtime.shut_down();
}

/// A clock of our own that stood still makes all nodes look as if they had jumped.
#[test]
fn nobody_is_blamed_where_a_majority_seems_to_have_jumped() {
    let (runtime, slow, redlock) = in_virtual_time(5);
    slow[..3].iter().for_each(|node| node.plan().jump = true);
    ask(&runtime, &redlock);
    assert!(slow[..3].iter().all(|node| !node.plan().jump), "they have been seen");
    runtime.pass(SECOND);
    assert!(slow.iter().all(|node| node.plan().forced.is_empty()));
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));
    drop(runtime.block_on(redlock.try_acquire("r").into_future()).unwrap());
    runtime.shut_down();
}

//! Goal: a waiter in the lines on the nodes hears of it if one of them stops voting, since that node wakes no waiter
//! any more, and too few may be left that do.
//!
//! Method: virtual time, and two worlds that are alike in all but that a node of one is cut off in the middle of a pause.

use std::{future::IntoFuture, time::Duration};

use crate::{
    fixture::{Fixture, MS, SECOND},
    line::poll,
};

const TTL: Duration = Duration::from_secs(60);

/// How many commands another process sends that waits, in the middle of the pause between two polls.
fn asked_in_a_pause(is_cut_off: bool) -> usize {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let _held = world.request(world.redlock.acquire("r").without_renewal());
    let other = world.other_process(|it| it.ttl(TTL).max_ttl(TTL));
    let mut waits = other.acquire("r").wait(TTL / 2).into_future();
    assert!(poll(&mut waits).is_pending());
    world.pass(3 * SECOND);
    // It has just asked, and has a second or more until it asks again.
    let before = world.sent();
    while world.sent() == before {
        world.pass(MS);
    }
    world.pass(100 * MS);
    let before = world.sent();
    if is_cut_off {
        world.nodes[2].disconnect();
    }
    world.pass(200 * MS);
    world.sent() - before
}

#[test]
fn who_waits_in_line_asks_at_once_when_a_node_stops_voting() {
    assert_eq!(asked_in_a_pause(false), 0, "it pauses");
    assert!(asked_in_a_pause(true) > 0, "it does not know what it would not be told");
}

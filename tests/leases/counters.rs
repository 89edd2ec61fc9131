//! Goal: a counter that no clock explains costs its node the vote; where the others are too few, that is said, and nodes are
//! not asked again and again.
//!
//! Method: virtual time; a node that says that it counts two days ahead, and others that do not answer.

use std::{future::IntoFuture, time::Duration};

use quorlock::{AcquireError, node::NodeError};

use crate::fixture::{Fixture, Manner, SECOND};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn where_too_few_counters_can_be_believed_it_is_said_and_nodes_are_not_asked_again_and_again() {
    let world = Fixture::new(10 * SECOND);
    let ahead = &world.nodes[0];
    ahead.set(Manner::CountsAhead(2 * DAY));
    drop(world.acquire("r"));
    world.pass(SECOND);
    world.nodes[2].hang();
    let sent = world.sent();
    let request = world.redlock.acquire("r").wait(4 * SECOND).into_future();
    let error = world.machine.sim.block_on(request).unwrap_err();
    assert!(!error.is_contended(), "nobody holds it: {error}");
    let AcquireError::NoQuorum { granted, needed, nodes, .. } = &error else { panic!("{error}") };
    assert_eq!((*granted, *needed), (1, 2), "{error}");
    let failed: Vec<_> =
        nodes.failures().map(|(report, failure)| (report.node.index(), failure)).collect();
    assert_eq!(failed[0], (0, &NodeError::CounterImplausible), "{error}");
    // A round every few milliseconds would be thousands.
    let sent = world.sent() - sent;
    assert!(sent < 200, "{sent}");
    world.pass(SECOND);
    assert!(!ahead.has("r"), "what it granted is released");
    ahead.set(Manner::Sound);
    world.acquire("r").check().unwrap();
}

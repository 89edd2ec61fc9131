//! Goal: what others have written into markers costs no node more than a quarantine, and what an operator has written there
//! is what the counters go on from.
//!
//! Method: real servers, and fields of their markers that are overwritten.

use std::time::SystemTime;

use quorlock_harness::eventually;

use super::{MARKER, SECOND, SOON, admitted, ready, scripts::Node, settings};

/// Others have written a high-water mark an hour ahead to a majority of the markers.
#[test]
fn a_node_whose_high_water_mark_others_have_written_is_admitted_by_itself() {
    let cluster = admitted(3, SECOND);
    let client = ready(settings(&cluster, SECOND));
    let hour = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + 3600 * SECOND;
    for node in 0..2 {
        cluster[node].run(&["HSET", MARKER, "high_water", &hour.as_micros().to_string()]);
    }
    // Past the next look at the nodes.
    std::thread::sleep(11 * SECOND);
    eventually("it is admitted by itself", SOON, || client.try_acquire("r").blocking().is_ok());
}

/// Or from the high-water mark, where that is above the floor; or from zero, where neither is there.
#[test]
fn a_node_that_an_operator_approves_goes_on_from_the_floor_that_stands_there() {
    for (floor, high_water, counted) in
        [(None, 0, 0), (None, 9, 9), (Some("7"), 0, 7), (Some("7"), 9, 9), (Some("x"), 0, 0)]
    {
        let node = Node::admitted();
        node.mark(&[("high_water", &high_water.to_string())]);
        node.set_state("approved");
        match floor {
            Some(floor) => node.server.run(&["HSET", MARKER, "floor", floor]),
            None => node.server.run(&["HDEL", MARKER, "floor"]),
        };
        let seen = node.join("0");
        assert!(seen.ready, "{floor:?}, {high_water}");
        assert_eq!([seen.floor, seen.high_water], [counted; 2], "{floor:?}, {high_water}");
    }
}

//! Goal: what others have written into markers costs no node more than a quarantine, and what an operator has written there
//! is what the counters go on from.
//!
//! Method: real servers, and fields of their markers that are overwritten.

use std::time::SystemTime;

use quorlock_harness::eventually;
use redis::Value;

use super::{
    MARKER, SECOND, SOON, admitted, ready,
    scripts::{ERA, HOUR_MS, Node, Tell},
    settings,
};

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

/// Of a node that keeps its counters while it joins, and of one that has none: neither votes with foreign counters.
#[test]
fn what_others_have_put_among_the_counters_of_a_node_that_is_joining_goes_when_it_is_admitted() {
    const COUNTERS: &str = "quorlock:counters";
    let entry = format!("{:016}{}", 3, "b".repeat(32));
    for (letters, head) in [("", Some("other")), ("l", Some("other")), ("l", None), ("", None)] {
        let node = Node::admitted();
        node.server.run(&["HSET", COUNTERS, "before", &entry]);
        let seen = node.look(&["this", "0", "test/1", "60000", ERA, letters, "0"]);
        assert!(!seen.ready);
        node.server.run(&["HSET", COUNTERS, "r", &entry]);
        if let Some(head) = head {
            node.server.run(&["HSET", COUNTERS, "", head]);
        }
        assert!(node.admit(&seen.epoch));
        let keeps = letters.is_empty() && head.is_none();
        for name in ["before", "r"] {
            let stands = node.server.run(&["HEXISTS", COUNTERS, name]) == Value::Int(1);
            assert_eq!(stands, keeps, "{name} behind {letters:?}, {head:?}");
        }
    }
}

#[test]
fn a_look_at_a_replica_says_that_it_is_one() {
    let node = Node::admitted();
    // Nobody listens there.
    node.server.run(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(node.look_code(&["this", "0", "test/1", "60000", "0", "", "0"]), -6);
}

/// It would go on from there, and no script counts so far.
#[test]
fn an_epoch_that_no_script_counts_to_is_not_gone_on_from() {
    for (after, is_taken) in [(1_u64 << 52, true), (1 << 53, false), (u64::MAX, false)] {
        let node = Node::admitted();
        let look = ["this", "0", "test/1", "60000", ERA, "", "0"];
        let seen = node.look_telling(&look, HOUR_MS, Tell { after, ..Tell::default() });
        let epoch: u64 = seen.epoch.parse().unwrap();
        assert_eq!(epoch > after, is_taken, "{after}: {epoch}");
        assert!(epoch > 42 && epoch < 1 << 53, "{after}: {epoch}");
    }
}

/// Scripts write both.
#[test]
fn other_members_that_mean_to_use_a_node_and_do_not_say_until_when_keep_nobody_from_it() {
    let node = Node::empty();
    node.server.run(&["HSET", MARKER, "meant", "other/1"]);
    assert_eq!(node.look_code(&["this", "0", "test/1", "60000", "0", "", "0"]), 0);
}

//! Goal: the note that a holder with a label leaves beside the counter is kept for as long as its key may stand,
//! changes no counter, and costs nothing where there is no label.
//!
//! Method: the real scripts by EVAL on a real server, and two clients whose commands the server shows.

use std::time::Duration;

use quorlock::{Holder, Redlock};
use quorlock_harness::{eventually, redis};

use super::{
    SECOND, SOON, admitted, ready,
    scripts::{Ask, Node},
    settings,
    texts::CONFIRM,
};

const A: &str = "aaaaaaaaaaaa4aaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbb4bbbbbbbbbbbbbbbbbbb";
const NOTE: &str = "1795170000123456web-1";
const NOTED: Option<&str> = Some(NOTE);

fn noted(owner: &str) -> Option<String> {
    Some(format!("{owner}{NOTE}"))
}

/// With a counter that is not of the owner's grant.
fn restored(owner: &str) -> Option<String> {
    Some(format!("{owner}r{NOTE}"))
}

#[test]
fn it_stands_behind_the_owner_by_either_path() {
    let node = Node::admitted();
    // By the slow path, which raises the high-water mark, and then as asked.
    node.granted(Ask { note: NOTED, hint: node.now_us(), ..Ask::of(A) });
    assert_eq!(node.entry(), noted(A));
    node.expire();
    let hint = node.counter().unwrap() + 1;
    assert_eq!(node.acquire(Ask { note: NOTED, hint, ..Ask::of(B) }).len(), 1, "as asked");
    assert_eq!(node.entry(), noted(B));
    node.expire();
    node.granted(Ask { hint: hint + 1, ..Ask::of(A) });
    assert_eq!(node.entry().as_deref(), Some(A), "without a label nothing is left");
    node.granted_nothing(Ask { note: NOTED, ..Ask::of(B) });
    assert_eq!(node.entry().as_deref(), Some(A), "nor by one who was denied");
}

#[test]
fn a_confirm_keeps_it_and_takes_none_of_somebody_elses() {
    let node = Node::admitted();
    let token = node.granted(Ask { note: NOTED, ..Ask::of(A) });
    assert!(node.confirmed(CONFIRM, A, token + 5));
    assert_eq!((node.counter(), node.entry()), (Some(token + 5), noted(A)));
    // The key has become another's, as after a restore, and the entry has not.
    node.server.set("r", B, None);
    assert!(node.confirmed(CONFIRM, B, token + 9));
    assert_eq!((node.counter(), node.entry().as_deref()), (Some(token + 9), Some(B)));
}

#[test]
fn a_counter_that_is_rotated_keeps_it_until_it_is_dropped() {
    let node = Node::admitted();
    node.granted(Ask { note: NOTED, ..Ask::of(A) });
    let rotate = || {
        node.mark(&[("rotated_at", "1")]);
        assert!(node.join("0").ready);
    };
    rotate();
    assert_eq!(node.generations(), [0, 1]);
    assert_eq!(node.holder().2.map(|entry| entry[16..].to_owned()), noted(A));
    rotate();
    let (left, value, entry) = node.holder();
    assert!(left > 0, "the key stands");
    assert_eq!((value.as_deref(), entry), (Some(A), None), "and its label is gone");
}

#[test]
fn a_restore_leaves_it_again_and_moves_no_counter() {
    let node = Node::admitted();
    let token = node.granted(Ask { note: NOTED, ..Ask::of(A) });
    node.expire();
    let waiter = node.granted(Ask::of(B));
    assert!(waiter > token);
    assert_eq!(node.restored_with(A, NOTE), 0);
    assert_eq!(node.entry().as_deref(), Some(B), "nothing is set where there is a key");
    node.expire();
    assert_eq!(node.restored_with(A, NOTE), 1);
    assert_eq!((node.counter(), node.entry()), (Some(waiter), restored(A)));
    node.expire();
    assert_eq!(node.restored_with(A, NOTE), 1, "once more");
    assert_eq!((node.counter(), node.entry()), (Some(waiter), restored(A)));
    assert!(node.confirmed(CONFIRM, A, waiter + 1), "then it is its own");
    assert_eq!((node.counter(), node.entry()), (Some(waiter + 1), noted(A)));
    node.expire();
    assert_eq!(node.restored_with(A, NOTE), 1, "and stays that where only the key was gone");
    assert_eq!((node.counter(), node.entry()), (Some(waiter + 1), noted(A)));
    node.expire();
    assert_eq!(node.granted(Ask::of(B)), waiter + 2);
}

/// A node that has forgotten has no counter for the resource: it is at the floor, and is so still.
#[test]
fn a_restore_where_there_is_no_counter_leaves_it_at_the_floor() {
    let node = Node::admitted();
    node.mark(&[("floor", "5000"), ("next_floor", "5000"), ("high_water", "6000")]);
    assert_eq!(node.restored_with(A, NOTE), 1);
    assert_eq!((node.counter(), node.entry()), (Some(5000), restored(A)));
    assert_eq!(node.marked("high_water"), 6000);
    assert!(!node.confirmed(CONFIRM, B, 5001), "it is not the key's owner");
    node.expire();
    assert_eq!(node.granted(Ask::of(B)), 5001, "as without it");
    // What others wrote there is left alone.
    node.expire();
    node.write_counter("junk");
    assert_eq!(node.restored_with(A, NOTE), 1);
    assert_eq!(node.holder().2.as_deref(), Some("junk"));
}

/// The floor that a restore wrote stays below whatever the next generation begins with.
#[test]
fn a_restore_before_a_rotation_lets_no_counter_fall() {
    let node = Node::admitted();
    node.mark(&[("floor", "5000"), ("next_floor", "5000"), ("high_water", "6000")]);
    node.server.run(&["HSET", "quorlock:counters", "other", &format!("0000000000006000{B}")]);
    assert_eq!(node.restored_with(A, NOTE), 1);
    node.expire();
    for _ in 0..2 {
        node.mark(&[("rotated_at", "1")]);
        assert!(node.join("0").ready);
    }
    assert!(node.granted(Ask::of(B)) > 6000, "no counter was above that");
}

#[test]
fn who_holds_is_told_of_any_key_and_not_by_a_node_that_is_joining() {
    let node = Node::admitted();
    assert_eq!(node.holder(), (-2, Some(String::new()), None));
    node.server.set("r", "them", None);
    assert_eq!(node.holder(), (-1, Some("them".to_owned()), None));
    node.server.run(&["DEL", "r"]);
    node.server.run(&["HSET", "r", "a", "b"]);
    assert_eq!(node.holder(), (-1, None, None));
    node.server.run(&["DEL", "r"]);
    node.server.set("r", "x".repeat(100), None);
    assert_eq!(node.holder().1, Some("x".repeat(64)));
    node.set_state("joining");
    assert_eq!(node.asked_who_holds(), -1);
}

/// A lease with a label whose clock was set back on a node is cut like any other.
#[test]
fn a_lease_that_is_too_long_is_cut_also_with_a_label() {
    let node = Node::admitted();
    node.granted(Ask { note: NOTED, ..Ask::of(A) });
    node.server.run(&["PEXPIRE", "r", "9000000"]);
    node.granted_nothing(Ask::of(B));
    assert!(node.holder().0 <= 60_000, "{:?}", node.holder());
}

#[test]
fn a_label_costs_no_command_and_none_costs_no_byte() {
    let cluster = admitted(1, 10 * SECOND);
    let plain = ready(settings(&cluster, 10 * SECOND));
    let label = "host/4711/name";
    let labelled = ready(settings(&cluster, 10 * SECOND).label(label));
    let warm = |redlock: &Redlock| {
        redlock.acquire("warm").blocking().unwrap().blocking_release().unwrap();
    };
    warm(&plain);
    warm(&labelled);
    let calls = |command| cluster[0].command_calls(command);
    for (redlock, bytes) in [(&plain, 48), (&labelled, 48 + 16 + label.len())] {
        let before = ["evalsha", "eval", "hset", "set", "hget"].map(calls);
        let lease = redlock.acquire("r").without_renewal().blocking().unwrap();
        let after = ["evalsha", "eval", "hset", "set", "hget"].map(calls);
        let more: Vec<u64> =
            after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(more[..2], [1, 0]);
        assert!((1..=3).contains(&more[2]), "its counter, and the mark once in a while: {more:?}");
        assert_eq!(more[3], 1);
        let entry: Vec<u8> =
            redis::from_redis_value(cluster[0].run(&["HGET", "quorlock:counters", "r"])).unwrap();
        assert_eq!(entry.len(), bytes);
        lease.blocking_release().unwrap();
        // The next acquire writes the entry anew.
        eventually("it is released", SOON, || cluster.locks_left().is_empty());
    }
}

#[test]
fn a_node_that_lost_a_key_gets_the_label_back_with_it() {
    let cluster = admitted(3, 20 * SECOND);
    let redlock = ready(settings(&cluster, 20 * SECOND).label("web-1"));
    let lease = redlock.acquire("r").blocking().unwrap();
    eventually("all have the key", SOON, || {
        cluster.iter().all(|node| super::has_key(node, &lease))
    });
    assert!(cluster[1].del("r"));
    cluster[1].run(&["HDEL", "quorlock:counters", "r"]);
    futures::executor::block_on(lease.extend()).unwrap();
    eventually("the key is back", SOON, || super::has_key(&cluster[1], &lease));
    cluster[0].kill();
    cluster[0].restart_empty();
    // Two of three are left: the one that has never lost it, and the one that was restored.
    let held = || match redlock.blocking_holder("r") {
        Ok(Holder::Held(by)) => Some(by),
        _ => None,
    };
    eventually("the holder is named", SOON, || held().is_some());
    let by = held().unwrap();
    assert_eq!(by.owner, Some(lease.owner()));
    assert_eq!(by.label.unwrap().as_bytes(), b"web-1");
    assert_eq!(by.token, None, "one node alone has its counter");
    assert!(by.remaining.unwrap() > Duration::from_secs(5));
}

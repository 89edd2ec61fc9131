//! The line of a semaphore on a server, by its scripts: a waiter that is let in lets the next one in if there is
//! another slot, and in no other case; a release of a slot is told to waiters for its name, and to those for any.

use quorlock_harness::redis::Value;

use super::{A, B, C, Ear, LINE as LINE_OF_R, owner, standing};
use crate::{
    MARKER,
    scripts::{ETAG, Node, RESOURCE},
    standing::with_standing_clock,
    texts::{ACQUIRE, ACQUIRE_ANY, RELEASE, RELEASE_READ},
};

const SLOTS: [&str; 3] = ["s/0", "s/1", "s/2"];
const LINE: &str = "quorlock:line:quorlock:slots:s";

/// The message to the next waiter.
const NEXT: &str = "nquorlock:slots:s";

/// A client asks for any slot, and stands in the line for it. Which one it has been given, counted from 1.
fn asks(node: &Node, client: &str, ticket: &str) -> Option<i64> {
    asks_of(node, &SLOTS, client, ticket)
}

/// The same of the first few of them.
fn asks_of(node: &Node, slots: &[&str], client: &str, ticket: &str) -> Option<i64> {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let (hint, owner) = (format!("{:016}", node.now_us()), owner(client));
    let (keys, size) = ((4 + slots.len()).to_string(), slots.len().to_string());
    let mut args = vec!["EVAL", ACQUIRE_ANY, &keys, MARKER, "quorlock:counters", "quorlock:older"];
    args.extend(slots.iter().copied().chain([LINE]));
    args.extend([&*head, &owner, "10000", &hint, "0", "-1", &size, "", client, ticket, ""]);
    let Value::Array(answer) = node.server.run(&args) else { panic!("it says its name") };
    match &answer[..] {
        [Value::Int(1), _, _, _, _, Value::Int(slot)] => Some(*slot),
        [Value::Int(0), ..] => None,
        other => panic!("{other:?}"),
    }
}

/// All slots are taken, and two wait.
fn two_wait() -> (Node, [Ear; 2]) {
    let node = Node::admitted();
    SLOTS.iter().for_each(|slot| node.server.set(slot, C, Some(60_000)));
    let ears = [A, B].map(|client| Ear::of(&node, client));
    assert_eq!((asks(&node, A, "1"), asks(&node, B, "2")), (None, None));
    (node, ears)
}

#[test]
fn who_is_let_in_wakes_the_next_where_another_slot_is_free() {
    let (node, [first, next]) = two_wait();
    // They end without a word, as keys do that expire.
    assert!(node.server.del(SLOTS[1]) && node.server.del(SLOTS[2]));
    assert_eq!(asks(&node, A, "1"), Some(2));
    next.hears(NEXT);
    assert_eq!(asks(&node, B, "2"), Some(3));
    first.hears_nothing();
    next.hears_nothing();
}

#[test]
fn who_is_let_in_to_the_last_slot_wakes_nobody() {
    let (node, [first, next]) = two_wait();
    assert!(node.server.del(SLOTS[1]));
    assert_eq!(asks(&node, A, "1"), Some(2));
    first.hears_nothing();
    next.hears_nothing();
    assert_eq!(asks(&node, B, "2"), None);
}

#[test]
fn nobody_overtakes_who_waits_for_a_slot() {
    let (node, _ears) = two_wait();
    assert!(node.server.del(SLOTS[0]));
    assert_eq!(asks(&node, B, "2"), None);
    assert_eq!(asks(&node, A, "1"), Some(1));
}

#[test]
fn a_slot_that_is_released_is_told_to_the_first_of_either_line() {
    let own_line = "quorlock:line:s/1";
    let owner = owner(C);
    for (script, keys) in [
        (RELEASE, &[SLOTS[1], own_line][..]),
        // As a lease on its name is released that reads on, where the node has not followed.
        (RELEASE_READ, &[SLOTS[1], "quorlock:readers:s/1", own_line]),
    ] {
        let node = Node::admitted();
        SLOTS.iter().for_each(|slot| node.server.set(slot, &owner, Some(60_000)));
        let [any, by_name] = [A, B].map(|client| Ear::of(&node, client));
        assert_eq!(asks(&node, A, "1"), None);
        node.server.run(&["ZADD", own_line, "1", B]);
        let count = keys.len().to_string();
        let released = node.server.run(&[&["EVAL", script, &count], keys, &[&owner]].concat());
        assert_eq!(released, Value::Int(1));
        any.hears(NEXT);
        by_name.hears("ns/1");
        assert!(node.server.get(SLOTS[1]).is_none());
    }
}

/// It came later, with an earlier ticket.
#[test]
fn who_has_the_earliest_ticket_of_all_is_let_in_although_another_came_before() {
    let (node, _ears) = two_wait();
    assert!(node.server.del(SLOTS[1]));
    assert_eq!(asks(&node, C, "3"), None);
    assert_eq!(asks(&node, C, "0"), Some(2));
}

/// A client that knows of fewer slots waits until one of those is free. The clock stands, so that no place ends.
#[test]
fn who_waits_does_not_overtake_one_all_of_whose_slots_are_taken_and_who_asks_once_does() {
    let (node, _clock) = with_standing_clock();
    let [first, other, free] = SLOTS;
    [first, other].iter().for_each(|slot| node.server.set(slot, C, Some(60_000)));
    assert_eq!(asks_of(&node, &[first, other], A, "1"), None);
    assert_eq!(asks(&node, C, ""), Some(3));
    assert!(node.server.del(free));
    assert_eq!(asks(&node, B, "2"), None, "it waits, and so does not overtake");
    assert_eq!(asks(&node, C, ""), None, "this one could go on");
}

/// A waiter for a name like that of a slot is in the way of waiters for any slot while one of theirs is free.
#[test]
fn whoever_wants_a_name_like_that_of_a_slot_passes_those_all_of_whose_slots_are_taken() {
    let (node, _clock) = with_standing_clock();
    SLOTS.iter().for_each(|slot| node.server.set(slot, C, Some(60_000)));
    assert_eq!((asks(&node, A, "1"), asks(&node, B, "2")), (None, None));
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let (name, line, owner) = ("s/7", "quorlock:line:s/7", owner(C));
    let acquire = || {
        let keys = ["5", MARKER, "quorlock:counters", "quorlock:older", name, line];
        let args = [&*head, &owner, "10000", "0000000000000001", "0", "-1"];
        match node.server.run(&[&["EVAL", ACQUIRE], &keys[..], &args].concat()) {
            Value::Array(answer) => answer[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(acquire(), Value::Int(1));
    assert!(node.server.del(name) && node.server.del(SLOTS[1]));
    assert_eq!(acquire(), Value::Int(0), "the first can go on, and is on its way");
}

/// As after the release of a lease that has not read on.
#[test]
fn who_is_not_heard_of_is_forgotten_where_one_is_released_that_reads_on() {
    let (node, owner) = (Node::admitted(), owner(C));
    node.server.set(RESOURCE, &owner, Some(60_000));
    let ear = Ear::of(&node, A);
    node.server.run(&["ZADD", LINE_OF_R, "1", B, "2", A]);
    let keys = ["EVAL", RELEASE_READ, "3", RESOURCE, "quorlock:readers:r", LINE_OF_R, &owner];
    assert_eq!(node.server.run(&keys), Value::Int(1));
    ear.hears("nr");
    assert_eq!(standing(&node), [A]);
}

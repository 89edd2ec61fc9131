//! Goal: a grant is prolonged only by the node that gave it, in the state that the client has seen.
//!
//! Method: the scripts of the crate, run by hand on a real server whose marker is set by hand.

use quorlock_harness::redis::{self, Value};

use super::{
    MARKER,
    scripts::{Ask, Node, RESOURCE},
    texts::{EXTEND, RESTORE},
};

/// The values of the answer without the time in the second place.
fn run(node: &Node, script: &str, args: &[&str]) -> Vec<Value> {
    let keys = ["EVAL", script, "4", MARKER, "quorlock:counters", "quorlock:older", RESOURCE];
    let Value::Array(mut answer) = node.server.run(&[&keys[..], args].concat()) else {
        panic!("no array")
    };
    assert!(matches!(answer.remove(1), Value::Int(_)), "the time");
    answer
}

fn remaining_ms(node: &Node) -> i64 {
    redis::from_redis_value(node.server.run(&["PTTL", RESOURCE])).unwrap()
}

fn identity(node: &Node) -> String {
    redis::from_redis_value(node.server.run(&["HGET", MARKER, "identity"])).unwrap()
}

/// Another process, another database, or other data since: whatever key stands there, this client was not granted it.
#[test]
fn a_node_of_another_identity_neither_extends_nor_restores() {
    let node = Node::admitted();
    node.granted(Ask::of("a"));
    let own = identity(&node);
    let others = [own.replace("this", "that"), own.replace("/0/", "/1/"), String::new()];
    for other in others.iter().chain([&format!("{own}0")]) {
        assert_eq!(run(&node, EXTEND, &[other, "a", "50000"]), [Value::Int(-1)], "{other}");
        assert!(remaining_ms(&node) <= 10_000, "{other}: it was extended all the same");
    }
    let extended = run(&node, EXTEND, &[&own, "a", "50000"]);
    assert_eq!(extended, [Value::Int(1), Value::Int(1)]);
    assert!(remaining_ms(&node) > 10_000);
    node.expire();
    for other in others.iter().chain([&format!("{own}0")]) {
        let latest = u64::MAX.to_string();
        let restored = run(&node, RESTORE, &[other, "a", "10000", &latest]);
        assert_eq!(restored, [Value::Int(-1)], "{other}");
        assert_eq!(node.server.get(RESOURCE), None, "{other}: it was restored all the same");
    }
}

#[test]
fn a_node_that_is_joining_neither_extends_nor_restores() {
    let node = Node::admitted();
    node.granted(Ask::of("a"));
    let own = identity(&node);
    node.set_state("joining");
    assert_eq!(run(&node, EXTEND, &[&own, "a", "50000"]), [Value::Int(-1)]);
    assert!(remaining_ms(&node) <= 10_000);
    node.expire();
    assert_eq!(run(&node, RESTORE, &[&own, "a", "10000", &u64::MAX.to_string()]), [Value::Int(-1)]);
    assert_eq!(node.server.get(RESOURCE), None);
}

/// A client that hears that its key is gone sets it again, and does not if another holder has it.
#[test]
fn an_extension_says_of_a_key_whether_it_is_gone_or_somebody_elses_and_makes_none_anew() {
    let node = Node::admitted();
    let own = identity(&node);
    for (set, said) in [
        (&[][..], 0),
        (&["SET", RESOURCE, "a", "PX", "10000"], 1),
        (&["SET", RESOURCE, "b", "PX", "10000"], 2),
        // Others may have set it to nothing, or to anything else.
        (&["SET", RESOURCE, "", "PX", "10000"], 2),
        (&["SADD", RESOURCE, "a"], 2),
    ] {
        node.server.run(&["DEL", RESOURCE]);
        if !set.is_empty() {
            node.server.run(set);
        }
        let before = remaining_ms(&node);
        let extended = run(&node, EXTEND, &[&own, "a", "50000"]);
        assert_eq!(extended, [Value::Int(1), Value::Int(said)], "{set:?}");
        if said == 1 {
            assert!(remaining_ms(&node) > 10_000);
        } else {
            assert!(remaining_ms(&node) <= before, "{set:?}");
        }
    }
}

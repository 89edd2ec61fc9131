//! A release of several resources on a server, by its script: it deletes the keys of its owner, whatever the others
//! are, says which were not, and wakes the waiters of the keys that it has freed.

use quorlock_harness::redis::{Value, from_redis_value};

use super::{A, B, C, Ear, owner};
use crate::{scripts::Node, texts::RELEASE_SET};

const NAMES: [&str; 3] = ["r", "s", "t"];
const HELD_MS: u64 = 60_000;

/// What stands at each of the names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Own,
    /// Another owner's.
    Other,
    /// Nothing, but set to that.
    Empty,
    Gone,
}

use At::{Empty, Gone, Other, Own};

/// A node on which these stand, and A and B wait, one for the first and one for the last of them.
fn node(stands: [At; 3]) -> (Node, [Ear; 2]) {
    let node = Node::admitted();
    for (name, at) in NAMES.into_iter().zip(stands) {
        match at {
            Own => node.server.set(name, owner(C), Some(HELD_MS)),
            Other => node.server.set(name, owner(A), Some(HELD_MS)),
            Empty => node.server.set(name, "", Some(HELD_MS)),
            Gone => {}
        }
    }
    for (name, client) in [("r", A), ("t", B)] {
        node.server.run(&["ZADD", &format!("quorlock:line:{name}"), "1", client]);
    }
    let ears = [A, B].map(|client| Ear::of(&node, client));
    (node, ears)
}

/// C gives all of them back, or keeps them for so many ms.
fn release(node: &Node, keep: Option<&str>) -> Value {
    let lines = NAMES.map(|name| format!("quorlock:line:{name}"));
    let mut args = vec!["EVAL", RELEASE_SET, "6"];
    args.extend(NAMES.into_iter().chain(lines.iter().map(String::as_str)));
    let owner = owner(C);
    args.extend([&*owner, "3"]);
    args.extend(keep);
    node.server.run(&args)
}

fn lives_for(node: &Node, name: &str) -> i64 {
    from_redis_value(node.server.run(&["PTTL", name])).unwrap()
}

#[test]
fn what_is_the_owners_is_deleted_whatever_the_others_are_and_who_waits_for_it_is_woken() {
    for (stands, answer) in [
        ([Own, Own, Own], 1),
        ([Gone, Own, Own], 0),
        ([Own, Own, Gone], 0),
        ([Other, Own, Own], 2),
        ([Own, Own, Other], 2),
        ([Own, Empty, Own], 2),
        // A key of another owner counts for more than one that is gone, whichever comes first.
        ([Gone, Other, Own], 2),
        ([Own, Other, Gone], 2),
        ([Other, Other, Gone], 2),
    ] {
        let (node, ears) = node(stands);
        assert_eq!(release(&node, None), Value::Int(answer), "{stands:?}");
        for (name, at) in NAMES.into_iter().zip(stands) {
            let is_left = matches!(at, Other | Empty);
            assert_eq!(node.server.get(name).is_some(), is_left, "{stands:?}: {name}");
        }
        for (ear, (at, name)) in ears.iter().zip([(0, "r"), (2, "t")]) {
            match stands[at] {
                Own => ear.hears(&format!("n{name}")),
                _ => ear.hears_nothing(),
            }
        }
    }
}

#[test]
fn what_is_kept_ends_in_time_and_who_waits_for_it_looks_at_its_new_end() {
    for stands in [[Own, Own, Own], [Own, Other, Own], [Own, Gone, Own]] {
        let (node, ears) = node(stands);
        release(&node, Some("20000"));
        for (name, at) in NAMES.into_iter().zip(stands) {
            let lives = match at {
                Own => 10_000..=20_000,
                Gone => -2..=-2,
                Other | Empty => 50_000..=60_000,
            };
            assert!(lives.contains(&lives_for(&node, name)), "{stands:?}: {name}");
        }
        ears[0].hears("nr");
        ears[1].hears("nt");
    }
}

/// A client without lines names none.
#[test]
fn what_is_kept_ends_in_time_where_there_are_no_lines() {
    let (node, owner) = (Node::admitted(), owner(C));
    ["r", "t"].iter().for_each(|name| node.server.set(name, &owner, Some(HELD_MS)));
    for (name, all) in [("t", 0), ("r", 1)] {
        let keys = ["EVAL", RELEASE_SET, "2", if all == 1 { "r" } else { "s" }, "t"];
        let said = node.server.run(&[&keys[..], &[&*owner, "2", "20000"]].concat());
        assert_eq!(said, Value::Int(all), "of {keys:?}");
        assert!((10_000..=20_000).contains(&lives_for(&node, name)), "{name}");
    }
}

/// The client does not know which of the slots it was given. They have one line, whichever of them is free.
#[test]
fn whichever_slot_is_given_back_the_first_in_the_line_of_them_all_is_woken() {
    let slots = ["s/0", "s/1", "s/2"];
    for own in slots {
        let node = Node::admitted();
        for slot in slots {
            node.server.set(slot, owner(if slot == own { C } else { B }), Some(HELD_MS));
        }
        let line = "quorlock:line:quorlock:slots:s";
        node.server.run(&["ZADD", line, "1", A]);
        let (ear, owner) = (Ear::of(&node, A), owner(C));
        let keys = [&["EVAL", RELEASE_SET, "4"], &slots[..], &[line, &owner, "3"]].concat();
        assert_eq!(node.server.run(&keys), Value::Int(2));
        assert!(node.server.get(own).is_none());
        ear.hears("nquorlock:slots:s");
    }
}

#[test]
fn a_release_where_nobody_waits_is_one_look_at_all_the_lines() {
    let node = Node::admitted();
    NAMES.iter().for_each(|name| node.server.set(name, owner(C), Some(HELD_MS)));
    let calls = || ["exists", "zrange"].map(|command| node.server.command_calls(command));
    let [exists, zrange] = calls();
    assert_eq!(release(&node, None), Value::Int(1));
    assert_eq!(calls(), [exists + 1, zrange]);
}

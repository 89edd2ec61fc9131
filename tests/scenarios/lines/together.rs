//! The script for several resources: an acquire of two, or of either alone, and the place that a set has in both lines.

use quorlock_harness::redis::{Value, from_redis_value};

use super::{A, B, C, Ear, Says, owner};
use crate::{
    MARKER,
    scripts::{ETAG, Node},
    texts::{ACQUIRE, ACQUIRE_SET, RELEASE, RELEASE_SET},
};

pub(super) const NAMES: [&str; 2] = ["r", "s"];
pub(super) const LINES: [&str; 2] = ["quorlock:line:r", "quorlock:line:s"];

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// Whether others wait, where that is told.
    Granted(Option<bool>),
    /// How many wait before the client in the longest of the lines.
    Held(i64),
    /// Who is the first, and for which of them.
    Behind(String, i64),
}

pub(super) fn acquire(node: &Node, of: &[usize], name: &str, says: Says<'_>) -> Answer {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let (hint, owner) = (format!("{:016}", node.now_us()), owner(name));
    let count = if says.several { "-64" } else { "-1" };
    let (size, keys) = (of.len().to_string(), (3 + 2 * of.len()).to_string());
    let mut args = vec!["EVAL", if of.len() > 1 { ACQUIRE_SET } else { ACQUIRE }, &keys];
    args.extend([MARKER, "quorlock:counters", "quorlock:older"]);
    args.extend(of.iter().map(|at| NAMES[*at]).chain(of.iter().map(|at| LINES[*at])));
    args.extend([&*head, &owner, "10000", &hint, "0", count]);
    if of.len() > 1 {
        args.extend([&*size, ""]);
    } else if !says.client.is_empty() {
        args.push("");
    }
    if !says.client.is_empty() {
        args.extend([says.client, says.ticket, says.skip]);
    }
    let Value::Array(answer) = node.server.run(&args) else { panic!("it was asked to count") };
    let text = |value: &Value| from_redis_value::<String>(value.clone()).unwrap();
    match &answer[..] {
        [Value::Int(1), _, _, _, Value::Int(others @ -1..=1), Value::Int(1)] => {
            Answer::Granted((*others >= 0).then_some(*others == 1))
        }
        [Value::Int(0), _, Value::Int(-2), Value::Nil, Value::Int(which), first, _, _] => {
            assert_eq!(*which == 0, of.len() == 1, "of several it says which");
            Answer::Behind(text(first), 1.max(*which))
        }
        [Value::Int(0), _, _, _, _] => Answer::Held(-1),
        [Value::Int(0), _, _, _, _, Value::Nil, Value::Int(before), Value::Int(0)] => {
            Answer::Held(*before)
        }
        other => panic!("{other:?}"),
    }
}

fn release(node: &Node, of: &[usize], name: &str) -> Value {
    let (size, keys) = (of.len().to_string(), (2 * of.len()).to_string());
    let owner = owner(name);
    let mut args = vec!["EVAL", if of.len() > 1 { RELEASE_SET } else { RELEASE }, &keys];
    args.extend(of.iter().map(|at| NAMES[*at]).chain(of.iter().map(|at| LINES[*at])));
    args.push(&owner);
    if of.len() > 1 {
        args.push(&size);
    }
    node.server.run(&args)
}

/// A request that asks once passes a place in line while another key blocks that place, and no longer.
#[test]
fn a_set_keeps_out_who_asks_once_from_the_moment_on_at_which_it_can_go_on() {
    let node = Node::admitted();
    let _ears = [A, B, C].map(|name| Ear::of(&node, name));
    let both = Says::stands(B, "200");
    let asks = |says| acquire(&node, &[0], C, says);
    let behind = || Answer::Behind(B.to_owned(), 1);
    assert_eq!(acquire(&node, &[1], A, Says::default()), Answer::Granted(None));
    assert_eq!(acquire(&node, &[0, 1], B, both), Answer::Held(0));
    for says in [Says::default(), Says::named(C)] {
        assert_eq!(asks(says), Answer::Granted(Some(true)));
        assert_eq!(release(&node, &[0], C), Value::Int(1));
    }
    assert_eq!(asks(Says::stands(C, "300")), behind(), "it waits, and so does not overtake");
    assert_eq!(release(&node, &[1], A), Value::Int(1));
    for says in [Says::default(), Says::named(C)] {
        assert_eq!(asks(says), behind(), "nothing is in its way any more");
    }
    assert_eq!(
        acquire(&node, &[1], A, Says { skip: B, ..Says::stands(A, "400") }),
        Answer::Granted(Some(false))
    );
    node.server.run(&["ZADD", LINES[0], "100", B]);
    assert_eq!(asks(Says::default()), behind(), "that is another place of the same client");
    // What others have put there says nothing.
    for put in ["200 0 ", "200 999 s", "x", "200 0 s s"] {
        node.server.run(&["ZADD", LINES[0], "200", B]);
        node.server.set("quorlock:stuck:bbbbbbbbbbbbbbbbr", put, None);
        assert_eq!(asks(Says::default()), behind(), "{put}");
    }
    node.server.del("quorlock:stuck:bbbbbbbbbbbbbbbbr");
    node.server.run(&["LPUSH", "quorlock:stuck:bbbbbbbbbbbbbbbbr", "x"]);
    assert_eq!(asks(Says::default()), behind());
}

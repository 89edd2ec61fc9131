//! What the script of several resources answers where it denies, and what it leaves in their lines: one case at a time, with
//! each number as it is. Beside it stands `together`, which compares long sequences with the lines in memory.

use quorlock_harness::redis::{Value, from_redis_value};

use super::{
    A, B, C, Ear, Says, owner,
    together::{LINES, NAMES, acquire},
};
use crate::{
    MARKER,
    scripts::{ETAG, Node},
    standing::with_standing_clock,
    texts::ACQUIRE_SET,
};

const NOTE: &str = "1795170000123456web-1";
const HOUR_MS: u64 = 3_600_000;

/// A client asks for both, for ten seconds; it stands in their lines with this ticket.
fn ask(node: &Node, name: &str, ticket: &str) -> Vec<Value> {
    ask_for(node, name, ticket, node.now_us())
}

fn ask_for(node: &Node, name: &str, ticket: &str, hint: u64) -> Vec<Value> {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let (hint, owner) = (format!("{hint:016}"), owner(name));
    let keys = [MARKER, "quorlock:counters", "quorlock:older"];
    let args = [&*head, &owner, "10000", &hint, "0", "-1", "2", "", name, ticket, ""];
    match node.server.run(&[&["EVAL", ACQUIRE_SET, "7"], &keys[..], &NAMES, &LINES, &args].concat())
    {
        Value::Array(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// What a denial tells behind the time.
#[derive(Debug, PartialEq)]
struct Denied {
    left: i64,
    holder: Value,
    which: i64,
    /// Whether all have a line. Otherwise nothing is told of waiters.
    lined: bool,
    /// Who is the first for a free key.
    first: Value,
    before: i64,
    foreign: i64,
}

#[track_caller]
fn denied(answer: Vec<Value>) -> Denied {
    let [Value::Int(0), _, Value::Int(left), holder, Value::Int(which), line @ ..] = &answer[..]
    else {
        panic!("{answer:?}")
    };
    let (first, before, foreign) = match line {
        [] => (Value::Nil, -1, 0),
        [first] => (first.clone(), -1, 0),
        [first, Value::Int(before), Value::Int(foreign)] => (first.clone(), *before, *foreign),
        other => panic!("{other:?}"),
    };
    let (left, holder, which, lined) = (*left, holder.clone(), *which, line.len() == 3);
    Denied { left, holder, which, lined, first, before, foreign }
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

/// The ticket of a client in a line, if it stands there.
fn ticket(node: &Node, line: &str, name: &str) -> Option<String> {
    from_redis_value(node.server.run(&["ZSCORE", line, name])).unwrap()
}

/// A line that is none of ours: it has no end, and more who stand there than a line of ours has.
fn fill(node: &Node, line: &str) {
    let fill = "for i = 1, 10001 do redis.call('ZADD', KEYS[1], i, i) end";
    node.server.run(&["EVAL", fill, "1", line]);
}

#[test]
fn who_wakes_the_first_hears_how_many_wait_before_it_without_those_who_were_not_heard() {
    let (node, _clock) = with_standing_clock();
    let ear = Ear::of(&node, A);
    node.server.set("r", owner(C), Some(60_000));
    for (name, number, before) in [(B, "1", 0), (A, "2", 1), (C, "3", 2)] {
        assert_eq!(denied(ask(&node, name, number)).before, before);
    }
    assert!(node.server.del("r"));
    let told = denied(ask(&node, C, "3"));
    assert_eq!((told.first, told.before, told.left), (text(A), 1, -2));
    ear.hears("nr");
    assert_eq!(LINES.map(|line| ticket(&node, line, B)), [None, None]);
}

#[test]
fn the_note_of_a_holder_is_told_also_where_the_older_generation_has_it() {
    for hash in ["quorlock:counters", "quorlock:older"] {
        let node = Node::admitted();
        node.server.set("s", owner(C), Some(60_000));
        let entry = format!("{:016}{}{NOTE}", 7, owner(C));
        node.server.run(&["HSET", hash, "s", &entry]);
        let told = denied(ask(&node, A, ""));
        assert_eq!(told.holder, Value::Array(vec![text(&owner(C)), text(NOTE)]), "{hash}");
        assert_eq!((told.which, told.foreign, told.before), (2, 0, -1), "{hash}");
    }
}

/// In ms; the longest ttl is a minute.
#[test]
fn what_outlives_every_lease_is_cut_to_the_longest_that_there_is() {
    let left = 60_000;
    for value in [owner(C), "shared by readers, see quorlock.".into()] {
        let node = Node::admitted();
        let entry = format!("{:016}{}", 7, owner(C));
        node.server.run(&["HSET", "quorlock:counters", "s", &entry]);
        node.server.set("s", &value, Some(HOUR_MS));
        assert_eq!(denied(ask(&node, A, "")).left, left, "{value}");
        assert!(node.server.pttl("s") <= left, "{value}");
    }
}

#[test]
fn where_one_of_them_has_no_line_the_answer_says_so() {
    for (put, lined, before) in [
        (&["DEL", LINES[1]][..], true, 0),
        (&["SET", LINES[1], "text"], false, -1),
        (&["LPUSH", LINES[1], "x"], false, -1),
    ] {
        let node = Node::admitted();
        node.server.run(put);
        node.server.set("r", owner(C), Some(60_000));
        let told = denied(ask(&node, A, "1"));
        assert_eq!((told.lined, told.before, told.which), (lined, before, 1), "{put:?}");
        assert_eq!(ticket(&node, LINES[0], A).as_deref(), Some("1"), "{put:?}");
    }
}

#[test]
fn who_is_denied_leaves_no_place_in_what_is_no_line_of_ours() {
    let node = Node::admitted();
    fill(&node, LINES[0]);
    node.server.set("r", owner(C), Some(60_000));
    assert!(!denied(ask(&node, A, "1")).lined);
    assert_eq!(LINES.map(|line| ticket(&node, line, A)), [None, Some("1".to_owned())]);
}

/// Of one alone, too.
#[test]
fn who_is_granted_several_tokens_leaves_no_place_in_what_is_no_line_of_ours() {
    for of in [&[0][..], &[0, 1]] {
        let node = Node::admitted();
        fill(&node, LINES[0]);
        let says = Says { several: true, ..Says::named(A) };
        acquire(&node, of, A, says);
        let holder = format!("!{A}");
        let own = node.server.get("r").is_some_and(|value| value == owner(A).as_bytes());
        assert!(own, "it was granted: {of:?}");
        assert_eq!(ticket(&node, LINES[0], &holder), None, "{of:?}");
        // In one of ours it does.
        let kept = (of.len() > 1).then(|| "-1".to_owned());
        assert_eq!(ticket(&node, LINES[1], &holder), kept, "{of:?}");
    }
}

/// Otherwise it would be told that a free resource is held.
#[test]
fn who_is_let_in_first_is_told_also_where_another_line_is_none_of_ours() {
    let node = Node::admitted();
    let _ear = Ear::of(&node, B);
    node.server.run(&["ZADD", LINES[0], "1", B]);
    node.server.run(&["SET", LINES[1], "none of ours"]);
    for (name, number) in [(A, "2"), (A, "")] {
        let told = denied(ask(&node, name, number));
        assert_eq!((told.left, told.first, told.lined), (-2, text(B), false), "{number:?}");
    }
}

/// A name is looked for where not all places were seen, and where it was among them.
#[test]
fn who_has_not_stood_in_a_line_of_two_is_not_taken_out_of_it() {
    for of in [&[0][..], &[0, 1]] {
        let node = Node::admitted();
        let calls = || node.server.command_calls("zrem");
        for (places, more) in [(2, 0), (15, 0), (16, 1)] {
            for place in 0..places {
                let place = place.to_string();
                node.server.run(&["ZADD", LINES[0], &place, &format!("no client {place}")]);
            }
            let before = calls();
            acquire(&node, of, A, Says::named(A));
            assert!(node.server.del("r"), "it was granted: {of:?}");
            node.server.del("s");
            assert_eq!(calls() - before, more, "{of:?}, {places} places");
        }
    }
}

/// As for one resource: so it is seldom written.
#[test]
fn the_mark_of_the_counters_runs_half_a_minute_ahead_of_the_hint() {
    let node = Node::admitted();
    let hint = node.now_us() + 5_000_000;
    let answer = ask_for(&node, A, "", hint);
    assert_eq!([&answer[0], &answer[2]], [&Value::Int(1), &Value::Int(hint.cast_signed())]);
    assert_eq!(node.marked("high_water"), hint + 30_000_000);
}

/// The first waiter of all asks the node to tell when a foreign key is gone. For our own keys it is told anyway.
#[test]
fn the_first_who_waits_hears_whether_the_holder_is_one_of_ours() {
    let entry = |of: &str, note: &str| format!("{:016}{}{note}", 7, owner(of));
    for (entry, foreign) in [(entry(C, ""), 0), (entry(C, NOTE), 0), (entry(B, ""), 1)] {
        for hash in ["quorlock:counters", "quorlock:older"] {
            let node = Node::admitted();
            node.server.set("s", owner(C), Some(60_000));
            node.server.run(&["HSET", hash, "s", &entry]);
            for (name, number, before, foreign) in [(A, "1", 0, foreign), (B, "2", 1, 0)] {
                let told = denied(ask(&node, name, number));
                let told = (told.before, told.foreign, told.which, told.lined);
                assert_eq!(told, (before, foreign, 2, true), "{name}: {entry}, {hash}");
            }
            assert_eq!(denied(ask(&node, C, "")).foreign, 0, "it does not wait");
        }
    }
}

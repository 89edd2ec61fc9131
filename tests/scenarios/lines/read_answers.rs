//! What the script of readers answers where it denies, and whom it lets in from the line: one case at a time, with each number
//! as it is. Beside it stands `readers`, which compares long sequences with the line in memory.

use quorlock_harness::redis::Value;

use super::{A, B, C, Ear, LINE, READERS, Says, owner};
use crate::{
    MARKER,
    scripts::{ETAG, Node, RESOURCE},
    standing::with_standing_clock,
    texts::ACQUIRE_READ,
};

const NOTE: &str = "1795170000123456web-1";

/// Where the counters may become the hint.
const BY_HINT: &str = "1";
const AS_COUNTED: &str = "-1";

/// A client asks to read, for ten seconds, in its line or without any.
fn ask(node: &Node, count: &str, lines: &[&str], says: Says<'_>) -> Vec<Value> {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let (hint, owner) = (format!("{:016}", node.marked("high_water")), owner(C));
    let (keys, size) = ([RESOURCE, READERS], (5 + lines.len()).to_string());
    let mut args = vec!["EVAL", ACQUIRE_READ, &size, MARKER, "quorlock:counters", "quorlock:older"];
    args.extend(keys.iter().chain(lines));
    args.extend([&*head, &owner, "10000", &hint, "0", count]);
    if !says.client.is_empty() {
        args.extend(["", says.client, says.ticket, says.skip]);
    }
    match node.server.run(&args) {
        Value::Array(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// A node that has counted, on which a writer holds the resource, with this entry in this generation of its counters.
fn written(hash: &str, entry: &str) -> Node {
    let node = Node::admitted();
    node.mark(&[("high_water", "1000"), ("floor", "40"), ("next_floor", "50")]);
    node.server.set(RESOURCE, owner(B), Some(60_000));
    node.server.run(&["HSET", hash, RESOURCE, entry]);
    node
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

/// The first waiter asks the node to tell when a foreign key is gone. For our own keys it is told anyway.
#[test]
fn the_first_who_waits_to_read_hears_whether_the_writer_is_one_of_ours() {
    let (entry, of_others) = (format!("{:016}{}", 45, owner(B)), format!("{:016}{}", 45, owner(A)));
    let noted = format!("{entry}{NOTE}");
    let with_note = Value::Array(vec![text(&owner(B)), text(NOTE)]);
    for (entry, holder, foreign) in
        [(&entry, text(&owner(B)), 0), (&noted, with_note, 0), (&of_others, text(&owner(B)), 1)]
    {
        for (hash, count) in [
            ("quorlock:counters", BY_HINT),
            ("quorlock:counters", AS_COUNTED),
            ("quorlock:older", BY_HINT),
            ("quorlock:older", AS_COUNTED),
        ] {
            let node = written(hash, entry);
            let answer = ask(&node, count, &[LINE], Says::stands(A, "1"));
            let [Value::Int(0), _, Value::Int(1..=60_000), rest @ ..] = &answer[..] else {
                panic!("{answer:?}")
            };
            let told =
                [holder.clone(), Value::Int(0), Value::Nil, Value::Int(0), Value::Int(foreign)];
            assert_eq!(rest, told, "{hash}, {count}: {entry}");
        }
    }
}

/// So the client knows that nobody will tell it, and polls.
#[test]
fn who_has_no_line_hears_who_has_the_key_and_nothing_of_others() {
    let entry = format!("{:016}{}{NOTE}", 45, owner(B));
    let with_note = Value::Array(vec![text(&owner(B)), text(NOTE)]);
    for (lines, says) in
        [(&[][..], Says::default()), (&[LINE], Says::named(A)), (&[LINE], Says::stands(A, "1"))]
    {
        let node = written("quorlock:counters", &entry);
        node.server.set(LINE, "of another type", None);
        let answer = ask(&node, AS_COUNTED, lines, says);
        let [Value::Int(0), _, Value::Int(1..=60_000), holder, Value::Int(0)] = &answer[..] else {
            panic!("{lines:?}, {says:?}: {answer:?}")
        };
        assert_eq!(*holder, with_note);
    }
}

#[test]
fn nobody_reads_where_the_counters_are_at_their_end() {
    for (floor, code) in [("9007199254740991", 1), ("9007199254740992", -4)] {
        let node = Node::admitted();
        node.mark(&[("floor", floor), ("high_water", "9007199254740992")]);
        assert_eq!(ask(&node, AS_COUNTED, &[], Says::default())[0], Value::Int(code), "{floor}");
        assert_eq!(node.server.get(RESOURCE).is_some(), code == 1, "{floor}");
    }
}

/// Its place is the one that it had when it came, for as long as it is let in from there.
#[test]
fn a_reader_that_comes_again_with_a_later_ticket_is_let_in_from_the_place_that_it_has() {
    let node = written("quorlock:counters", &format!("{:016}{}", 45, owner(B)));
    let _hears = Ear::of(&node, B);
    assert_eq!(ask(&node, AS_COUNTED, &[LINE], Says::stands(A, "100"))[0], Value::Int(0));
    node.server.run(&["ZADD", LINE, "200", B]);
    assert!(node.server.del(RESOURCE));
    assert_eq!(ask(&node, AS_COUNTED, &[LINE], Says::stands(A, "300"))[0], Value::Int(1));
}

/// A writer's place is stuck while another key is in its way.
#[test]
fn who_asks_once_reads_before_a_writer_that_cannot_go_on_and_who_waits_does_not() {
    for (says, code) in [(Says::default(), 1), (Says::named(C), 1), (Says::stands(C, "300"), 0)] {
        let (node, _clock) = with_standing_clock();
        let _hears = Ear::of(&node, B);
        node.server.run(&["ZADD", LINE, "200", B]);
        node.server.run(&["PEXPIRE", LINE, "4000"]);
        node.server.set(format!("quorlock:stuck:{B}r"), "200 0 s", None);
        for (is_stuck, code) in [(false, 0), (true, code)] {
            if is_stuck {
                node.server.set("s", "held", None);
            }
            let answer = ask(&node, AS_COUNTED, &[LINE], says);
            assert_eq!(answer[0], Value::Int(code), "{says:?}, {is_stuck}");
        }
    }
}

/// And not the reader itself, which may hold the resource under another name of the same client.
#[test]
fn a_holder_of_several_tokens_hears_of_one_who_comes_to_read() {
    let node = written("quorlock:counters", &format!("{:016}{}", 45, owner(B)));
    let [holder, waits] = [B, A].map(|client| Ear::of(&node, client));
    node.server.run(&["ZADD", LINE, "-1", &format!("!{B}")]);
    assert_eq!(ask(&node, AS_COUNTED, &[LINE], Says::stands(A, "100"))[0], Value::Int(0));
    holder.hears("wr");
    assert_eq!(ask(&node, AS_COUNTED, &[LINE], Says::stands(B, "90"))[0], Value::Int(0));
    holder.hears_nothing();
    waits.hears_nothing();
}

//! Goal: the record of a leader stands beside its own key alone, gives way to nothing earlier, changes no counter, and lives
//! for as long as it is said again.
//!
//! Method: the real scripts by EVAL on a real server, whose generations of counters are rotated by hand.

use quorlock_harness::redis::Value;

use super::{
    scripts::{Ask, Node},
    texts::CONFIRM,
};

const A: &str = "aaaaaaaaaaaa4aaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbb4bbbbbbbbbbbbbbbbbbb";
const NOTE: &str = "1795170000123456web-1";

/// The record with this number of a term.
fn record(term: u64, number: u64) -> String {
    format!("p{term:016}{number:016}1795170000123456005web-1text {number}")
}

fn beside(owner: &str, record: &str) -> Option<String> {
    Some(format!("{owner}{record}"))
}

#[test]
fn it_takes_the_place_of_the_note_beside_its_own_key_and_moves_no_counter() {
    let node = Node::admitted();
    let term = node.granted(Ask { note: Some(NOTE), ..Ask::of(A) });
    assert_eq!(node.proclaimed(A, &record(term, 1)), 1);
    assert_eq!((node.counter(), node.entry()), (Some(term), beside(A, &record(term, 1))));
    // A confirm that comes late keeps it.
    assert!(node.confirmed(CONFIRM, A, term + 5));
    assert_eq!((node.counter(), node.entry()), (Some(term + 5), beside(A, &record(term, 1))));
    assert_eq!(node.holder().2.map(|entry| entry[16..].to_owned()), node.entry());
}

#[test]
fn it_is_not_kept_beside_the_key_of_somebody_else_or_none() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    assert_eq!(node.proclaimed(B, &record(term, 1)), 0);
    node.expire();
    assert_eq!(node.proclaimed(A, &record(term, 1)), 0);
    assert_eq!((node.counter(), node.entry().as_deref()), (Some(term), Some(A)));
    let next = node.granted(Ask::of(B));
    assert_eq!(node.proclaimed(A, &record(term, 1)), 0, "its time is over");
    assert_eq!((node.counter(), node.entry().as_deref()), (Some(next), Some(B)));
}

#[test]
fn what_comes_late_gives_way_to_what_was_said_since() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    for (number, taken, stands) in [(2, 1, 2), (1, 0, 2), (2, 1, 2), (10, 1, 10), (9, 0, 10)] {
        assert_eq!(node.proclaimed(A, &record(term, number)), taken, "{number}");
        assert_eq!(node.entry(), beside(A, &record(term, stands)), "{number}");
    }
    assert_eq!(node.proclaimed(A, &record(term - 1, 11)), 0, "of an earlier term");
}

#[test]
fn it_lives_for_as_long_as_it_is_said_again() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    let rotate = || {
        node.mark(&[("rotated_at", "1")]);
        assert!(node.join("0").ready);
    };
    for _ in 0..3 {
        assert_eq!(node.proclaimed(A, &record(term, 1)), 1);
        rotate();
        assert_eq!(node.entry(), beside(A, &record(term, 1)));
        assert_eq!(node.counter(), Some(term));
    }
    rotate();
    assert_eq!(node.entry(), None, "and no longer");
    // Where the entry is gone the counter is not its own any more.
    assert_eq!(node.proclaimed(A, &record(term, 1)), 1);
    assert_eq!(node.entry(), beside(A, &format!("r{}", record(term, 1))));
    let floor = node.counter().unwrap();
    node.expire();
    assert!(node.granted(Ask::of(B)) > floor.max(term));
}

#[test]
fn beside_a_key_that_was_restored_it_is_told_from_one_of_a_grant() {
    let node = Node::admitted();
    let counter = node.granted(Ask::of(B));
    node.expire();
    let latest = node.now_us() + 1_000_000;
    assert_eq!(node.restored(A, latest), 1);
    assert_eq!(node.proclaimed(A, &record(9, 1)), 1);
    assert_eq!(node.entry(), beside(A, &format!("r{}", record(9, 1))));
    assert_eq!(node.proclaimed(A, &record(9, 2)), 1);
    assert_eq!(node.proclaimed(A, &record(9, 1)), 0);
    assert_eq!(node.entry(), beside(A, &format!("r{}", record(9, 2))));
    assert_eq!(node.counter(), Some(counter));
    // As a restore leaves it, too.
    node.expire();
    assert_eq!(node.restored_with(A, &record(9, 3)), 1);
    assert_eq!(node.entry(), beside(A, &format!("r{}", record(9, 3))));
    assert_eq!(node.proclaimed(A, &record(9, 2)), 0);
}

#[test]
fn a_node_that_may_have_forgotten_keeps_none() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    node.set_state("joining");
    assert_eq!(node.proclaimed(A, &record(term, 1)), -1);
}

#[test]
fn what_others_have_written_is_no_record() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    for garbage in ["p", "p99", "pp", "r", "rp", "\u{0}p"] {
        node.server.run(&["HSET", "quorlock:counters", "r", &format!("{term:016}{A}{garbage}")]);
        assert_eq!(node.proclaimed(A, &record(term, 1)), 1, "{garbage}");
    }
    node.server.run(&["HSET", "quorlock:counters", "r", "no counter"]);
    assert_eq!(node.proclaimed(A, &record(term, 1)), 0);
}

/// A leader whose key was lost says its earlier record again, and no more.
#[test]
fn what_a_restore_says_again_lives_for_as_long_as_what_is_said_anew() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    assert_eq!(node.proclaimed(A, &record(term, 1)), 1);
    for _ in 0..3 {
        node.mark(&[("rotated_at", "1")]);
        assert!(node.join("0").ready);
        node.expire();
        assert_eq!(node.restored_with(A, &record(term, 1)), 1);
        assert_eq!((node.counter(), node.entry()), (Some(term), beside(A, &record(term, 1))));
    }
}

/// Behind 181 bytes a leader's text begins, whatever else it has said.
#[test]
fn whoever_is_denied_hears_the_record_without_the_text() {
    let node = Node::admitted();
    let term = node.granted(Ask::of(A));
    for length in [180, 181, 182, 300] {
        let note = format!("{:x<length$}", record(term, 1));
        let entry = format!("{term:016}{A}{note}");
        node.server.run(&["HSET", "quorlock:counters", "r", &entry]);
        let answer = node.acquire(Ask::of(B));
        let told = [A, &note[..length.min(181)]].map(|it| Value::BulkString(it.into()));
        assert_eq!(answer[3], Value::Array(told.to_vec()), "{length}");
    }
}

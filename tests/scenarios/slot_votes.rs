//! Under which state of a node, and until when, the script of semaphores grants a slot, and what it cuts.
//!
//! The script is run by hand, on a real server whose marker and whose keys are set by hand.

use quorlock_harness::redis::Value;

use super::{
    MARKER,
    scripts::{ETAG, Node},
    texts::ACQUIRE_ANY,
};

const SLOTS: [&str; 2] = ["s/0", "s/1"];
const LINE: &str = "quorlock:line:quorlock:slots:s";

const OWNER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// In ms; the longest ttl is a minute.
const HOUR: &str = "3600000";
const LONGEST: i64 = 60_000;

/// The answer to a client that knows this state and this high-water mark: the first number, and the third, which says
/// for how many ms no slot is free if none is.
fn ask(node: &Node, etag: &str, high_water: u64, latest: u64) -> (i64, i64) {
    let head = format!("{etag} {high_water:016} {:016}", node.marked("next_floor"));
    let (hint, latest) = (format!("{high_water:016}"), latest.to_string());
    let own = [MARKER, "quorlock:counters", "quorlock:older"];
    let args = [&*head, OWNER, "10000", &hint, &latest, "1", "2", ""];
    match node.server.run(&[&["EVAL", ACQUIRE_ANY, "5"], &own[..], &SLOTS, &args].concat()) {
        // Its clock alone: the first of them, as asked.
        Value::Int(_) => (1, 0),
        Value::Array(answer) => match &answer[..] {
            [Value::Int(code), _, Value::Int(third), ..] => (*code, *third),
            [Value::Int(code), ..] => (*code, 0),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A node that has counted.
fn counted() -> (Node, u64) {
    let node = Node::admitted();
    let high_water = node.now_us();
    node.mark(&[("high_water", &high_water.to_string())]);
    (node, high_water)
}

/// Otherwise a node that has forgotten, or has older data, would vote for one more permit than there are; and so would
/// a node that executes late a command that was given up.
#[test]
fn a_slot_is_granted_under_the_state_that_was_seen_and_in_time() {
    let (node, high_water) = counted();
    let is_free = || SLOTS.iter().all(|slot| node.server.get(slot).is_none());
    let code = |etag, high_water, latest| ask(&node, etag, high_water, latest).0;
    assert_eq!(code("43.0/this/0/00000000", high_water, 0), -1, "another epoch");
    assert_eq!(code("42.1/this/0/00000000", high_water, 0), -1, "another seal");
    assert_eq!(code(ETAG, high_water + 1, 0), -1, "the node has older data");
    assert_eq!(code(ETAG, high_water, node.now_us() - 1), -3, "too late");
    assert_eq!(code(ETAG, high_water - 1, node.now_us() - 1), -3, "too late");
    assert!(is_free());
    let soon = || node.now_us() + 60_000_000;
    // Of those, the first takes the fast path.
    for (seen, latest) in [(high_water, 0), (high_water, soon()), (high_water - 1, soon())] {
        assert_eq!(code(ETAG, seen, latest), 1);
        assert!(!is_free());
        SLOTS.iter().for_each(|slot| _ = node.server.del(slot));
    }
}

/// As an acquire does, where a clock that was set back prolongs what it was granted.
#[test]
fn a_slot_that_outlives_every_lease_and_is_none_of_others_is_cut() {
    let (node, high_water) = counted();
    let left = || {
        SLOTS.map(|slot| match node.server.run(&["PTTL", slot]) {
            Value::Int(left) => left,
            other => panic!("{other:?}"),
        })
    };
    for slot in SLOTS {
        let entry = format!("{high_water:016}{OTHER}");
        let _ = node.server.run(&["HSET", "quorlock:counters", slot, &entry]);
    }
    let set = |slot, value, ms| _ = node.server.run(&["SET", slot, value, "PX", ms]);
    set(SLOTS[0], OWNER, HOUR);
    set(SLOTS[1], OTHER, HOUR);
    assert_eq!(ask(&node, ETAG, high_water, 0), (0, LONGEST));
    let [of_others, granted] = left();
    assert!(of_others > LONGEST && granted <= LONGEST, "{of_others}, {granted}");
    set(SLOTS[1], OTHER, "50000");
    let (code, told) = ask(&node, ETAG, high_water, 0);
    assert!(code == 0 && 40_000 < told && told <= 50_000, "{told}");
    assert!(left()[1] > 40_000);
}

/// The answer to a client that has lines: the slot of either name may be waited for.
fn ask_with_line(node: &Node, high_water: u64, allowed: &str, says: &[&str]) -> Vec<Value> {
    let head = format!("{ETAG} {high_water:016} {:016}", node.marked("next_floor"));
    let hint = format!("{high_water:016}");
    let keys = [MARKER, "quorlock:counters", "quorlock:older", SLOTS[0], SLOTS[1], LINE];
    let args = [&*head, OWNER, "10000", &hint, "0", allowed, "2", ""];
    match node.server.run(&[&["EVAL", ACQUIRE_ANY, "6"], &keys[..], &args, says].concat()) {
        Value::Array(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// By the fast path and behind it. The fast path knows nothing of others who wait, and says so.
#[test]
fn a_grant_says_which_slot_it_is_and_what_it_knows_of_others_who_wait() {
    for (allowed, says, waiting) in [
        ("1", &[][..], -1),
        ("-1", &[], -1),
        ("1", &["aaaaaaaaaaaaaaaa", "", ""], 0),
        ("-1", &["aaaaaaaaaaaaaaaa", "", ""], 0),
    ] {
        let (node, high_water) = counted();
        node.server.set(SLOTS[0], OTHER, Some(10_000));
        let answer = ask_with_line(&node, high_water, allowed, says);
        let told = [1, high_water.cast_signed(), 2, waiting].map(Value::Int);
        assert_eq!([0, 2, 5, 4].map(|at: usize| answer[at].clone()), told, "{allowed} {says:?}");
        // The mark stays where no counter is above it.
        assert_eq!(node.marked("high_water"), high_water, "{allowed} {says:?}");
    }
}

#[test]
fn who_asks_once_is_told_the_slot_that_ends_first_also_where_somebody_waits_for_one_by_its_name() {
    for says in [&[][..], &["aaaaaaaaaaaaaaaa", "", ""]] {
        let (node, high_water) = counted();
        node.server.set(SLOTS[0], OTHER, Some(60_000));
        node.server.set(SLOTS[1], OWNER, Some(30_000));
        node.server.run(&["ZADD", "quorlock:line:s/1", "1", "bbbbbbbbbbbbbbbb"]);
        let answer = ask_with_line(&node, high_water, "-1", says);
        let [Value::Int(0), _, Value::Int(left), holder, Value::Int(0), first, before, foreign] =
            &answer[..]
        else {
            panic!("{answer:?}")
        };
        assert!((20_000..=30_000).contains(left), "{left}");
        assert_eq!(*holder, Value::BulkString(OWNER.into()));
        assert_eq!([first, before, foreign], [&Value::Nil, &Value::Int(-1), &Value::Int(0)]);
    }
}

/// No slot is taken for that, and no other one either.
#[test]
fn nobody_takes_a_slot_whose_counter_is_at_its_end() {
    let node = Node::admitted();
    let end = 9_007_199_254_740_991;
    node.mark(&[("high_water", &end.to_string())]);
    let entry = format!("{end:016}{OTHER}");
    node.server.run(&["HSET", "quorlock:counters", SLOTS[0], &entry]);
    let answer = ask_with_line(&node, end, "-1", &[]);
    assert_eq!(answer[0], Value::Int(-4));
    assert_eq!(SLOTS.map(|slot| node.server.get(slot)), [None, None]);
}

/// By the fast path as behind it.
#[test]
fn one_slot_is_taken_where_somebody_waits_for_another_by_its_name() {
    for allowed in ["1", "-1"] {
        for counter in [0, 5] {
            let (node, high_water) = counted();
            let slots = ["s/0", "s/1", "s/2"];
            node.server.run(&["ZADD", "quorlock:line:s/0", "1", "bbbbbbbbbbbbbbbb"]);
            let entry = format!("{:016}{OTHER}", high_water + counter);
            node.server.run(&["HSET", "quorlock:counters", slots[1], &entry]);
            node.mark(&[("high_water", &(high_water + 9).to_string())]);
            let head = format!("{ETAG} {:016} {:016}", high_water + 9, node.marked("next_floor"));
            let hint = format!("{high_water:016}");
            let own = ["EVAL", ACQUIRE_ANY, "7", MARKER, "quorlock:counters", "quorlock:older"];
            let args = [&*head, OWNER, "10000", &hint, "0", allowed, "3", ""];
            let answer = node.server.run(&[&own[..], &slots, &[LINE], &args].concat());
            let Value::Array(told) = answer else { panic!("{answer:?}") };
            assert_eq!([&told[0], &told[5]], [&Value::Int(1), &Value::Int(2)]);
            let taken = slots.map(|slot| node.server.get(slot).is_some());
            assert_eq!(taken, [false, true, false], "{allowed}, {counter}");
        }
    }
}

/// The earlier waiter did not hear the wake, and is forgotten.
#[test]
fn who_is_let_in_behind_a_wake_hears_of_those_alone_who_wait_then() {
    for (places, waiting) in [(&["1", "bbbbbbbbbbbbbbbb"][..], 0), (&["9", "bbbbbbbbbbbbbbbb"], 1)]
    {
        let (node, high_water) = counted();
        node.server.run(&[&["ZADD", LINE, "2", "aaaaaaaaaaaaaaaa"], places].concat());
        node.server.set(SLOTS[0], OTHER, Some(60_000));
        let answer = ask_with_line(&node, high_water, "-1", &["aaaaaaaaaaaaaaaa", "2", ""]);
        assert_eq!(
            [&answer[0], &answer[5], &answer[4]],
            [1, 2, waiting].map(Value::Int).each_ref()
        );
    }
}

//! Goal: a node's counters never fall, never lose a digit and never reach their end by a broken clock, and its
//! acquire refuses whatever it must.
//!
//! Method: the real acquire script by EVAL on a real server, with markers, counters and keys set by hand.

use quorlock_harness::redis::Value;

use super::scripts::{Ask, ERA, FENCE, Node, RESOURCE};

const MAX: u64 = (1 << 53) - 1;

#[test]
fn a_hint_is_cut_to_a_minute_ahead_of_the_node() {
    let node = Node::admitted();
    let answer = node.acquire(Ask { hint: 9_000_000_000_000_000, ..Ask::of("a") });
    let [Value::Int(1), Value::Int(now), Value::Int(fence), ..] = answer[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(fence, now + 60_000_000);
    assert_eq!(node.counter(), Some(fence.to_string()));
    node.expire();
    // One that is behind the counter raises it by one.
    assert_eq!(i64::try_from(node.granted(Ask::of("b"))).unwrap(), fence + 1);
}

#[test]
fn a_hint_that_is_ahead_becomes_the_counter() {
    let node = Node::admitted();
    let hint = node.now_us() + 5_000_000;
    assert_eq!(node.granted(Ask { hint, ..Ask::of("a") }), hint);
    assert_eq!(node.marked("high"), hint + 30_000_000, "runs ahead, so that it is seldom written");
}

#[test]
fn numbers_are_stored_and_answered_to_the_last_digit() {
    let node = Node::admitted();
    node.set_counter(1_795_170_000_123_456);
    assert_eq!(node.granted(Ask::of("a")), 1_795_170_000_123_457);
    assert_eq!(node.counter().as_deref(), Some("1795170000123457"));
    assert_eq!(node.marked("high"), 1_795_170_000_123_457);
}

#[test]
fn a_counter_at_its_end_is_refused_and_leaves_no_key() {
    let node = Node::admitted();
    node.set_counter(MAX - 1);
    assert_eq!(node.granted(Ask::of("a")), MAX);
    node.expire();
    for _ in 0..3 {
        assert_eq!(node.code(Ask::of("b")), -4);
        assert_eq!(node.server.get(RESOURCE), None);
        assert_eq!(node.counter(), Some(MAX.to_string()), "it neither falls nor wraps");
    }
}

#[test]
fn a_counter_that_is_no_number_or_no_string_is_refused_and_kept() {
    let node = Node::admitted();
    node.server.set(FENCE, "junk", None);
    assert_eq!(node.code(Ask::of("a")), -4);
    assert_eq!(node.counter().as_deref(), Some("junk"));
    node.server.del(FENCE);
    node.server.run(&["RPUSH", FENCE, "1"]);
    assert_eq!(node.code(Ask::of("a")), -4);
    assert_eq!(node.server.get(RESOURCE), None);
}

#[test]
fn an_absent_counter_starts_above_the_floor() {
    let node = Node::admitted();
    node.mark(&[("floor", "5000")]);
    assert_eq!(node.granted(Ask::of("a")), 5001);
}

/// Twelve hours after a turn, what was the highest then becomes the floor. Fourteen hours after it, that would be
/// below a counter that was begun right after the turn and expires before the next one.
#[test]
fn the_floor_turns_twice_before_a_counter_can_have_expired() {
    let hours = 3600;
    for (since, floor, passed) in [
        (10 * hours, 10, 700),
        (12 * hours, 700, 900),
        (14 * hours, 900, 900),
        (23 * hours, 900, 900),
        (-hours, 900, 900),
    ] {
        let node = Node::admitted();
        let now = i64::try_from(node.now_us() / 1_000_000).unwrap();
        let turned = (now - since).to_string();
        node.mark(&[("floor", "10"), ("passed", "700"), ("high", "900"), ("turned", &turned)]);
        assert_eq!(node.granted(Ask::of("a")), floor + 1, "{since} s after the last turn");
        assert_eq!((node.marked("floor"), node.marked("passed")), (floor, passed));
        let turned_now = node.marked("turned").abs_diff(u64::try_from(now).unwrap()) < 60;
        assert_eq!(turned_now, floor != 10);
    }
    let node = Node::admitted();
    node.granted(Ask::of("a"));
    let ttl = node.server.pttl(FENCE);
    assert!((86_000_000..=86_400_000).contains(&ttl), "a counter lives for a day: {ttl}");
}

/// An acquire that relies on an era has the node read nothing of its marker but that.
#[test]
fn an_acquire_in_a_known_era_is_granted_as_asked_and_in_another_one_looked_at() {
    let node = Node::admitted();
    let (hint, latest) = (node.now_us(), node.now_us() + 60_000_000);
    let ask = |owner, hint| Ask { era: ERA, hint, latest, ..Ask::of(owner) };
    node.mark(&[("high", "9000000000000000")]);
    assert!(matches!(node.acquire(ask("a", hint))[..], [Value::Int(now)] if now > 0));
    assert_eq!(node.counter(), Some(hint.to_string()));
    node.expire();
    let behind = node.acquire(ask("b", hint));
    assert!(matches!(behind[..], [Value::Int(1), _, Value::Int(_)]), "{behind:?}");
    assert_eq!(node.counter(), Some((hint + 1).to_string()), "one that is behind raises it by one");
    node.expire();
    // A counter above `high` raises that too.
    node.mark(&[("high", "1")]);
    assert_eq!(node.granted(ask("c", hint)), hint + 2);
    assert!(node.marked("high") >= hint + 2);
    node.expire();
    // In another era, what was known does not count, and the answer says what holds now.
    node.mark(&[("era", "43"), ("floor", "8000000000000000")]);
    let answer = node.acquire(ask("d", hint));
    let [Value::Int(1), _, Value::Int(fence), Value::BulkString(era), ..] = &answer[..] else {
        panic!("{answer:?}")
    };
    assert_eq!((*fence, &era[..]), (8_000_000_000_000_001, &b"43"[..]));
    node.expire();
    node.mark(&[("state", "joining"), ("era", "44")]);
    assert_eq!(node.code(ask("e", hint)), -1);
    node.server.flush();
    assert_eq!(node.code(ask("e", hint)), -1);
    assert!(node.server.keys().is_empty());
}

#[test]
fn a_ttl_above_the_longest_is_refused() {
    let node = Node::admitted();
    assert_eq!(node.code(Ask { ttl_ms: 60_001, ..Ask::of("a") }), -2);
    assert_eq!((node.server.get(RESOURCE), node.counter()), (None, None));
    assert_eq!(node.granted(Ask { ttl_ms: 60_000, ..Ask::of("a") }), 1);
}

#[test]
fn an_acquire_that_arrives_late_does_nothing() {
    let node = Node::admitted();
    let latest = node.now_us() - 1;
    assert_eq!(node.code(Ask { latest, ..Ask::of("a") }), -3);
    assert_eq!((node.server.get(RESOURCE), node.counter()), (None, None));
    let latest = node.now_us() + 60_000_000;
    assert_eq!(node.granted(Ask { latest, ..Ask::of("a") }), 1);
}

#[test]
fn without_the_marker_of_this_process_nothing_is_granted() {
    let node = Node::admitted();
    let stranger = Ask { run_id: "another process", ..Ask::of("a") };
    assert_eq!(node.code(stranger), -1);
    node.mark(&[("state", "joining")]);
    assert_eq!(node.code(Ask::of("a")), -1);
    node.server.flush();
    assert_eq!(node.code(Ask::of("a")), -1);
    assert!(node.server.keys().is_empty());
}

/// A lease's counter is set together with it, for a day. It has more than that left if the clock was set back.
#[test]
fn a_key_with_more_left_than_the_longest_ttl_is_cut_if_the_clock_was_set_back_under_it() {
    let (ours, hour, day) = ("0123456789abcdef0123456789abcdef", 3_600_000u64, 86_400_000);
    let (cut, kept) = (60_000, hour);
    let set_back = Some(day + hour - 10_000);
    for (holder, counter, expected) in [
        (ours, set_back, cut),
        ("somebody else's", set_back, kept),
        // Classic leases, and those of node-redlock, look like ours and may be longer.
        (ours, Some(day - 1), kept),
        (ours, None, kept),
    ] {
        let node = Node::admitted();
        node.server.set(RESOURCE, holder, Some(hour));
        if let Some(left) = counter {
            node.server.set(FENCE, "7", Some(left));
        }
        let answer = node.acquire(Ask::of("a"));
        let [Value::Int(0), Value::Int(_), Value::Int(remaining), Value::BulkString(by)] =
            &answer[..]
        else {
            panic!("{answer:?}")
        };
        assert_eq!(by, holder.as_bytes());
        let expected = i64::try_from(expected).unwrap();
        for left in [*remaining, node.server.pttl(RESOURCE)] {
            assert!((expected - 30_000..=expected).contains(&left), "{holder}: {left}");
        }
    }
}

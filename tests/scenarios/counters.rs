//! Goal: a node's counters never fall, never lose a digit and never reach their end by a broken clock or by what
//! others have written, and its acquire refuses whatever it must.
//!
//! Method: the real scripts by EVAL on a real server, with markers, counters and keys set by hand.

use quorlock_harness::redis::{self, Value};

use super::{
    scripts::{Ask, ETAG, Node, RESOURCE},
    texts::CONFIRM,
};

const MAX: u64 = (1 << 53) - 1;
const HOUR: i64 = 3600;

#[test]
fn a_hint_is_cut_to_a_minute_ahead_of_the_node() {
    let node = Node::admitted();
    let answer = node.acquire(Ask { hint: 9_000_000_000_000_000, ..Ask::of("a") });
    let [Value::Int(1), Value::Int(now), Value::Int(fence), ..] = answer[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(fence, now + 60_000_000);
    assert_eq!(node.counter(), u64::try_from(fence).ok());
    node.expire();
    // One that is behind the counter raises it by one.
    assert_eq!(i64::try_from(node.granted(Ask::of("b"))).unwrap(), fence + 1);
}

#[test]
fn a_hint_that_is_ahead_becomes_the_counter() {
    let node = Node::admitted();
    let hint = node.now_us() + 5_000_000;
    assert_eq!(node.granted(Ask { hint, ..Ask::of("a") }), hint);
    assert_eq!(
        node.marked("high_water"),
        hint + 30_000_000,
        "runs ahead, so that it is seldom written"
    );
}

#[test]
fn numbers_are_stored_and_answered_to_the_last_digit() {
    let node = Node::admitted();
    node.set_counter(1_795_170_000_123_456);
    assert_eq!(node.granted(Ask::of("a")), 1_795_170_000_123_457);
    assert_eq!(node.counter(), Some(1_795_170_000_123_457));
    assert_eq!(node.marked("high_water"), 1_795_170_000_123_457);
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
        assert_eq!(node.counter(), Some(MAX), "it neither falls nor wraps");
    }
}

/// No counter that the node issued is above its high-water mark, so another program wrote one that is.
#[test]
fn a_counter_that_the_node_did_not_issue_counts_on_from_what_it_did_issue() {
    for entry in ["9007199254740980before", "9999999999999999", "junk", "", "            nan"] {
        let node = Node::admitted();
        node.mark(&[("high_water", "5000")]);
        node.write_counter(entry);
        assert_eq!(node.granted(Ask::of("a")), 5001, "{entry}");
        assert!(node.marked("high_water") < 60_000_000_000_000_000, "{entry} has not spread");
        node.expire();
        assert_eq!(node.granted(Ask::of("b")), 5002, "{entry}");
    }
}

#[test]
fn an_absent_counter_starts_above_the_floor() {
    let node = Node::admitted();
    node.mark(&[("floor", "5000"), ("high_water", "5000")]);
    assert_eq!(node.granted(Ask::of("a")), 5001);
}

/// However the clock goes, a counter is dropped only together with a floor that is not below it.
#[test]
fn counters_are_kept_for_two_generations_and_the_floor_is_never_below_one_that_is_dropped() {
    let node = Node::admitted();
    node.mark(&[("floor", "10"), ("next_floor", "10"), ("high_water", "900")]);
    let fence = node.granted(Ask::of("a"));
    assert_eq!(fence, 11);
    node.expire();
    let mut kept = Vec::new();
    for since in [HOUR - 60, HOUR + 60, 48 * HOUR, -48 * HOUR] {
        let now = i64::try_from(node.now_us() / 1_000_000).unwrap();
        node.mark(&[("rotated_at", &(now - since).to_string())]);
        let seen = node.join("0");
        assert!(seen.ready && seen.etag == ETAG, "nobody's round is disturbed: {seen:?}");
        kept.push((node.counter(), seen.floor));
    }
    assert_eq!(kept, [(Some(11), 10), (Some(11), 10), (None, 900), (None, 900)]);
    let next = node.granted(Ask::of("b"));
    assert!(next > 900, "{next}");
    assert_eq!(node.server.pttl("quorlock:counters"), -1, "no clock expires them");
}

/// The node stores nothing of the retention: a client that looks rotates by its own.
#[test]
fn a_generation_ends_when_one_who_looks_finds_it_older_than_the_retention() {
    let node = Node::admitted();
    node.granted(Ask::of("a"));
    let look = ["this", "0", "test/1", "60000", "0", "", "0"];
    let ago = |seconds: u64| (node.now_us() / 1_000_000 - seconds).to_string();
    let mut seen = Vec::new();
    for (seconds, retention_ms) in [(50, "60000"), (70, "80000"), (70, "60000"), (70, "60000")] {
        node.mark(&[("rotated_at", &ago(seconds))]);
        assert!(node.look_keeping(&look, retention_ms).ready);
        seen.push(node.generations());
    }
    assert_eq!(seen, [[1, 0], [1, 0], [0, 1], [0, 0]]);
}

#[test]
fn a_counter_of_the_older_generation_counts_on() {
    let node = Node::admitted();
    let fence = node.granted(Ask { hint: 700, ..Ask::of("a") });
    node.mark(&[("rotated_at", "1")]);
    assert!(node.join("0").ready);
    // A round that was under way is confirmed, and the next one counts on.
    assert!(node.confirmed(CONFIRM, "a", fence + 3));
    node.mark(&[("rotated_at", "1")]);
    assert!(node.join("0").ready);
    node.expire();
    assert_eq!(node.granted(Ask::of("b")), fence + 4);
}

/// Commands that name the state of the node are granted as asked, and commands that name another are not granted.
#[test]
fn an_acquire_is_granted_in_the_state_that_its_round_knew_and_in_no_other() {
    let node = Node::admitted();
    let (hint, latest) = (node.now_us(), node.now_us() + 60_000_000);
    let ask = |owner, hint| Ask { hint, latest, ..Ask::of(owner) };
    node.set_counter(hint - 1);
    node.mark(&[("high_water", "9000000000000000")]);
    assert!(matches!(node.acquire(ask("a", hint))[..], [Value::Int(now)] if now > 0));
    assert_eq!(node.counter(), Some(hint));
    node.expire();
    let behind = node.acquire(ask("b", hint));
    let [Value::Int(1), _, Value::Int(_), _, Value::Int(-1), Value::Int(1)] = behind[..] else {
        panic!("{behind:?}")
    };
    assert_eq!(node.counter(), Some(hint + 1), "one that is behind raises it by one");
    node.expire();
    for other in ["43.0/this/0/00000000", "42.1/this/0/00000000", "42.0/that/0/00000000", ""] {
        assert_eq!(node.code(Ask { etag: other, ..ask("c", hint) }), -1, "{other}");
        assert_eq!(node.confirm(CONFIRM, other, "b", hint + 9), -1, "{other}");
    }
    node.set_state("joining");
    assert_eq!(node.code(ask("d", hint)), -1);
    node.server.flush();
    assert_eq!(node.code(ask("e", hint)), -1);
    assert!(node.server.keys().is_empty());
}

/// What a node says of its counters when it is sealed is final for the rounds that began before.
#[test]
fn a_vote_of_a_round_that_began_before_the_seal_does_not_count_behind_it() {
    let node = Node::admitted();
    let fence = node.granted(Ask::of("a"));
    let sealed = node.look(&["this", "0", "test/1", "60000", "0", "s", "0"]);
    assert!(sealed.ready && sealed.high_water >= fence && sealed.etag != ETAG);
    assert_eq!(node.confirm(CONFIRM, ETAG, "a", fence + 7), -1);
    node.expire();
    assert_eq!(node.code(Ask::of("b")), -1);
    assert_eq!(node.counter(), Some(fence));
    assert_eq!(node.granted(Ask { etag: &sealed.etag, ..Ask::of("c") }), fence + 1);
    assert_eq!(node.join("0").etag, sealed.etag, "a look alone seals nothing");
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

/// Another process, another database, other data of the same process, a marker or counters that are gone: all of that
/// may have forgotten.
#[test]
fn a_node_that_is_not_what_it_was_admitted_as_joins_again() {
    type Change = fn(&Node);
    let same = ["this", "0", "test/1", "60000", "0", "", "0"];
    let changes: [(&str, Change, [&str; 7]); 5] = [
        ("another process", |_| (), ["that", "0", "test/1", "60000", "0", "", "0"]),
        ("another database", |_| (), ["this", "1", "test/1", "60000", "0", "", "0"]),
        ("other data", |node| node.mark(&[("identity", "this/0/0123abcd")]), same),
        ("counters gone", |node| assert!(node.server.del("quorlock:counters")), same),
        ("marker gone", |node| assert!(node.server.del(super::MARKER)), same),
    ];
    for (what, change, args) in changes {
        let node = Node::admitted();
        let fence = node.granted(Ask::of("a"));
        node.expire();
        assert!(node.look(&same).ready);
        change(&node);
        let seen = node.look(&args);
        assert!(!seen.ready, "{what}");
        assert_eq!(node.code(Ask::of("b")), -1, "{what}");
        if what == "counters gone" {
            assert!(node.admit_above(&seen.epoch, "0", "0"));
            let seen = node.look(&args);
            assert!(seen.ready && seen.floor >= fence, "{seen:?}");
        }
    }
}

#[test]
fn a_node_of_another_fleet_is_left_alone() {
    let node = Node::admitted();
    for fleet in ["test/3", "other/1"] {
        assert_eq!(node.look_code(&["this", "0", fleet, "90000", "42", "s", "0"]), -5);
    }
    let seen = node.join("0");
    assert!(seen.ready && seen.etag == ETAG);
    assert_eq!(node.marked("max_ttl"), 60_000);
}

/// A node remembers the owners that it granted to, so that it never takes another library's lock for one of its own.
#[test]
fn a_lease_with_more_left_than_the_longest_ttl_is_cut_and_nothing_else_is() {
    let (ours, theirs) = ("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcde0");
    let hour = 3_600_000u64;
    for (granted_to, holder, expected) in
        [(Some(ours), ours, 60_000), (Some(ours), theirs, hour), (None, ours, hour)]
    {
        let node = Node::admitted();
        if let Some(owner) = granted_to {
            assert!(node.granted(Ask::of(owner)) > 0);
        }
        // Its clock was set back under the lease, or another library has a longer one.
        node.server.set(RESOURCE, holder, Some(hour));
        let answer = node.acquire(Ask::of("a"));
        let [
            Value::Int(0),
            Value::Int(_),
            Value::Int(remaining),
            Value::BulkString(by),
            Value::Int(0),
        ] = &answer[..]
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

/// The older generation is a key of its own, and nothing says that it was there.
#[test]
fn a_node_whose_older_generation_was_deleted_has_forgotten() {
    let node = Node::admitted();
    node.mark(&[("floor", "10"), ("next_floor", "10"), ("high_water", "900")]);
    let fence = node.granted(Ask { hint: 700, ..Ask::of("a") });
    node.mark(&[("rotated_at", "1")]);
    assert!(node.join("0").ready);
    assert!(node.server.del("quorlock:older"));
    node.expire();
    if node.join("0").ready {
        let next = node.granted(Ask::of("b"));
        assert!(next > fence, "{next} after {fence}");
    }
}

/// Without one of its numbers a node does not go on as if nothing were missing, and drops nothing whose height is not
/// noted.
#[test]
fn a_node_whose_marker_has_lost_a_number_joins_again_and_goes_on_above_its_counters() {
    for (field, value) in [("next_floor", None), ("floor", Some("junk")), ("rotated_at", Some("x"))]
    {
        let node = Node::admitted();
        node.mark(&[("floor", "10"), ("next_floor", "10"), ("high_water", "900")]);
        let fence = node.granted(Ask { hint: 700, ..Ask::of("a") });
        node.expire();
        match value {
            None => node.server.run(&["HDEL", super::MARKER, field]),
            Some(value) => node.server.run(&["HSET", super::MARKER, field, value]),
        };
        let seen = node.join("0");
        assert!(!seen.ready && seen.high_water >= fence, "{field}: {seen:?}");
        assert_eq!(node.code(Ask::of("b")), -1);
        assert!(node.admit_above(&seen.epoch, "0", "0"));
        let seen = node.join("0");
        assert!(seen.ready && seen.floor >= fence, "{field}: {seen:?}");
    }
}

/// The head that acquires go by and the marker that looks tell of have to agree.
#[test]
fn a_node_whose_head_others_have_written_joins_again() {
    for head in [
        "42.0/this/0/00000000 9007199254740000 0000000000000000",
        "42.0/this/0/00000000 0000000000000001 0000000000000000",
        "42.0/this/0/00000000 inf 0000000000000000",
        "42.0/this/0/00000000",
        "",
    ] {
        let node = Node::admitted();
        node.set_counter(100);
        node.server.run(&["HSET", "quorlock:counters", "", head]);
        assert!(!node.join("0").ready, "{head}");
        assert_eq!(node.code(Ask::of("a")), -1, "{head}");
    }
}

/// What a look writes then needs memory, and must not fail for it: the votes of before would count once there is some again.
#[test]
fn a_node_whose_memory_is_full_joins_again_all_the_same() {
    let node = Node::admitted();
    let epoch = node.join("0").epoch;
    node.server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(!node.join(&epoch).ready);
    node.server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(node.code(Ask::of("a")), -1);
}

#[test]
fn a_node_that_others_have_put_something_else_into_joins_again() {
    for key in ["quorlock:counters", "quorlock:older"] {
        let node = Node::admitted();
        node.mark(&[("rotated_at", "1")]);
        assert!(node.join("0").ready);
        assert!(node.server.del(key));
        node.server.set(key, "theirs", None);
        let seen = node.join("0");
        assert!(!seen.ready, "{key}: {seen:?}");
        assert!(node.admit_above(&seen.epoch, "0", "0"));
        assert!(node.join("0").ready);
    }
}

/// Otherwise a node whose clock jumps more often than that would keep them for ever.
#[test]
fn a_generation_of_counters_is_as_old_behind_a_jump_of_the_clock_as_before() {
    let node = Node::admitted();
    let fence = node.granted(Ask::of("a"));
    node.expire();
    let before = (node.now_us() / 1_000_000 - 1_000).to_string();
    node.mark(&[("rotated_at", &before)]);
    let seen = node.join(&node.join("0").epoch);
    assert!(!seen.ready);
    assert!(node.admit_above(&seen.epoch, "0", "0"));
    let since = node.server.run(&["HGET", super::MARKER, "rotated_at"]);
    assert_eq!(redis::from_redis_value::<String>(since).unwrap(), before);
    let kept = node.server.run(&["HGET", "quorlock:counters", RESOURCE]);
    let kept = redis::from_redis_value::<String>(kept).unwrap();
    assert!(kept.starts_with(&format!("{fence:016}")), "{kept} after {fence}");
}

#[test]
fn a_node_whose_marker_does_not_say_whether_there_are_older_counters_joins_again_all_the_same() {
    let node = Node::admitted();
    node.server.run(&["HDEL", super::MARKER, "older"]);
    let seen = node.join("0");
    assert!(seen.ready, "{seen:?}");
    let seen = node.join(&seen.epoch);
    assert!(!seen.ready, "{seen:?}");
    assert!(node.admit_above(&seen.epoch, "0", "0"));
    assert!(node.join("0").ready);
}

/// An operator may raise the floor of a node: a rotation does not lower it again.
#[test]
fn a_rotation_lowers_no_floor() {
    let node = Node::admitted();
    let raised = node.now_us() + 30_000_000;
    node.mark(&[("floor", &raised.to_string()), ("rotated_at", "1")]);
    assert!(node.join("0").ready);
    assert_eq!(node.marked("floor"), raised);
}

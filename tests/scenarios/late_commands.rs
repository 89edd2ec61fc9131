//! Goal: a command that is executed late, behind later ones, lessens nothing that a client relies on by then: no end of
//! a key or an entry, no counter, no place, no owner, no record, no wait.
//!
//! Method: for each command that prolongs, restores, notes or tells something, the scripts by EVAL on a real server, the
//! later one first. `docs/algorithm.md` has the list, with the reason for each.

use quorlock_harness::redis::{self, Value};

use super::{
    MARKER,
    scripts::{Ask, HOUR_MS, IDENTITY, Node, RESOURCE, Tell},
    texts::{
        ACQUIRE_READ, CONFIRM, EXTEND, EXTEND_CLASSIC, EXTEND_DOWNGRADED, EXTEND_READ, LEAVE,
        RELEASE, RELEASE_READ, RESTORE_READ,
    },
};

const READERS: &str = "quorlock:readers:r";
const LINE: &str = "quorlock:line:r";

const A: &str = "aaaaaaaaaaaa4aaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbb4bbbbbbbbbbbbbbbbbbb";

/// The ttl that a later lease has asked for, and that of an earlier one.
const LONG: &str = "50000";
const SHORT: &str = "10000";

fn number(value: Value) -> i64 {
    redis::from_redis_value(value).expect("a number")
}

impl Node {
    fn run(&self, script: &str, keys: &[&str], args: &[&str]) -> Value {
        let count = keys.len().to_string();
        self.server.run(&[&["EVAL", script, &count], keys, args].concat())
    }

    /// A script of a lease, which knows the node's own keys.
    fn run_own(&self, script: &str, keys: &[&str], args: &[&str]) -> Vec<Value> {
        let own = [MARKER, "quorlock:counters", "quorlock:older"];
        match self.run(script, &[&own, keys].concat(), args) {
            Value::Array(answer) => answer,
            other => vec![other],
        }
    }

    fn extend(&self, script: &str, keys: &[&str], ttl: &str) {
        let answer = self.run_own(script, keys, &[IDENTITY, A, ttl]);
        assert_eq!((&answer[0], &answer[2]), (&Value::Int(1), &Value::Int(1)), "extended");
    }

    fn left(&self, key: &str) -> i64 {
        number(self.server.run(&["PTTL", key]))
    }

    /// For how many ms the entry of an owner stands.
    fn entry_left(&self, owner: &str) -> i64 {
        let score: f64 = redis::from_redis_value(self.server.run(&["ZSCORE", READERS, owner]))
            .expect("an entry");
        score as i64 - (self.now_us() / 1_000) as i64
    }

    fn read(&self, owner: &str, ttl: &str) {
        let (high, next) = (self.marked("high_water"), self.marked("next_floor"));
        let head = format!("{} {high:016} {next:016}", super::scripts::ETAG);
        let hint = format!("{:016}", self.now_us());
        let answer = self.run_own(
            ACQUIRE_READ,
            &[RESOURCE, READERS],
            &[&head, owner, ttl, &hint, "0", "-1"],
        );
        assert_eq!(answer[0], Value::Int(1), "{answer:?}");
    }
}

/// Both live for as long as the later one says.
#[track_caller]
fn for_long(left: i64) {
    assert!((40_001..=50_010).contains(&left), "{left} ms are left");
}

#[test]
fn an_extension_shortens_no_key() {
    for script in [EXTEND, EXTEND_CLASSIC] {
        let node = Node::admitted();
        node.granted(Ask::of(A));
        node.extend(script, &[RESOURCE], LONG);
        node.extend(script, &[RESOURCE], SHORT);
        for_long(node.left(RESOURCE));
    }
}

/// Others have taken the end of a key. It gets one again, and no lease has less than it counts with.
#[test]
fn an_extension_of_a_key_without_an_end_leaves_what_any_lease_may_count_with() {
    let node = Node::admitted();
    node.granted(Ask::of(A));
    node.server.run(&["PERSIST", RESOURCE]);
    node.extend(EXTEND, &[RESOURCE], SHORT);
    assert!((50_001..=60_000).contains(&node.left(RESOURCE)), "{}", node.left(RESOURCE));
    node.server.run(&["PERSIST", RESOURCE]);
    node.extend(EXTEND_DOWNGRADED, &[RESOURCE, READERS], SHORT);
    assert!((50_001..=60_002).contains(&node.left(RESOURCE)), "{}", node.left(RESOURCE));
}

/// A clock that went back prolongs keys: with every extension they end by the longest ttl again.
#[test]
fn an_extension_leaves_no_more_than_the_longest_ttl() {
    let node = Node::admitted();
    node.granted(Ask::of(A));
    node.server.run(&["PEXPIRE", RESOURCE, "3600000"]);
    node.extend(EXTEND, &[RESOURCE], SHORT);
    assert!((50_001..=60_000).contains(&node.left(RESOURCE)), "{}", node.left(RESOURCE));
    node.extend(EXTEND_DOWNGRADED, &[RESOURCE, READERS], SHORT);
    assert!((50_001..=60_003).contains(&node.left(RESOURCE)), "{}", node.left(RESOURCE));
    for written in ["+inf", "9007199254740992.5"] {
        node.server.run(&["ZADD", READERS, written, A]);
        node.extend(EXTEND_READ, &[RESOURCE, READERS], SHORT);
        assert!((50_001..=60_003).contains(&node.entry_left(A)), "{}", node.entry_left(A));
    }
}

#[test]
fn an_extension_of_a_reader_shortens_no_entry() {
    let node = Node::admitted();
    node.read(A, SHORT);
    node.read(B, SHORT);
    node.extend(EXTEND_READ, &[RESOURCE, READERS], LONG);
    node.extend(EXTEND_READ, &[RESOURCE, READERS], SHORT);
    for_long(node.entry_left(A));
    for_long(node.left(RESOURCE));
    assert!(node.entry_left(B) <= 10_010, "it is for its owner alone");
}

/// The entry counts in the very millisecond of its end, and has less than nothing left by then. The script itself puts that end
/// there, by the time that it has read.
#[test]
fn an_extension_of_an_entry_that_ends_right_now_is_for_the_time_that_was_asked_for() {
    // Where extend.lua begins, behind what stands before it.
    const BEGINS: &str = "local answer, size = {1, now}, #KEYS - 3\n";
    assert_eq!(EXTEND_READ.matches(BEGINS).count(), 1, "it was there, once");
    let node = Node::admitted();
    for ends in ["ms", "ms + 1", "ms + 2"] {
        let planted = format!("redis.call('ZADD', KEYS[5], {ends}, ARGV[2])\n{BEGINS}");
        let script = EXTEND_READ.replace(BEGINS, &planted);
        node.read(A, SHORT);
        node.extend(&script, &[RESOURCE, READERS], SHORT);
        let left = node.entry_left(A);
        assert!((5_000..=10_000).contains(&left), "{ends}: {left} ms are left");
    }
}

#[test]
fn an_acquire_of_a_reader_shortens_no_entry() {
    let node = Node::admitted();
    node.read(A, SHORT);
    node.extend(EXTEND_READ, &[RESOURCE, READERS], LONG);
    node.read(A, SHORT);
    for_long(node.entry_left(A));
    for_long(node.left(RESOURCE));
}

#[test]
fn a_release_of_a_reader_that_is_not_there_takes_nothing() {
    let node = Node::admitted();
    node.read(A, SHORT);
    // The entries are lost, and the key still keeps writers out.
    node.server.run(&["DEL", READERS]);
    assert_eq!(node.run(RELEASE_READ, &[RESOURCE, READERS], &[B]), Value::Int(0));
    assert!(node.left(RESOURCE) > 0, "it lives up to its end");
}

#[test]
fn a_downgrade_shortens_neither_the_key_nor_the_entry() {
    let node = Node::admitted();
    node.granted(Ask::of(A));
    node.extend(EXTEND, &[RESOURCE], LONG);
    node.extend(EXTEND_DOWNGRADED, &[RESOURCE, READERS], SHORT);
    for_long(node.entry_left(A));
    for_long(node.left(RESOURCE));
    // The nodes have followed, and an earlier one comes.
    node.extend(EXTEND_DOWNGRADED, &[RESOURCE, READERS], SHORT);
    for_long(node.entry_left(A));
    let refused = node.run_own(EXTEND, &[RESOURCE], &[IDENTITY, A, SHORT]);
    assert_eq!(refused[2], Value::Int(2), "it is no writer's any more");
    for_long(node.left(RESOURCE));
}

#[test]
fn a_restore_leaves_what_stands_alone() {
    let node = Node::admitted();
    node.granted(Ask::of(A));
    node.extend(EXTEND, &[RESOURCE], LONG);
    assert_eq!(node.restored(A, u64::MAX), 0);
    for_long(node.left(RESOURCE));
    let node = Node::admitted();
    node.read(A, LONG);
    let latest = u64::MAX.to_string();
    let restored = node.run_own(RESTORE_READ, &[RESOURCE, READERS], &[IDENTITY, A, SHORT, &latest]);
    assert_eq!(restored[0], Value::Int(0));
    for_long(node.entry_left(A));
    for_long(node.left(RESOURCE));
}

/// The record of a leader is kept by a restore that was sent before it was said.
#[test]
fn a_restore_keeps_what_its_leader_has_said_since() {
    let said = |number: u64| format!("p{:016}{number:016}1795170000123456005web-1text", 7);
    let (label, older, newer) = ("1795170000123456web-1".to_owned(), said(1), said(2));
    for (stands, comes, is_kept) in [
        (&newer, &older, true),
        (&newer, &label, true),
        (&older, &newer, false),
        (&label, &older, false),
    ] {
        let node = Node::admitted();
        node.granted(Ask { note: Some(&label), ..Ask::of(A) });
        if stands != &label {
            assert_eq!(node.proclaimed(A, stands), 1);
        }
        node.expire();
        assert_eq!(node.restored_with(A, comes), 1, "the key is set again in any case");
        let kept = if is_kept { stands } else { comes };
        assert_eq!(node.entry(), Some(format!("{A}{kept}")), "{comes} behind {stands}");
    }
}

/// A release is the last word of its owner: an extension sent before it makes nothing anew, and a key that is kept
/// lives for no less than was said.
#[test]
fn an_extension_behind_a_release_takes_nothing_from_it() {
    let node = Node::admitted();
    node.granted(Ask::of(A));
    assert_eq!(node.run(RELEASE, &[RESOURCE], &[A, LONG]), Value::Int(1));
    node.extend(EXTEND, &[RESOURCE], SHORT);
    for_long(node.left(RESOURCE));
    assert_eq!(node.run(RELEASE, &[RESOURCE], &[A]), Value::Int(1));
    let gone = node.run_own(EXTEND, &[RESOURCE], &[IDENTITY, A, LONG]);
    assert_eq!(gone[2], Value::Int(0));
    assert_eq!(node.server.get(RESOURCE), None);
    // And a release of before takes nothing from the next one.
    node.granted(Ask::of(B));
    for late in [&[A][..], &[A, SHORT]] {
        assert_eq!(node.run(RELEASE, &[RESOURCE], late), Value::Int(2));
    }
    assert_eq!(node.holder().1.as_deref(), Some(B));
}

#[test]
fn a_confirm_lowers_no_counter() {
    let node = Node::admitted();
    let first = node.granted(Ask::of(A));
    assert!(node.confirmed(CONFIRM, A, first + 10));
    assert!(!node.confirmed(CONFIRM, A, first + 5), "it is not confirmed behind a larger one");
    assert_eq!(node.counter(), Some(first + 10));
    node.expire();
    let next = node.granted(Ask::of(B));
    assert!(!node.confirmed(CONFIRM, A, first + 10));
    assert_eq!(node.counter(), Some(next));
}

#[test]
fn an_acquire_of_before_takes_nothing_from_a_holder() {
    let node = Node::admitted();
    let counter = node.granted(Ask::of(A));
    node.extend(EXTEND, &[RESOURCE], LONG);
    // The same command once more, and another owner's for a shorter time.
    for owner in [A, B] {
        assert_eq!(node.code(Ask::of(owner)), 0, "{owner}");
    }
    for_long(node.left(RESOURCE));
    assert_eq!((node.counter(), node.holder().1.as_deref()), (Some(counter), Some(A)));
}

#[test]
fn a_farewell_leaves_a_place_that_was_taken_since() {
    let node = Node::admitted();
    let client = "0123456789abcdef";
    node.server.run(&["ZADD", LINE, "2000", client]);
    assert_eq!(node.run(LEAVE, &[RESOURCE, LINE], &[client, "1000"]), Value::Int(1));
    assert_eq!(number(node.server.run(&["ZSCORE", LINE, client])), 2_000);
}

/// That a majority had forgotten is said of one epoch of a node: in a later epoch it may be the only one that did.
#[test]
fn what_was_said_of_an_earlier_wait_does_not_count_in_a_later_one() {
    let node = Node::admitted();
    let flags = || -> String {
        redis::from_redis_value(node.server.run(&["HGET", MARKER, "flags"])).expect("flags")
    };
    let look = ["this", "0", "test/1", "60000", "0", "", "0"];
    let told = |epoch: &str| {
        let mut orphaned = look;
        orphaned[5] = "o";
        node.look_telling(&orphaned, HOUR_MS, Tell { after: 0, waited: Some((epoch, 0)) })
    };
    node.set_state("joining");
    node.mark(&[("flags", "")]);
    let epoch = node.look(&look).epoch;
    assert!(!told("41").ready && flags().is_empty(), "it is of another epoch");
    assert!(!told(&epoch).ready && flags() == "o");
    // It is admitted, and forgets alone. What was sent in the wait before comes now.
    assert!(node.admit(&epoch));
    node.server.run(&["DEL", MARKER, "quorlock:counters"]);
    let again = node.look(&look);
    assert!(!again.ready && again.epoch != epoch);
    told(&epoch);
    assert_eq!(flags(), "", "nobody has said so of this wait");
}

/// A client that asks for shorter leases, or one that was configured anew since.
#[test]
fn a_look_that_tells_of_a_shorter_ttl_lowers_no_longest_ttl() {
    let node = Node::admitted();
    let told = |ttl: &str| node.look(&["this", "0", "test/1", ttl, "0", "", "0"]);
    for (ttl, longest) in [("30000", 60_000), ("90000", 90_000), ("60000", 90_000), ("1", 90_000)] {
        assert!(told(ttl).ready);
        assert_eq!(node.marked("max_ttl"), longest, "{ttl}");
    }
    // Also while the longest that is told from now on is noted, with which it may be lowered afterwards.
    assert_eq!(node.look_as("test/1", "x7", "40000", 0).0, 1);
    for (ttl, seen) in [("30000", 40_000), ("50000", 50_000), ("40000", 50_000)] {
        assert!(told(ttl).ready);
        assert_eq!(node.text_of("max_ttl_seen"), format!("7 {seen}"), "{ttl}");
        assert_eq!(node.marked("max_ttl"), 90_000, "{ttl}");
    }
}

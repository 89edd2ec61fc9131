//! Under which state of a node the script of readers lets one in, what it cuts that outlives every lease, and from where it
//! counts on.
//!
//! The scripts are run by hand, on a real server whose marker and whose keys are set by hand.

use quorlock_harness::redis::{Value, from_redis_value};

use super::{
    MARKER,
    scripts::{ETAG, Node, RESOURCE},
    texts::{ACQUIRE_READ, CONFIRM_READ, RELEASE_READ},
};

const READERS: &str = "quorlock:readers:r";

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const WRITER: &str = "cccccccccccccccccccccccccccccccc";

/// In ms; the longest ttl is a minute.
const HOUR: &str = "3600000";
const LONGEST: i64 = 60_000;

/// The answer to a read for so many ms, of a client that knows this state and this high-water mark: the first number,
/// and the third, which says for how many ms the key lives if the read is denied.
fn ask(
    node: &Node,
    (etag, high_water): (&str, u64),
    owner: &str,
    ttl: &str,
    latest: u64,
) -> (i64, i64) {
    let head = format!("{etag} {high_water:016} {:016}", node.marked("next_floor"));
    let (hint, latest) = (format!("{high_water:016}"), latest.to_string());
    let own = [MARKER, "quorlock:counters", "quorlock:older", RESOURCE, READERS];
    let args = [&*head, owner, ttl, &hint, &latest, "1"];
    match node.server.run(&[&["EVAL", ACQUIRE_READ, "5"], &own[..], &args].concat()) {
        // Its clock alone: as asked.
        Value::Int(_) => (1, 0),
        Value::Array(answer) => match &answer[..] {
            [Value::Int(code), _, Value::Int(third), ..] => (*code, *third),
            [Value::Int(code), ..] => (*code, 0),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The same for ten seconds.
fn read(node: &Node, etag: &str, high_water: u64, owner: &str, latest: u64) -> (i64, i64) {
    ask(node, (etag, high_water), owner, "10000", latest)
}

/// A node that has counted.
fn counted() -> (Node, u64) {
    let node = Node::admitted();
    let high_water = node.now_us();
    node.set_counter(high_water);
    (node, high_water)
}

fn release(node: &Node, owner: &str) -> i64 {
    let keys = [RESOURCE, READERS];
    let said = node.server.run(&[&["EVAL", RELEASE_READ, "2"], &keys[..], &[owner]].concat());
    from_redis_value(said).unwrap()
}

/// For how many ms the key lives.
fn left(node: &Node) -> i64 {
    match node.server.run(&["PTTL", RESOURCE]) {
        Value::Int(left) => left,
        other => panic!("{other:?}"),
    }
}

/// Otherwise a node that has forgotten, or has older data, would vote for a reader beside an earlier writer.
#[test]
fn a_reader_is_let_in_under_the_state_that_it_has_seen_or_an_older_look_at_it() {
    for others_read in [false, true] {
        let (node, high_water) = counted();
        if others_read {
            assert_eq!(read(&node, ETAG, high_water, B, 0).0, 1);
        }
        let code = |etag, high_water, latest| read(&node, etag, high_water, A, latest).0;
        let has_entry = || node.server.run(&["ZSCORE", READERS, A]) != Value::Nil;
        assert_eq!(code("43.0/this/0/00000000", high_water, 0), -1, "another epoch");
        assert_eq!(code("42.1/this/0/00000000", high_water, 0), -1, "another seal");
        assert_eq!(code(ETAG, high_water + 1, 0), -1, "the node has older data");
        assert_eq!(code(ETAG, high_water, node.now_us() - 1), -3, "too late");
        assert_eq!(code(ETAG, high_water - 1, node.now_us() - 1), -3, "too late");
        assert!(!has_entry());
        assert_eq!(code(ETAG, high_water - 1, node.now_us() + 60_000_000), 1, "an older look");
        assert!(has_entry());
        let _ = node.server.run(&["ZREM", READERS, A]);
        assert_eq!(code(ETAG, high_water, 0), 1);
        assert!(has_entry());
    }
}

/// As an acquire does, where a clock that was set back prolongs what it was granted.
#[test]
fn a_reader_cuts_what_outlives_every_lease_and_is_none_of_others() {
    let (node, high_water) = counted();
    let denied = |value: &str, ms: &str| {
        let _ = node.server.run(&["SET", RESOURCE, value, "PX", ms]);
        let (code, told) = read(&node, ETAG, high_water, A, 0);
        assert_eq!(code, 0);
        (told, left(&node))
    };
    node.write_counter(&format!("{high_water:016}{WRITER}"));
    let (told, is_left) = denied(WRITER, HOUR);
    assert_eq!(told, LONGEST);
    assert!(is_left <= LONGEST, "{is_left}");
    let (told, is_left) = denied(B, HOUR);
    assert!(told > LONGEST && is_left > LONGEST, "of others: {told}, {is_left}");
    let (told, is_left) = denied(WRITER, "50000");
    assert!(told > 40_000 && told <= 50_000 && is_left > 40_000, "as it is: {told}, {is_left}");

    node.server.del(RESOURCE);
    assert_eq!(read(&node, ETAG, high_water, A, 0).0, 1);
    let prolongs: [&[&str]; 2] = [&["PEXPIRE", RESOURCE, HOUR], &["PERSIST", RESOURCE]];
    for prolonged in prolongs {
        let _ = node.server.run(prolonged);
        assert_eq!(read(&node, ETAG, high_water, B, 0).0, 1);
        let is_left = left(&node);
        assert!(0 < is_left && is_left <= LONGEST, "behind {prolonged:?}: {is_left}");
    }
}

/// Cut to the ttl of the client that asks, another client's lease would end too soon.
#[test]
fn where_others_have_taken_the_longest_ttl_nothing_is_cut() {
    let (node, high_water) = counted();
    node.server.run(&["HDEL", MARKER, "max_ttl"]);
    node.write_counter(&format!("{high_water:016}{WRITER}"));
    let _ = node.server.run(&["SET", RESOURCE, WRITER, "PX", HOUR]);
    let (code, told) = ask(&node, (ETAG, high_water), A, "1000", 0);
    assert!(code == 0 && told > LONGEST && left(&node) > LONGEST, "{code} {told}");

    node.server.del(RESOURCE);
    assert_eq!(read(&node, ETAG, high_water, A, 0).0, 1);
    let _ = node.server.run(&["PEXPIRE", RESOURCE, HOUR]);
    assert_eq!(ask(&node, (ETAG, high_water), B, "1000", 0).0, 1);
    assert!(left(&node) > LONGEST);
    let _ = node.server.run(&["PERSIST", RESOURCE]);
    assert_eq!(ask(&node, (ETAG, high_water), B, "1000", 0).0, 1);
    assert_eq!(left(&node), -1, "it covers whatever stands there");
}

/// A full server refuses the first write of a script that may need memory.
#[test]
fn a_reader_keeps_its_key_for_longer_than_it_has_it_where_the_memory_is_full() {
    for others_read in [false, true] {
        let (node, high_water) = counted();
        for owner in [A, B].into_iter().skip(usize::from(!others_read)) {
            assert_eq!(read(&node, ETAG, high_water, owner, 0).0, 1);
        }
        let full = |most| node.server.run(&["CONFIG", "SET", "maxmemory", most]);
        full("1");
        let keys = ["EVAL", RELEASE_READ, "2", RESOURCE, READERS, B, "30000"];
        assert_eq!(node.server.run(&keys), Value::Int(1));
        full("0");
        for key in [RESOURCE, READERS] {
            let Value::Int(left) = node.server.run(&["PTTL", key]) else { panic!("no number") };
            assert!((20_000..=30_000).contains(&left), "{key}: {left}");
        }
    }
}

/// The clock of a server is read in us, and entries end in ms. A holder counts from before it has asked.
#[test]
fn an_entry_ends_no_sooner_than_was_asked_for_and_the_key_no_sooner_than_the_last_entry() {
    let (node, high_water) = counted();
    // The test cannot choose at which microsecond it asks.
    for _ in 0..20 {
        for (owner, ttl) in [(A, 10_000), (B, 20_000)] {
            let asked_at = node.now_us();
            let (code, _) = ask(&node, (ETAG, high_water), owner, &ttl.to_string(), 0);
            assert_eq!(code, 1);
            let ends: u64 = from_redis_value(node.server.run(&["ZSCORE", READERS, owner])).unwrap();
            // It counts for as long as the clock shows that millisecond, as a key does.
            let over = (ends + 1) * 1_000;
            assert!(over > asked_at + ttl * 1_000, "{owner}: {ends} for {asked_at}");
        }
        // What is left first: time may pass in a script too.
        let beyond = "local left, time = redis.call('PTTL', KEYS[2]), redis.call('TIME') \
                      local last = redis.call('ZRANGE', KEYS[1], '-1', '-1', 'WITHSCORES')[2] \
                      return left - (last - math.floor(time[1] * 1000 + time[2] / 1000))";
        let beyond = || node.server.run(&["EVAL", beyond, "2", READERS, RESOURCE]);
        let is = beyond();
        assert!(matches!(is, Value::Int(0..)), "{is:?}");
        assert_eq!(release(&node, B), 1);
        let is = beyond();
        assert!(matches!(is, Value::Int(0..=5_000)), "behind a release: {is:?}");
        assert_eq!(release(&node, A), 1);
        assert!(node.server.get(RESOURCE).is_none());
    }
}

/// The counters of before count as those of now, for as long as they are kept.
#[test]
fn a_token_of_a_reader_is_confirmed_where_either_generation_has_its_counter() {
    for hash in ["quorlock:counters", "quorlock:older"] {
        let (node, high_water) = counted();
        assert_eq!(read(&node, ETAG, high_water, A, 0).0, 1);
        let confirm = |owner: &str, token: u64| {
            let own = [MARKER, "quorlock:counters", "quorlock:older", RESOURCE, READERS];
            let token = format!("{token:016}");
            let asked = [&["EVAL", CONFIRM_READ, "5"], &own[..], &[ETAG, owner, &token]].concat();
            match node.server.run(&asked) {
                Value::Array(told) => told[0].clone(),
                other => panic!("{other:?}"),
            }
        };
        node.server.run(&["HDEL", "quorlock:counters", RESOURCE]);
        assert_eq!(confirm(A, high_water), Value::Int(0), "no counter is known");
        let entry = format!("{:016}{WRITER}", high_water - 5);
        node.server.run(&["HSET", hash, RESOURCE, &entry]);
        assert_eq!(confirm(B, high_water), Value::Int(0), "it does not read here");
        assert_eq!(node.entry().as_deref(), Some(WRITER), "{hash}");
        for token in [high_water - 6, high_water - 5, high_water, high_water + 7] {
            assert_eq!(confirm(A, token), Value::Int(1), "{hash}, {token}");
            assert_eq!(node.counter(), Some(token.max(high_water - 5)), "{hash}, {token}");
            assert_eq!(node.marked("high_water"), token.max(high_water), "{hash}, {token}");
            // What is said beside the counter goes with it.
            let beside = if token > high_water - 5 { A } else { WRITER };
            assert_eq!(node.entry().as_deref(), Some(beside), "{hash}, {token}");
        }
    }
}

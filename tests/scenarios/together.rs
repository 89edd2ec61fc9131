//! Goal: on a real server the counters of a set become one number, wherever they stood before; and where a set is not
//! granted, nothing is set and no counter moves.
//!
//! Method: the scripts, run by hand, over counters that are written by hand.

use quorlock_harness::redis::{Value, from_redis_value};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    MARKER,
    scripts::{ETAG, Node, without_early_end},
    texts::{ACQUIRE_SET, CONFIRM, RESTORE},
};

const OWN: [&str; 3] = [MARKER, "quorlock:counters", "quorlock:older"];
const OWNER: &str = "11111111111111111111111111111111";
const OTHER: &str = "22222222222222222222222222222222";
const NAMES: [&str; 3] = ["r", "s", "t"];

/// A node whose counters may be set by hand up to this.
fn node(high_water: u64) -> Node {
    let node = Node::admitted();
    node.mark(&[("high_water", &high_water.to_string()), ("floor", "40"), ("next_floor", "50")]);
    node
}

fn put(node: &Node, hash: &str, name: &str, entry: &str) {
    node.server.run(&["HSET", hash, name, entry]);
}

fn entry(counter: u64, owner: &str) -> String {
    format!("{counter:016}{owner}")
}

fn entries(node: &Node) -> [Option<String>; 3] {
    NAMES.map(|name| from_redis_value(node.server.run(&["HGET", OWN[1], name])).unwrap())
}

fn keys(node: &Node) -> usize {
    NAMES.iter().filter(|name| node.server.get(name).is_some()).count()
}

fn ask(node: &Node, hint: u64, count: &str, latest: u64, note: &str) -> Value {
    let head = format!("{ETAG} {:016} {:016}", node.marked("high_water"), 50);
    let (hint, latest) = (format!("{hint:016}"), latest.to_string());
    let mut args = vec!["EVAL", ACQUIRE_SET, "6"];
    args.extend(OWN.into_iter().chain(NAMES));
    args.extend([&*head, OWNER, "10000", &hint, &latest, count, "3", note]);
    node.server.run(&args)
}

/// The counter that was answered.
#[track_caller]
fn granted(answer: Value) -> u64 {
    match answer {
        Value::Array(told) => match &told[..] {
            [Value::Int(1), _, Value::Int(counter), ..] => u64::try_from(*counter).unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn code(answer: &Value) -> Option<i64> {
    match answer {
        Value::Array(told) => match told.first() {
            Some(Value::Int(code)) => Some(*code),
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn the_counters_of_a_set_go_on_together_from_the_largest_wherever_that_is() {
    let all = |counter, note: &str| NAMES.map(|_| Some(entry(counter, OWNER) + note));
    // One in this generation, one in the one before, and one that is absent.
    for (older, newer, counts, expected) in [
        (60, 100, "-1", 101),
        (100, 60, "-1", 101),
        (100, 60, "-64", 164),
        // The floor is above both.
        (10, 20, "-1", 41),
    ] {
        let node = node(1_000);
        put(&node, OWN[1], "r", &entry(newer, OTHER));
        put(&node, OWN[2], "s", &entry(older, OTHER));
        assert_eq!(granted(ask(&node, 5, counts, 0, "")), expected);
        assert_eq!((entries(&node), keys(&node)), (all(expected, ""), 3));
        assert_eq!(node.marked("high_water"), 1_000);
    }
    // The hint, where it is above all of them; with a note; and above what the node has issued so far.
    let node = node(100);
    put(&node, OWN[1], "t", &entry(90, OTHER));
    assert_eq!(granted(ask(&node, 120, "-1", 0, "note")), 120);
    assert_eq!(entries(&node), all(120, "note"));
    assert!(node.marked("high_water") >= 120);
}

#[test]
fn the_fast_path_makes_all_of_them_the_hint_and_is_not_taken_where_one_is_in_its_way() {
    let node = node(1_000);
    put(&node, OWN[1], "s", &entry(199, OTHER));
    assert!(matches!(ask(&node, 200, "1", 0, ""), Value::Int(_)), "the clock alone");
    assert_eq!(entries(&node), NAMES.map(|_| Some(entry(200, OWNER))));
    NAMES.iter().for_each(|name| assert!(node.server.del(name)));
    // Now one of them is as high as the hint.
    put(&node, OWN[1], "s", &entry(300, OTHER));
    assert_eq!(granted(ask(&node, 300, "1", 0, "")), 301);
    assert_eq!(entries(&node), NAMES.map(|_| Some(entry(301, OWNER))));
}

#[test]
fn what_others_have_written_does_not_spread() {
    for written in ["9007199254740000before", "no number at all", "x"] {
        let node = node(1_000);
        put(&node, OWN[1], "t", written);
        assert_eq!(granted(ask(&node, 5, "-1", 0, "")), 1_001, "{written}");
        assert_eq!(entries(&node), NAMES.map(|_| Some(entry(1_001, OWNER))), "{written}");
    }
}

#[test]
fn where_it_is_not_granted_nothing_is_set_and_no_counter_moves() {
    let end = 9_007_199_254_740_990;
    let node = node(end);
    put(&node, OWN[1], "r", &entry(end, OTHER));
    let before = entries(&node);
    assert_eq!(code(&ask(&node, 5, "-4", 0, "")), Some(-4), "at the end of the numbers");
    assert_eq!(code(&ask(&node, 5, "-1", 1, "")), Some(-3), "too late");
    node.server.set("s", OTHER, Some(10_000));
    assert_eq!(code(&ask(&node, 5, "-1", 0, "")), Some(0), "one of them is held");
    assert_eq!((entries(&node), keys(&node)), (before.clone(), 1));
    assert!(node.server.del("s"));
    node.set_state("joining");
    assert_eq!(code(&ask(&node, 5, "-1", 0, "")), Some(-1), "not admitted");
    assert_eq!(keys(&node), 0);
}

/// The guard holds for each of them, and it is raised for all or none.
#[test]
fn a_set_is_confirmed_where_every_key_is_its_own_and_no_counter_is_above() {
    let confirm = |node: &Node, token: u64| {
        let token = format!("{token:016}");
        let mut args = vec!["EVAL", CONFIRM, "6"];
        args.extend(OWN.into_iter().chain(NAMES));
        args.extend([ETAG, OWNER, &token]);
        code(&node.server.run(&args))
    };
    for name in NAMES {
        let node = node(1_000);
        assert_eq!(granted(ask(&node, 200, "-1", 0, "note")), 200);
        assert_eq!(confirm(&node, 199), Some(0));
        assert_eq!(confirm(&node, 210), Some(1));
        assert_eq!(entries(&node), NAMES.map(|_| Some(entry(210, OWNER) + "note")));
        put(&node, OWN[1], name, &entry(300, OTHER));
        let before = entries(&node);
        assert_eq!(confirm(&node, 250), Some(0), "the counter of {name} is above");
        assert_eq!(confirm(&node, 300), Some(1));
        let of = |it: &str| entry(300, OWNER) + if it == name { "" } else { "note" };
        assert_eq!(entries(&node), NAMES.map(|it| Some(of(it))));
        assert_ne!(before, entries(&node));
        node.server.set(name, OTHER, Some(10_000));
        let before = entries(&node);
        assert_eq!(confirm(&node, 400), Some(0), "{name} is somebody else's");
        assert!(node.server.del(name));
        assert_eq!(confirm(&node, 400), Some(0), "{name} is gone");
        assert_eq!(entries(&node), before);
    }
}

/// Whichever keys are missing are set; but none if another holder has one of them.
#[test]
fn a_set_is_restored_where_nobody_else_has_any_of_it() {
    let node = node(1_000);
    let restore = || {
        let mut args = vec!["EVAL", RESTORE, "6"];
        args.extend(OWN.into_iter().chain(NAMES));
        args.extend(["this/0/00000000", OWNER, "10000", "9007199254740991", "note"]);
        code(&node.server.run(&args))
    };
    assert_eq!(granted(ask(&node, 200, "-1", 0, "note")), 200);
    assert_eq!(restore(), Some(0), "nothing is missing");
    assert!(node.server.del("s"));
    assert_eq!((restore(), keys(&node)), (Some(1), 3));
    // The counters stay where they are, and what is said of them.
    assert_eq!(entries(&node), NAMES.map(|_| Some(entry(200, OWNER) + "note")));
    assert!(node.server.del("r") && node.server.del("t"));
    node.server.set("t", OTHER, Some(10_000));
    assert_eq!((restore(), keys(&node)), (Some(0), 2));
    assert!(node.server.get("r").is_none(), "it would be in everybody's way, and of no use");
    node.server.run(&["SET", "t", ""]);
    assert_eq!(restore(), Some(0), "an empty value is somebody's too");
}

/// The early end of the script does what the rest would have done, whatever the keys hold.
#[test]
fn the_fast_path_of_a_set_does_what_the_rest_does() {
    let rest = without_early_end(ACQUIRE_SET);
    let lines = NAMES.map(|name| format!("quorlock:line:{name}"));
    let counters = [
        None,
        None,
        Some(entry(100, OTHER)),
        Some(entry(499, OTHER)),
        Some(entry(500, OTHER)),
        Some(entry(2_000, OTHER)),
        Some(format!("0x00000000000064{OTHER}")),
        Some(format!("9000000000000000{OTHER}")),
        Some(format!("            nan {OTHER}")),
        Some("12".to_owned()),
    ];
    let node = node(1_000);
    let (mut rng, mut granted, mut by_hint) = (StdRng::seed_from_u64(1), 0, 0);
    for step in 0..900 {
        let mut of = |most: u32| rng.random_range(0..most) as usize;
        let state: [_; 3] = NAMES.map(|_| {
            let (newer, older) = (counters[of(10)].clone(), counters[of(3)].clone());
            (newer, older, of(30), of(30))
        });
        let (hint, count) = [(500, "1"), (500, "-1"), (500, "64"), (20, "-1")][of(4)];
        let (is_stale, has_lines, is_late) = (of(8) == 0, of(2) == 0, of(8) == 0);
        let (note, stands) = (["", "note"][of(2)], of(3) == 0);
        let [fast, slow] = [ACQUIRE_SET, &*rest].map(|script| {
            node.mark(&[("high_water", "1000"), ("floor", "40"), ("next_floor", "50")]);
            for ((name, line), (newer, older, key, waits)) in NAMES.iter().zip(&lines).zip(&state) {
                node.server.run(&["DEL", name, line]);
                for (hash, entry) in [(OWN[1], newer), (OWN[2], older)] {
                    node.server.run(&["HDEL", hash, name]);
                    if let Some(entry) = entry {
                        put(&node, hash, name, entry);
                    }
                }
                match key {
                    0 => drop(node.server.run(&["SET", name, OTHER, "PX", "50000"])),
                    1 => drop(node.server.run(&["ZADD", name, "1", "of another type"])),
                    _ => {}
                }
                match waits {
                    0 => drop(node.server.run(&["ZADD", line, "1", &OTHER[..16]])),
                    1 => drop(node.server.run(&["SET", line, "of another type"])),
                    2 => drop(node.server.run(&["ZADD", line, "1", "nobody's name"])),
                    _ => {}
                }
            }
            let head = format!("{ETAG} {:016} {:016}", if is_stale { 999 } else { 1_000 }, 50);
            let lines = lines.iter().map(String::as_str).filter(|_| has_lines);
            let keys: Vec<&str> = OWN.into_iter().chain(NAMES).chain(lines).collect();
            let (size, hint) = (keys.len().to_string(), format!("{hint:016}"));
            let mut args = vec!["EVAL", script, &size];
            args.extend(keys);
            let latest = if is_late { "1" } else { "0" };
            args.extend([&*head, OWNER, "10000", &hint, latest, count, "3", note]);
            args.extend([&OWNER[..16], "7", ""].into_iter().filter(|_| has_lines && stands));
            let answer = match node.server.run(&args) {
                Value::Int(_) => {
                    by_hint += 1;
                    (1, hint.parse().ok())
                }
                Value::Array(told) => match &told[..] {
                    [Value::Int(1), _, Value::Int(counter), ..] => (1, Some(*counter)),
                    [Value::Int(code), ..] => (*code, None),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            let stands = NAMES.map(|name| {
                let left: i64 = from_redis_value(node.server.run(&["PTTL", name])).unwrap();
                ((left + 1_000) / 2_000, node.server.run(&["TYPE", name]))
            });
            let waits = lines_of(&node);
            (answer, entries(&node), stands, waits, node.marked("high_water") > 1_000)
        });
        assert_eq!(fast, slow, "step {step}: {state:?}, hint {hint}, count {count}");
        granted += usize::from(fast.0.0 == 1);
    }
    assert!(granted > 100 && by_hint > 50, "{granted} {by_hint}");
}

fn lines_of(node: &Node) -> [Value; 3] {
    NAMES.map(|name| node.server.run(&["TYPE", &format!("quorlock:line:{name}")]))
}

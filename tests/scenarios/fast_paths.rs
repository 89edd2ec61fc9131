//! Goal: a script that ends early, because the resource is free and nobody waits, does what the rest of it would have done,
//! whatever the keys hold.
//!
//! Method: each script beside a copy of it whose early end is taken out, from the same state of a real server. Those of
//! readers and of sets stand in `readers.rs` and `together.rs`.

use quorlock_harness::redis::{Value, from_redis_value};

use super::{
    MARKER,
    scripts::{ETAG, Node, without_early_end},
    texts::{ACQUIRE, ACQUIRE_ANY},
};

const OWN: [&str; 3] = [MARKER, "quorlock:counters", "quorlock:older"];
const OWNER: &str = "11111111111111111111111111111111";
const OTHER: &str = "22222222222222222222222222222222";
const NAMES: [&str; 3] = ["r", "s", "t"];
const HIGH_WATER: u64 = 1_000;
const NEXT_FLOOR: u64 = 50;

/// A script, how many of the names it asks for, and their line.
struct Case {
    script: &'static str,
    names: &'static [&'static str],
    line: &'static str,
}

const LINES: [&str; 3] = ["quorlock:line:r", "quorlock:line:s", "quorlock:line:t"];

impl Case {
    fn run(&self, node: &Node, script: &str, (hint, latest, count): (u64, u64, &str)) -> Value {
        let head = format!("{ETAG} {:016} {NEXT_FLOOR:016}", node.marked("high_water"));
        let keys = [&OWN, self.names, &[self.line]].concat();
        let (number, size) = (keys.len().to_string(), self.names.len().to_string());
        let (hint, latest) = (format!("{hint:016}"), latest.to_string());
        let mut args = vec!["EVAL", script, &number];
        args.extend(keys);
        args.extend([&*head, OWNER, "10000", &hint, &latest, count]);
        if self.names.len() > 1 {
            args.push(&size);
        }
        args.push("note");
        node.server.run(&args)
    }

    /// Which code, which counter and which slot, and the state of the keys afterwards.
    fn effect(
        &self,
        node: &Node,
        script: &str,
        asked: (u64, u64, &str),
    ) -> (Vec<Value>, Vec<Value>) {
        let answer = match self.run(node, script, asked) {
            // As it was asked for: the hint, and of several slots the first.
            Value::Int(_) => vec![1, i64::try_from(asked.0).unwrap(), 1],
            Value::Array(told) => {
                let number = |at: usize| match told.get(at) {
                    Some(Value::Int(number)) => *number,
                    _ => 1,
                };
                // What is told of a key that is in the way changes with the time.
                let is_granted = number(0) == 1;
                if is_granted { vec![1, number(2), number(5)] } else { vec![number(0)] }
            }
            other => panic!("{other:?}"),
        };
        let of = |args: &[&str]| node.server.run(args);
        let mut left = Vec::new();
        for name in NAMES {
            let lives: i64 = from_redis_value(of(&["PTTL", name])).unwrap();
            left.push(Value::Int(if lives > 0 { 1 + i64::from(lives > 20_000) } else { lives }));
            left.push(of(&["GET", name]));
            left.push(of(&["HGET", OWN[1], name]));
        }
        left.extend(LINES.map(|line| of(&["EXISTS", line])));
        left.push(Value::Int(i64::from(node.marked("high_water") > HIGH_WATER)));
        (answer.into_iter().map(Value::Int).collect(), left)
    }
}

/// Every counter beside every key and line, for every hint.
fn all_alike(case: &Case) {
    let rest = without_early_end(case.script);
    let node = Node::admitted();
    let entry = |counter: &str| Some(format!("{counter}{OTHER}"));
    let counters = [
        None,
        entry("0000000000000100"),
        entry("0000000000000499"),
        entry("0000000000000500"),
        entry("0000000000002000"),
        entry("no number at all"),
        Some("12".to_owned()),
    ];
    let keys: [&[&str]; 5] = [&[], &["r"], &["s"], &["r", "s"], &["r", "s", "t"]];
    let lines: [&[&str]; 3] =
        [&[], &["ZADD", LINES[0], "1", "2222222222222222"], &["SET", LINES[0], "of another type"]];
    let soon = node.now_us() + 3_600_000_000;
    let asked = [
        (500, 0, "1"),
        (500, soon, "1"),
        (500, 1, "1"),
        (500, 0, "-1"),
        (20, 0, "-1"),
        (5_000, 0, "-1"),
    ];
    let (mut granted, mut seen) = (0, 0);
    for (first, second) in counters.iter().flat_map(|a| counters.iter().map(move |b| (a, b))) {
        // Two entries, in one generation or in both.
        for (keys, line, older) in keys
            .iter()
            .flat_map(|keys| lines.iter().map(move |line| (keys, line)))
            .flat_map(|(keys, line)| [false, true].map(|older| (keys, line, older)))
        {
            let asked = asked[seen % asked.len()];
            let [fast, slow] = [case.script, &*rest].map(|script| {
                node.mark(&[
                    ("high_water", &HIGH_WATER.to_string()),
                    ("floor", "40"),
                    ("next_floor", &NEXT_FLOOR.to_string()),
                ]);
                node.server.run(&[&["DEL"][..], &NAMES, &LINES].concat());
                OWN[1..].iter().for_each(|hash| {
                    node.server.run(&[&["HDEL", hash][..], &NAMES].concat());
                });
                let second_hash = if older { OWN[2] } else { OWN[1] };
                for (hash, name, entry) in [(OWN[1], "r", first), (second_hash, "s", second)] {
                    if let Some(entry) = entry {
                        node.server.run(&["HSET", hash, name, entry]);
                    }
                }
                keys.iter().for_each(|key| node.server.set(key, OTHER, Some(100_000)));
                if !line.is_empty() {
                    node.server.run(line);
                }
                case.effect(&node, script, asked)
            });
            assert_eq!(fast, slow, "{first:?} {second:?} {keys:?} {line:?} {older} {asked:?}");
            seen += 1;
            granted += usize::from(fast.0[0] == Value::Int(1));
        }
    }
    assert!(granted > 200, "{granted} of {seen}");
}

#[test]
fn the_fast_path_of_an_acquire_does_what_the_rest_does() {
    all_alike(&Case { script: ACQUIRE, names: &NAMES[..1], line: LINES[0] });
}

#[test]
fn the_fast_path_of_a_semaphore_does_what_the_rest_does() {
    all_alike(&Case { script: ACQUIRE_ANY, names: &NAMES, line: LINES[0] });
}

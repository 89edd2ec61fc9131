//! Goal: at the very moment at which a time is up a script does what its text says, to the millisecond and to the
//! microsecond.
//!
//! Method: the scripts, run by hand on a real server whose clock stands still until the test moves it. A key whose time is up
//! in this millisecond stands until the next one.

use quorlock_harness::{
    Server, WallClock,
    redis::{self, Value, from_redis_value},
};

use super::{
    MARKER,
    scripts::{ETAG, Node, RESOURCE},
    texts::{ACQUIRE, ACQUIRE_ANY, ACQUIRE_READ, ACQUIRE_SET, RELEASE_READ},
};

/// In us since 1970.
const NOW: u64 = 4_102_444_800_000_000;
const MINUTE: u64 = 60_000_000;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const C: &str = "cccccccccccccccccccccccccccccccc";

/// A node whose high-water mark is two minutes ahead of its clock, which stands for as long as what is returned beside it.
pub(crate) fn with_standing_clock() -> (Node, WallClock) {
    let clock = WallClock::standing_at(NOW.cast_signed());
    let node = Node::admitted_on(clock.give_to(Server::builder()).start());
    node.mark(&[("high_water", &(NOW + 2 * MINUTE).to_string())]);
    (node, clock)
}

/// What a script is asked for by A, and of what.
#[derive(Clone, Copy)]
struct Ask<'a> {
    script: &'a str,
    keys: &'a [&'a str],
    hint: u64,
    latest: u64,
    /// The further arguments: the count, and those of this script alone.
    more: &'a [&'a str],
}

const ASKS: Ask<'_> =
    Ask { script: ACQUIRE, keys: &[RESOURCE], hint: NOW, latest: 0, more: &["1"] };

impl Ask<'_> {
    fn of(self, node: &Node) -> Value {
        let head =
            format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
        let (hint, latest) = (format!("{:016}", self.hint), self.latest.to_string());
        let size = (3 + self.keys.len()).to_string();
        let own = ["EVAL", self.script, &size, MARKER, "quorlock:counters", "quorlock:older"];
        let args = [&*head, A, "10000", &hint, &latest];
        node.server.run(&[&own[..], self.keys, &args, self.more].concat())
    }

    /// The first number, and all that is told. A grant may be told by the time alone.
    #[track_caller]
    fn answer(self, node: &Node) -> (i64, Vec<Value>) {
        match self.of(node) {
            Value::Int(_) => (1, Vec::new()),
            Value::Array(told) => match told[0] {
                Value::Int(code) => (code, told),
                _ => panic!("{told:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_command_is_late_from_the_microsecond_on_that_is_behind_its_last_one() {
    for (script, keys, more) in [
        (ACQUIRE, &[RESOURCE][..], &["1"][..]),
        (ACQUIRE_ANY, &["s/0", "s/1"], &["1", "2", ""]),
        (ACQUIRE_SET, &["r", "s"], &["1", "2", ""]),
        (ACQUIRE_READ, &[RESOURCE, "quorlock:readers:r"], &["1"]),
    ] {
        for (latest, code) in [(NOW - 1, -3), (NOW, 1), (NOW + 1, 1)] {
            let (node, _clock) = with_standing_clock();
            let ask = Ask { script, keys, latest, more, ..ASKS };
            assert_eq!(ask.answer(&node).0, code, "{keys:?}, {latest}");
        }
    }
}

/// Where it is, nothing but the time is answered.
#[test]
fn a_hint_is_taken_as_it_is_up_to_the_microsecond_that_is_a_minute_ahead() {
    for (keys, script, more) in [
        (&[RESOURCE][..], ACQUIRE, &["1"][..]),
        (&["s/0", "s/1"], ACQUIRE_ANY, &["1", "2", ""]),
        (&["r", "s"], ACQUIRE_SET, &["1", "2", ""]),
        (&[RESOURCE, "quorlock:readers:r"], ACQUIRE_READ, &["1"]),
    ] {
        for (ahead, as_it_is) in [(MINUTE - 1, true), (MINUTE, true), (MINUTE + 1, false)] {
            let (node, _clock) = with_standing_clock();
            let ask = Ask { script, keys, hint: NOW + ahead, more, ..ASKS };
            let answer = ask.of(&node);
            assert_eq!(answer == Value::Int(NOW.cast_signed()), as_it_is, "{keys:?}, {ahead}");
            let entry = node.server.run(&["HGET", "quorlock:counters", keys[0]]);
            let counter = NOW + ahead.min(MINUTE);
            assert_eq!(entry, Value::BulkString(format!("{counter:016}{A}").into()), "{keys:?}");
        }
    }
}

#[test]
fn of_the_slots_the_one_whose_time_is_up_now_is_told() {
    let (node, clock) = with_standing_clock();
    for (slot, holder, ms) in [("s/0", B, 500), ("s/1", C, 5)] {
        node.server.set(slot, holder, Some(ms));
    }
    clock.set(NOW.cast_signed() + 5_000);
    let ask = Ask { script: ACQUIRE_ANY, keys: &["s/0", "s/1"], more: &["-1", "2", ""], ..ASKS };
    let (code, told) = ask.answer(&node);
    assert_eq!(code, 0);
    assert_eq!(told[2..], [Value::Int(0), Value::BulkString(C.into()), Value::Int(0)]);
}

/// The other one ends now, and yet the line of the first says that it is in the way there.
#[test]
fn of_several_resources_the_one_that_is_held_on_is_told_and_not_the_one_whose_time_is_up_now() {
    let (node, clock) = with_standing_clock();
    for (name, holder, ms) in [("r", B, 500), ("s", C, 5)] {
        node.server.set(name, holder, Some(ms));
    }
    clock.set(NOW.cast_signed() + 5_000);
    let keys = ["r", "s", "quorlock:line:r", "quorlock:line:s"];
    let more = ["-1", "2", "", &A[..16], "1", ""];
    let (code, told) = Ask { script: ACQUIRE_SET, keys: &keys, more: &more, ..ASKS }.answer(&node);
    assert_eq!(code, 0);
    assert_eq!(told[2..4], [Value::Int(495), Value::BulkString(B.into())]);
    assert_eq!(told[4], Value::Int(1), "which of them");
    let stuck = |line: &str| {
        let value = node.server.get(format!("quorlock:stuck:{}{line}", &A[..16]));
        value.map(|value| String::from_utf8_lossy(&value).into_owned())
    };
    assert_eq!(["r", "s"].map(stuck), [Some("1 0 s".to_owned()), Some("1 0 r".to_owned())]);
}

#[test]
fn the_key_of_readers_ends_with_the_last_entry_behind_a_release() {
    let (keys, ms) = ([RESOURCE, "quorlock:readers:r"], NOW / 1_000);
    for (last, left, lives) in [
        (10_000, 60_000, 10_000),
        (10_000, 10_001, 10_000),
        (10_000, 10_000, 10_000),
        (10_000, 9_000, 9_000),
        // It ends in this millisecond, and is not over.
        (0, 60_000, 1),
    ] {
        let (node, _clock) = with_standing_clock();
        node.server.set(RESOURCE, "shared by readers, see quorlock.", Some(left));
        for (owner, ttl) in [(A, 20_000), (B, last)] {
            node.server.run(&["ZADD", keys[1], &(ms + ttl).to_string(), owner]);
        }
        let release = [&["EVAL", RELEASE_READ, "2"], &keys[..], &[A]].concat();
        assert_eq!(node.server.run(&release), Value::Int(1));
        assert_eq!(
            node.server.pttl(RESOURCE),
            lives,
            "it had {left} ms, and the last entry {last}"
        );
    }
}

/// Below that life of the line a poll was missed. B is not connected: a client that wakes it makes the node forget it.
#[test]
fn who_comes_anew_wakes_those_who_wait_once_their_line_lives_for_less_than_it_does_after_a_poll() {
    let line = "quorlock:line:r";
    for (keys, script, more) in [
        (&[RESOURCE, line][..], ACQUIRE, &["-1", "", &C[..16], "9", ""][..]),
        (&["s/0", "s/1", line], ACQUIRE_ANY, &["-1", "2", "", &C[..16], "9", ""]),
        (&[RESOURCE, "quorlock:readers:r", line], ACQUIRE_READ, &["-1", "", &C[..16], "9", ""]),
        (&["r", "s", line, "quorlock:line:s"], ACQUIRE_SET, &["-1", "2", "", &C[..16], "9", ""]),
    ] {
        for (left, code) in [(2_401, 0), (2_400, 0), (2_399, 1)] {
            let (node, _clock) = with_standing_clock();
            node.server.run(&["ZADD", line, "1", &B[..16]]);
            node.server.run(&["PEXPIRE", line, &left.to_string()]);
            let ask = Ask { script, keys, more, ..ASKS };
            assert_eq!(ask.answer(&node).0, code, "{keys:?}, {left} ms");
            let waiting: Vec<String> =
                from_redis_value(node.server.run(&["ZRANGE", line, "0", "-1"])).unwrap();
            assert_eq!(waiting.contains(&B[..16].to_owned()), code == 0, "{keys:?}, {left} ms");
        }
    }
}

/// So not each client that comes writes it.
#[test]
fn a_line_is_let_live_for_longer_where_it_has_lost_more_than_a_tenth_of_a_second() {
    let (line, held) = ("quorlock:line:r", "r");
    for (left, lives) in [(4_000, 4_000), (3_900, 3_900), (3_899, 4_000), (1, 4_000)] {
        let (node, _clock) = with_standing_clock();
        node.server.set(held, B, Some(60_000));
        node.server.run(&["ZADD", line, "1", &B[..16]]);
        node.server.run(&["PEXPIRE", line, &left.to_string()]);
        let more = ["-1", "", &C[..16], "9", ""];
        let (code, told) = Ask { keys: &[held, line], more: &more, ..ASKS }.answer(&node);
        assert_eq!((code, &told[6]), (0, &Value::Int(1)), "{left}");
        assert_eq!(node.server.pttl(line), lives, "{left}");
    }
}

/// Entries whose time is up go with the last one that is released.
#[test]
fn a_key_of_readers_goes_with_the_last_whose_time_is_not_up() {
    let (keys, ms) = ([RESOURCE, "quorlock:readers:r"], NOW / 1_000);
    for (ended, is_left) in [(ms - 1, false), (ms, true)] {
        let (node, _clock) = with_standing_clock();
        node.server.set(RESOURCE, "shared by readers, see quorlock.", Some(60_000));
        for (owner, ends) in [(A, ms + 10_000), (B, ended)] {
            node.server.run(&["ZADD", keys[1], &ends.to_string(), owner]);
        }
        let release = [&["EVAL", RELEASE_READ, "2"], &keys[..], &[A]].concat();
        assert_eq!(node.server.run(&release), Value::Int(1));
        let stand = keys.map(|key| node.server.run(&["EXISTS", key]) == Value::Int(1));
        assert_eq!(stand, [is_left; 2], "it ends at {ended}, and is {ms}");
    }
}

/// The first is not connected, and is forgotten. The next is told, and is the only one that waits before it.
#[test]
fn who_wakes_the_first_hears_how_many_wait_before_it_also_of_one_resource() {
    let line = "quorlock:line:r";
    let (node, _clock) = with_standing_clock();
    let mut hears = redis::Client::open(node.server.url()).unwrap().get_connection().unwrap();
    let mut hears = hears.as_pubsub();
    hears.subscribe(format!("quorlock:wake:{}", &B[..16])).unwrap();
    node.server.run(&["ZADD", line, "1", &A[..16], "2", &B[..16], "3", &C[..16]]);
    let more = ["-1", "", &C[..16], "3", ""];
    let (code, told) = Ask { keys: &[RESOURCE, line], more: &more, ..ASKS }.answer(&node);
    let (first, before) = (Value::BulkString(B[..16].into()), Value::Int(1));
    assert_eq!((code, &told[5..7]), (0, &[first, before][..]));
}

/// In seconds: an hour, as `join` asks for. One that begins in the future is from before the clock went back.
#[test]
fn a_generation_of_counters_ends_in_the_second_behind_its_retention() {
    for (age, has_ended) in [(-1, true), (0, false), (3_599, false), (3_600, false), (3_601, true)]
    {
        let (node, _clock) = with_standing_clock();
        node.mark(&[("rotated_at", &(NOW.cast_signed() / 1_000_000 - age).to_string())]);
        node.set_counter(7);
        assert!(node.join("0").ready);
        let counters = if has_ended { [0, 1] } else { [1, 0] };
        assert_eq!(node.generations(), counters, "{age} s");
    }
}

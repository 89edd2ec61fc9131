//! Goal: what others have put into a line, or in its place, hides no waiter, fails no command and makes none slow, and
//! what they say of a reader's place counts for nothing.
//!
//! Method: the script of one resource is run by hand, on lines that are written by hand, where one must not end by a clock that
//! stands.

use std::time::{Duration, Instant};

use quorlock_harness::redis::from_redis_value;

use super::{A, Answer, B, C, LINE, Says, acquire, release};
use crate::{
    scripts::{Node, RESOURCE},
    standing::with_standing_clock,
};

#[test]
fn who_stands_behind_three_that_are_no_clients_is_seen() {
    for places in 0..6 {
        let (node, _clock) = with_standing_clock();
        for place in 0..places {
            let place = place.to_string();
            node.server.run(&["ZADD", LINE, &place, &format!("no client {place}")]);
        }
        node.server.run(&["ZADD", LINE, "100", A]);
        node.server.run(&["PEXPIRE", LINE, "4000"]);
        for says in [Says::default(), Says::named(C), Says::stands(C, "200")] {
            assert_eq!(acquire(&node, C, says), Answer::Behind(A.to_owned()), "{places} {says:?}");
        }
    }
}

#[test]
fn a_name_has_sixteen_digits_and_each_of_them_counts() {
    for name in ["g000000000000000", "000000000000000g", "~g000000000000000", "00000000000000000"] {
        let (node, _clock) = with_standing_clock();
        node.server.run(&["ZADD", LINE, "1", name]);
        node.server.run(&["PEXPIRE", LINE, "4000"]);
        for says in [Says::default(), Says::named(C)] {
            let answer = acquire(&node, C, says);
            assert!(matches!(answer, Answer::Granted { .. }), "{name}: {answer:?}");
            release(&node, C);
            node.server.run(&["PEXPIRE", LINE, "4000"]);
        }
    }
}

/// A client may say that its writer's place is stuck. No client says that of a waiter that wants to read.
#[test]
fn one_who_waits_to_read_keeps_out_who_asks_once_whatever_is_said_of_its_place() {
    for (name, answer) in [
        (B.to_owned(), Answer::Granted { waiting: Some(true) }),
        (format!("~{B}"), Answer::Behind(B.to_owned())),
    ] {
        let (node, _clock) = with_standing_clock();
        node.server.run(&["ZADD", LINE, "200", &name]);
        node.server.run(&["PEXPIRE", LINE, "4000"]);
        node.server.set(format!("quorlock:stuck:{name}r"), "200 0 s", None);
        node.server.set("s", "held", None);
        assert_eq!(acquire(&node, C, Says::default()), answer, "{name}");
    }
}

#[test]
fn what_others_have_put_in_the_place_of_a_line_is_as_if_it_were_not_there() {
    let node = Node::admitted();
    let long = "x".repeat(100_000);
    let put: [&[&str]; 9] = [
        &["SET", LINE, "text"],
        &["LPUSH", LINE, "a", "b"],
        &["HSET", LINE, "a", "b"],
        &["SADD", LINE, A],
        &["XADD", LINE, "*", "a", "b"],
        &["ZADD", LINE, "1", "no client", "2", "AAAAAAAAAAAAAAAA", "3", "\0\r\n", "4", ""],
        &["ZADD", LINE, "-inf", A, "inf", B, "1e300", C, "-1e300", "dddddddddddddddd"],
        &["ZADD", LINE, "0.5", &long],
        &["EVAL", "for i = 1, 10001 do redis.call('ZADD', KEYS[1], i, i) end", "1", LINE],
    ];
    for put in put {
        node.server.run(put);
        let dump = node.server.run(&["DUMP", LINE]);
        for says in [Says::default(), Says::named(A), Says { several: true, ..Says::named(A) }] {
            let answer = acquire(&node, A, says);
            assert!(matches!(answer, Answer::Granted { .. }), "{put:?}: {answer:?}");
            let other = acquire(&node, B, Says::default());
            assert!(matches!(other, Answer::Held { before: -1, .. }), "{put:?}: {other:?}");
            release(&node, A);
        }
        let answer = acquire(&node, A, Says::stands(A, "100"));
        assert!(matches!(answer, Answer::Granted { .. }), "{put:?}: {answer:?}");
        let answer = acquire(&node, B, Says::stands(B, "200"));
        assert!(
            matches!(answer, Answer::Plain | Answer::Held { before: 0.., .. }),
            "{put:?}: {answer:?}"
        );
        release(&node, A);
        if answer == Answer::Plain {
            assert_eq!(node.server.run(&["DUMP", LINE]), dump, "it is left as it was");
        }
        node.server.del(LINE);
        node.server.del(RESOURCE);
    }
}

/// A step for each member would take a hundred times as long as the same command without the set, which is the measure.
#[test]
fn a_huge_set_in_the_place_of_a_line_costs_no_time() {
    let node = Node::admitted();
    let fastest = |second: Answer| {
        let times = (0..40).map(|_| {
            let start = Instant::now();
            assert!(matches!(acquire(&node, A, Says::stands(A, "1")), Answer::Granted { .. }));
            assert_eq!(acquire(&node, B, Says::stands(B, "2")), second);
            release(&node, A);
            let took = start.elapsed();
            if second != Answer::Plain {
                node.server.del(LINE);
            }
            took
        });
        times.min().unwrap()
    };
    let alone = fastest(Answer::Held { before: 0, foreign: false });
    // By parts, each of them done in time by a busy machine, too.
    let fill = "for i = ARGV[1], ARGV[1] + 9999 do redis.call('ZADD', KEYS[1], i, i) end";
    for part in 0..30 {
        node.server.run(&["EVAL", fill, "1", LINE, &(part * 10_000).to_string()]);
    }
    let beside = fastest(Answer::Plain);
    println!("{alone:?}, and beside a huge set {beside:?}");
    assert!(beside < 5 * alone + Duration::from_millis(2), "{beside:?}, {alone:?}");
    let ttl: i64 = from_redis_value(node.server.run(&["PTTL", LINE])).unwrap();
    assert_eq!(ttl, -1, "to free so many would hold the server up");
}

//! Goal: a lease that keeps others out for a while does so though its process ends right after, in whatever way.
//!
//! Method: a second process per case acquires on real servers and ends, and this one tries until it gets the resource. The
//! time is counted from before the acquire, so that it can only be too short for the code under test.

use std::{
    io::{BufRead, BufReader},
    time::{Instant, SystemTime},
};

use quorlock_harness::Companion;

use super::*;

const ROLE: &str = "QUORLOCK_TEST_HELD";
const NAME: &str = "held::others_are_kept_out_whatever_becomes_of_the_process";
const TTL: Duration = Duration::from_secs(6);
const HOLD: Duration = Duration::from_secs(2);

/// How the process ends, and whether it has told the nodes by then.
const ENDS: [(&str, bool); 5] = [
    ("release", true),
    ("close", true),
    ("shutdown", true),
    ("drop", false), // on its way, or not even that
    ("exit", false),
];

fn now_us() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()
}

/// What the second process does, by `end mode urls`.
fn work(role: &str) {
    let words: Vec<&str> = role.split(' ').collect();
    let (end, is_classic, urls) = (words[0], words[1] == "classic", &words[2..]);
    let builder = Redlock::builder().nodes(urls.iter().copied()).connect_timeout(10 * SECOND);
    let builder = builder.ttl(TTL).max_ttl(TTL);
    let redlock = ready(if is_classic { builder.classic() } else { builder });
    let since = now_us();
    let request = redlock.acquire(end).wait(SOON).hold_at_least(HOLD);
    let lease = request.blocking().unwrap();
    println!("\nsince {since}");
    match end {
        "release" => lease.blocking_release().unwrap(),
        "close" => {
            drop(lease);
            assert_eq!(redlock.blocking_close().unwrap().held, 0);
        }
        "shutdown" => assert_eq!(redlock.blocking_shutdown().unwrap().released, 1),
        "drop" => drop(lease),
        _ => {}
    }
    println!("\ntold");
    std::process::exit(0);
}

#[test]
fn others_are_kept_out_whatever_becomes_of_the_process() {
    if let Ok(role) = std::env::var(ROLE) {
        return work(&role);
    }
    for mode in ["fenced", "classic"] {
        let cluster = admitted(3, TTL);
        let builder = settings(&cluster, TTL);
        let redlock = ready(if mode == "classic" { builder.classic() } else { builder });
        std::thread::scope(|scope| {
            for (end, is_told) in ENDS {
                let (redlock, urls) = (redlock.clone(), cluster.urls().join(" "));
                scope.spawn(move || {
                    let role = format!("{end} {mode} {urls}");
                    let mut process = Companion::start(NAME, ROLE, &role);
                    let mut lines = BufReader::new(process.output()).lines();
                    let line = lines.find_map(|line| {
                        line.unwrap().strip_prefix("since ").map(ToOwned::to_owned)
                    });
                    let since: u128 = line.expect("a grant").parse().unwrap();
                    let before = now_us() - since;
                    let seen = Instant::now();
                    let after =
                        || Duration::from_micros(u64::try_from(before).unwrap()) + seen.elapsed();
                    if is_told {
                        lines
                            .find(|line| line.as_ref().is_ok_and(|line| line == "told"))
                            .unwrap()
                            .unwrap();
                    }
                    let lease = loop {
                        match redlock.try_acquire(end).blocking() {
                            Ok(lease) => break lease,
                            Err(error) => {
                                assert!(!error.is_contended() || after() < SOON, "{error}")
                            }
                        }
                        std::thread::sleep(10 * MS);
                    };
                    let free = after();
                    println!("{mode}, {end}: free after {free:?}");
                    assert!(free >= HOLD, "{mode}, {end}: free after {free:?}");
                    // Sooner than a key expires whose process told nobody.
                    assert!(!is_told || free < TTL, "{mode}, {end}: free after {free:?}");
                    drop(lease);
                });
            }
        });
    }
}

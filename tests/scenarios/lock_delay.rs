//! Goal: behind a loss nobody gets the resource for its lock-delay, clients of other libraries among them; behind a release
//! they get it at once.
//!
//! Method: a second process per case acquires on real servers and loses or releases its lease, and is stopped or killed. This
//! one tries all the while as any client of Redlock does: `SET NX PX` on each server, and a majority wins. Times are counted
//! so that they can only be too short for the code under test.

use std::{
    io::{BufRead, BufReader, Lines},
    panic::{AssertUnwindSafe, catch_unwind},
    process::ChildStdout,
    time::Instant,
};

use quorlock_harness::{Companion, redis};

use super::*;

const ROLE: &str = "QUORLOCK_TEST_LOCK_DELAY";
const NAME: &str = "lock_delay::others_are_kept_out_behind_a_loss_and_let_in_behind_a_release";
const TTL: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_secs(4);
/// The drift of ttl and delay.
const DRIFT: Duration = Duration::from_millis(52);

/// How the lease ends, and how long at least it keeps others out after that was told.
const ENDS: [(&str, Duration); 7] = [
    ("lost", DELAY),
    ("run", DELAY),
    ("panic", DELAY),
    // Told before, since it is lost while it is stopped: a third of its validity may have passed.
    ("stopped", Duration::from_millis(4_600)),
    ("killed", Duration::from_millis(4_600)),
    ("released", Duration::ZERO),
    ("released lost", Duration::ZERO),
];

/// What the second process does, by `mode end,url,url,url`.
fn work(role: &str) {
    let (mode, rest) = role.split_once(' ').unwrap();
    let mut words = rest.split(',');
    let end = words.next().unwrap();
    let builder = Redlock::builder().nodes(words).connect_timeout(10 * SECOND);
    let builder = builder.ttl(TTL).max_ttl(TTL + DELAY).lock_delay(DELAY);
    let redlock = ready(if mode == "classic" { builder.classic() } else { builder });
    let request = redlock.acquire(end).wait(SOON);
    let loses = matches!(end, "lost" | "run" | "released lost");
    let request = if loses { request.without_renewal() } else { request };
    if end == "run" {
        let lost = block_on(request.run(async |lease| {
            println!("\nheld");
            lease.lost().await;
            std::future::pending::<()>().await;
        }));
        assert!(lost.is_err());
        println!("\nended");
        wait_for_the_end();
        return;
    }
    let lease = request.blocking().unwrap();
    println!("\nheld");
    match end {
        "lost" => {
            assert!(lease.blocking_lost().unwrap().reason.is_loss());
            drop(lease);
        }
        "panic" => {
            let panicked = catch_unwind(AssertUnwindSafe(move || {
                let _lease = lease;
                panic!("the work");
            }));
            assert!(panicked.is_err());
        }
        "released" => lease.blocking_release().unwrap(),
        "released lost" => {
            lease.blocking_lost().unwrap();
            lease.blocking_release().unwrap();
        }
        // Stopped or killed from outside.
        _ => {
            println!("\nended");
            wait_for_the_end();
            assert!(lease.check().is_err(), "it stood still for longer than it lasts");
            drop(lease);
            redlock.blocking_close().unwrap();
            println!("\ndropped");
        }
    }
    println!("\nended");
    wait_for_the_end();
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn wait_for_the_end() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn told(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) {
    lines.find(|line| line.as_ref().is_ok_and(|line| line == word)).unwrap().unwrap();
}

/// A client of another library. It says whether it has got the resource, and gives it back.
fn gets(connections: &mut [redis::Connection], resource: &str) -> bool {
    let mut set = redis::cmd("SET");
    set.arg(resource).arg("foreign").arg("NX").arg("PX").arg(10_000);
    let granted: Vec<bool> = connections
        .iter_mut()
        .map(|connection| set.query::<Option<String>>(connection).unwrap().is_some())
        .collect();
    let count = granted.iter().filter(|granted| **granted).count();
    for (connection, _) in connections.iter_mut().zip(granted).filter(|(_, granted)| *granted) {
        redis::cmd("DEL").arg(resource).exec(connection).unwrap();
    }
    count * 2 > connections.len()
}

#[test]
fn others_are_kept_out_behind_a_loss_and_let_in_behind_a_release() {
    if let Ok(role) = std::env::var(ROLE) {
        return work(&role);
    }
    for mode in ["fenced", "classic"] {
        let cluster = admitted(3, TTL + DELAY);
        std::thread::scope(|scope| {
            for (end, least) in ENDS {
                let cluster = &cluster;
                scope.spawn(move || {
                    let mut others: Vec<_> = cluster.iter().map(Server::control).collect();
                    let role = format!("{mode} {end},{}", cluster.urls().join(","));
                    let mut process = Some(Companion::start(NAME, ROLE, &role));
                    let holder = process.as_mut().unwrap();
                    let mut lines = BufReader::new(holder.output()).lines();
                    told(&mut lines, "held");
                    // Read before the lease ends: it may be over before this thread hears of it.
                    let before = Instant::now();
                    told(&mut lines, "ended");
                    let since = if end == "panic" { before } else { Instant::now() };
                    match end {
                        "stopped" => holder.pause(),
                        "killed" => process.take().unwrap().kill(),
                        _ => {}
                    }
                    let mut resumed = end != "stopped";
                    while !gets(&mut others, end) {
                        std::thread::sleep(5 * MS);
                        if !resumed && since.elapsed() > TTL + TTL / 2 {
                            let holder = process.as_mut().unwrap();
                            holder.resume();
                            holder.say("");
                            told(&mut lines, "dropped");
                            resumed = true;
                        }
                        assert!(since.elapsed() < SOON, "{mode}, {end}");
                    }
                    let free = since.elapsed();
                    println!("{mode}, {end}: free after {free:?}");
                    // What was lost was told a little later than it was.
                    let told_late = if least == DELAY { 200 * MS } else { Duration::ZERO };
                    assert!(free + DRIFT + told_late >= least, "{mode}, {end}: {free:?}");
                    // A release leaves nothing for the delay.
                    assert!(!least.is_zero() || free < DELAY, "{mode}, {end}: free after {free:?}");
                });
            }
        });
    }
}

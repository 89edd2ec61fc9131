//! Tokens of leases that follow each other under one grant.

use std::{
    sync::{Barrier, Mutex},
    thread,
};

use quorlock::{Holder, Redlock};

use super::{super::patient, conform_in, try_it};

const THREADS: usize = 3;
const EACH: usize = 40;

/// How far the token of a lease is below the one that the node has for the grant.
fn below_the_end(redlock: &Redlock, token: u64) -> u64 {
    let holder = redlock.blocking_holder("r").unwrap();
    let Holder::Held(by) = holder else { panic!("{holder}") };
    by.token.expect("the node says so").get() - token
}

#[test]
fn a_grant_has_as_many_tokens_as_leases_may_follow_each_other_under_it() {
    conform_in(
        &patient(),
        |_, redlock, seen| {
            let alone = try_it(redlock, "r").unwrap();
            seen.push(below_the_end(redlock, alone.token().unwrap().get()).to_string());
            alone.blocking_release().unwrap();
            let told = Mutex::new(Vec::new());
            // They come while it is held, so that some of them wait for each other from the start.
            let (held, came) = (try_it(redlock, "r").unwrap(), Barrier::new(THREADS + 1));
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        came.wait();
                        for _ in 0..EACH {
                            let lease = redlock.acquire("r").blocking().unwrap();
                            let token = lease.token().unwrap().get();
                            told.lock().unwrap().push((token, below_the_end(redlock, token)));
                            lease.blocking_release().unwrap();
                        }
                    });
                }
                came.wait();
                thread::yield_now();
                held.blocking_release().unwrap();
            });
            let told = told.into_inner().unwrap();
            let rises = told.windows(2).all(|pair| pair[0].0 < pair[1].0);
            seen.push(format!("{} leases, tokens rise: {rises}", told.len()));
            let ends =
                |pair: &[(u64, u64)]| pair.iter().map(|(token, left)| token + left).collect();
            // What is left of a range is used in order, and the next begins above it.
            let ordered = told.windows(2).all(|pair| {
                let ends: Vec<u64> = ends(pair);
                ends[0] == ends[1] && pair[1].0 == pair[0].0 + 1 || ends[0] < pair[1].0
            });
            seen.push(format!("one range after the other: {ordered}"));
            let most = told.iter().map(|(_, left)| *left).max();
            seen.push(format!("the first of a range is below its last by {most:?}"));
        },
        &[
            "0",
            "120 leases, tokens rise: true",
            "one range after the other: true",
            "the first of a range is below its last by Some(63)",
        ],
    );
}

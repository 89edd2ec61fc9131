//! Goal: a lease that is held and renewed outlives the loss of any minority, and in the end of every node, and
//! tokens rise afterwards.
//!
//! Method: five nodes, one lease of half a second, and a thread that asks `check()` every few milliseconds while
//! nodes are killed and come back without their data.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use quorlock::{Lease, Redlock};
use quorlock_harness::{Cluster, eventually};

use super::{
    MS, SOON, admitted, all_ready, has_key, is_quarantined, quarantine, ready, settings, token,
};

const TTL: Duration = Duration::from_millis(1_500);
const MAX_TTL: Duration = Duration::from_secs(2);

/// Whether somebody else asks for the resource all the time.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Waiters {
    None,
    One,
}

/// Runs `during` while a lease is held, and checks the lease all the time.
fn held_throughout(n: usize, waiters: Waiters, during: impl FnOnce(&Cluster, &Redlock, &Lease)) {
    let cluster = admitted(n, MAX_TTL);
    let redlock = ready(settings(&cluster, MAX_TTL).ttl(TTL));
    let first = redlock.acquire("r").blocking().unwrap();
    let earlier = token(&first);
    first.blocking_release().unwrap();
    let lease = redlock.acquire("r").blocking().unwrap();
    let (over, checks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                lease.check().unwrap_or_else(|lost| panic!("{lost}"));
                checks.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(3 * MS);
            }
        });
        if waiters == Waiters::One {
            // Its rounds leave counters above the lease's token on whatever node lets it in.
            let waiter = ready(settings(&cluster, MAX_TTL).retry(MS, 4 * MS));
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let answer = waiter.acquire("r").wait(100 * MS).blocking();
                    assert!(over.load(Ordering::Relaxed) || answer.is_err(), "{answer:?}");
                }
            });
        }
        // The threads must end also when this one panics.
        let _over = Defer(&over);
        during(&cluster, &redlock, &lease);
        eventually("the key is back on every node", SOON, || {
            cluster.iter().all(|server| has_key(server, &lease))
        });
    });
    assert!(checks.load(Ordering::Relaxed) > 100, "it was looked at all the time");
    lease.check().unwrap();
    let held = token(&lease);
    assert!(held > earlier);
    lease.blocking_release().unwrap();
    let other = ready(settings(&cluster, MAX_TTL).ttl(TTL));
    let mut last = held;
    for client in [&redlock, &other, &redlock, &other] {
        let next = client.acquire("r").blocking().unwrap();
        assert!(token(&next) > last, "tokens rise across the losses");
        last = token(&next);
        next.blocking_release().unwrap();
    }
}

struct Defer<'a>(&'a AtomicBool);

impl Drop for Defer<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_held_lease_outlives_a_minority_that_comes_back_empty() {
    held_throughout(5, Waiters::None, |cluster, redlock, _| {
        for node in [1, 3] {
            cluster[node].restart_empty();
        }
        eventually("both are quarantined", SOON, || {
            is_quarantined(redlock, 1) && is_quarantined(redlock, 3)
        });
        all_ready(redlock);
    });
}

#[test]
fn a_held_lease_outlives_a_flushed_minority() {
    held_throughout(5, Waiters::None, |cluster, redlock, _| {
        for node in [0, 4] {
            cluster[node].flush();
        }
        // The next renewal tells.
        eventually("both are quarantined", SOON, || {
            is_quarantined(redlock, 0) && is_quarantined(redlock, 4)
        });
        all_ready(redlock);
    });
}

/// Every node restarts without its data, and gets the key back.
fn one_after_the_other(waiters: Waiters) {
    held_throughout(5, waiters, |cluster, redlock, lease| {
        for (node, server) in cluster.iter().enumerate() {
            let since = std::time::Instant::now();
            server.restart_empty();
            eventually("it is quarantined", SOON, || is_quarantined(redlock, node));
            all_ready(redlock);
            assert!(since.elapsed() >= quarantine(MAX_TTL), "not a moment too early");
            eventually("the key is restored", SOON, || has_key(server, lease));
        }
    });
}

#[test]
fn a_held_lease_outlives_the_empty_restart_of_every_node_one_after_the_other() {
    one_after_the_other(Waiters::None);
}

#[test]
fn a_held_lease_outlives_the_same_while_somebody_waits_for_it() {
    one_after_the_other(Waiters::One);
}

#[test]
fn a_held_lease_outlives_a_node_that_restarts_again_in_its_quarantine() {
    held_throughout(3, Waiters::None, |cluster, redlock, _| {
        let since = std::time::Instant::now();
        for _ in 0..3 {
            cluster[2].restart_empty();
            eventually("it is quarantined", SOON, || is_quarantined(redlock, 2));
        }
        all_ready(redlock);
        assert!(since.elapsed() >= quarantine(MAX_TTL), "not a moment too early");
    });
}

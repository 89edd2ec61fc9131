//! Goal: a server that has forgotten the scripts, or everything, is dealt with as on any other day.
//!
//! Method: `SCRIPT FLUSH` and restarts between an acquire and its release, on real servers.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Waker},
};

use quorlock::ReleaseError;
use quorlock_harness::{Cluster, eventually};

use super::{SECOND, SOON, all_ready, connect, no_key_within};

#[test]
fn a_release_works_on_servers_that_have_forgotten_the_script() {
    let cluster = Cluster::start(5);
    let redlock = connect(&cluster);
    // The first release loads the script, so that the second would find it.
    redlock.acquire("r").blocking().unwrap().blocking_release().unwrap();
    no_key_within(&cluster, SOON);
    let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    cluster.iter().for_each(|server| drop(server.run(&["SCRIPT", "FLUSH"])));
    let before: Vec<u64> = cluster.iter().map(|server| server.command_calls("eval")).collect();
    lease.blocking_release().unwrap();
    no_key_within(&cluster, SOON);
    for (server, before) in cluster.iter().zip(before) {
        assert_eq!(server.command_calls("eval"), before + 1, "sent in full once");
    }
    // And from now on by its digest again.
    redlock.acquire("r").blocking().unwrap().blocking_release().unwrap();
    no_key_within(&cluster, SOON);
}

/// An acquire that the server answers with NOSCRIPT is sent again in full, and must not overtake the release
/// that has been sent behind it meanwhile.
#[test]
fn an_acquire_dropped_on_servers_that_do_not_have_the_script_leaves_nothing() {
    let mut under_way = 0;
    for round in 0..20 {
        let cluster = Cluster::start(3);
        let redlock = connect(&cluster);
        for flushed in [false, true] {
            if flushed {
                cluster.iter().for_each(|server| drop(server.run(&["SCRIPT", "FLUSH"])));
            }
            let mut acquire = redlock.acquire("r").ttl(60 * SECOND).into_future();
            let polled = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
            // On a busy machine the answer may be there before the first poll has ended.
            under_way += usize::from(polled.is_pending());
            drop(polled);
            std::thread::sleep(std::time::Duration::from_micros(round * 20));
            drop(acquire);
            redlock.try_acquire("another").blocking().unwrap().blocking_release().unwrap();
            eventually("nothing is left", 3 * SECOND, || cluster.locks_left().is_empty());
        }
    }
    assert!(under_way >= 20, "{under_way} of 40");
}

#[test]
fn a_lease_outlives_the_restart_of_nodes_that_keep_their_keys() {
    let cluster = Cluster::start_with(5, |_, builder| builder.append_only(true));
    let (redlock, other) = (connect(&cluster), connect(&cluster));
    let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    cluster.iter().for_each(quorlock_harness::Server::restart);
    assert_eq!(cluster.locks_left().len(), 5, "the append-only file brings the keys back");
    eventually("the restarts have been noticed", SOON, || {
        redlock.try_acquire("noticed").blocking().is_ok()
            && other.try_acquire("noticed too").blocking().is_ok()
    });
    all_ready(&redlock);
    all_ready(&other);
    assert!(other.try_acquire("r").blocking().unwrap_err().is_contended());
    lease.blocking_release().unwrap();
    no_key_within(&cluster, SOON);
}

#[test]
fn the_release_after_a_minority_was_emptied_succeeds_and_after_a_majority_tells() {
    let cluster = Cluster::start(5);
    let redlock = connect(&cluster);
    for (emptied, ended) in [(2, false), (3, true)] {
        let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
        eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
        for server in &cluster.servers[..emptied] {
            server.restart_empty();
        }
        eventually("the restarts have been noticed", SOON, || {
            cluster.servers[..emptied].iter().all(|server| server.command_calls("info") >= 2)
        });
        all_ready(&redlock);
        match lease.blocking_release() {
            Ok(()) => assert!(!ended),
            Err(ReleaseError::AlreadyEnded { .. }) => assert!(ended),
            Err(other) => panic!("{other}"),
        }
        no_key_within(&cluster, SOON);
    }
}

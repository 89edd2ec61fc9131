//! Goal: a shutdown leaves nothing behind on the servers that live, whatever became of the others.
//!
//! Method: real servers, many leases, and servers that are killed or stopped before it.

use std::time::Instant;

use quorlock::{CloseError, LossReason};

use super::*;

const LEASES: usize = 200;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

fn fleet(ttl: Duration) -> (Cluster, Redlock, Vec<Lease>) {
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl).close_timeout(CLOSE_TIMEOUT));
    let lease = |number| redlock.acquire(format!("r{number}")).blocking().unwrap();
    let leases = (0..LEASES).map(lease).collect();
    (cluster, redlock, leases)
}

#[test]
fn a_dead_node_keeps_no_lease_from_being_released() {
    for stop in [Server::kill, Server::pause] {
        let (cluster, redlock, leases) = fleet(60 * SECOND);
        stop(&cluster[2]);
        let since = Instant::now();
        let done = redlock.blocking_shutdown().unwrap();
        let took = since.elapsed();
        println!("{LEASES} leases: {took:?}, {done:?}");
        assert_eq!((done.released, done.gone), (LEASES, 0));
        for lease in &leases {
            assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown);
        }
        for node in [0, 1] {
            assert_eq!(cluster[node].locks(), Vec::<Vec<u8>>::new());
        }
        // Another process need not wait for anything.
        let other = Redlock::builder().nodes(cluster.urls()).ttl(SECOND).max_ttl(60 * SECOND);
        let other = other.build().unwrap();
        eventually("another process has it", SOON, || other.try_acquire("r0").blocking().is_ok());
        if cluster[2].is_paused() {
            cluster[2].resume();
            eventually("what was left there is released", SOON, || cluster.locks_left().is_empty());
        }
    }
}

#[test]
fn leases_on_a_majority_that_is_dead_are_reported() {
    let (cluster, redlock, leases) = fleet(60 * SECOND);
    cluster[1].kill();
    cluster[2].kill();
    let error = redlock.blocking_shutdown().unwrap_err();
    let CloseError::Unreleased { released, unconfirmed, working, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((released, unconfirmed, working), (0, LEASES, 0));
    assert!(leases.iter().all(|lease| !lease.is_valid()));
    assert_eq!(cluster[0].locks(), Vec::<Vec<u8>>::new(), "what could be released is");
}

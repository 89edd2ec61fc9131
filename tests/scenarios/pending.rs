//! Goal: a node that goes on is soon rid of the releases that it has not confirmed, so that closing need not wait.
//!
//! Method: thousands of leases, one server that is stopped, and all of them released at once. How long that takes is
//! printed here, and asserted in virtual time (`tests/proof/cancellation/pending.rs`).

use std::time::Instant;

use quorlock::node::NodeState;

use super::{SECOND, SOON, admitted, eventually, ready, settings};

const MANY: usize = 4_000;

#[test]
fn thousands_of_leases_are_gone_soon_after_a_stopped_node_goes_on() {
    let ttl = 60 * SECOND;
    let cluster = admitted(3, ttl);
    let redlock = ready(settings(&cluster, ttl).close_timeout(60 * SECOND));
    let leases: Vec<_> = (0..MANY)
        .map(|number| {
            let request = redlock.acquire(format!("r{number}")).without_renewal();
            request.blocking().unwrap()
        })
        .collect();
    eventually("all have all keys", SOON, || cluster.keys_left().len() >= 3 * MANY);
    cluster[2].pause();
    drop(leases);
    eventually("the others have none", SOON, || cluster.locks_left().is_empty());
    eventually("its connection is given up, with every release on it", SOON, || {
        matches!(redlock.nodes()[2].state, NodeState::Down { .. })
    });
    cluster[2].resume();
    let since = Instant::now();
    redlock.blocking_close().unwrap();
    let took = since.elapsed();
    println!("{MANY} releases took {took:?}");
    assert!(cluster.locks_left().is_empty());
}

//! Goal: a lease gets its key back on a node that has lost it, also while others ask for the resource all the time.
//!
//! Method: virtual time, and a node on which another client has the key for a moment after each extension: an extension
//! wakes the waiters, so that their rounds come at the very moment at which a restore does.

use std::time::Duration;

use quorlock::node::NodeState;

use crate::fixture::{Fixture, MS, Manner, SECOND};

const TTL: Duration = SECOND;

#[test]
fn a_key_that_others_have_for_a_moment_behind_each_renewal_is_restored() {
    let world = Fixture::new(TTL);
    let lease = world.acquire("r");
    world.nodes[2].set(Manner::TakenWhenExtended(MS));
    world.nodes[2].delete("r");
    world.pass(TTL);
    let holder = world.nodes[2].value("r");
    assert_eq!(holder.as_deref(), Some(lease.owner().to_string().as_bytes()));
    lease.check().unwrap();
}

/// After a renewal that too few nodes have confirmed, another client may have the key by now.
#[test]
fn a_key_is_not_set_again_before_a_quorum_has_confirmed_the_lease() {
    let world = Fixture::new(TTL);
    let lease = world.acquire("r");
    world.nodes[0].delete("r");
    world.nodes[1].set(Manner::Refusing);
    world.pass(TTL / 2);
    assert!(world.nodes[0].extensions() > 0 && world.nodes[1].extensions() > 0);
    assert!(!world.nodes[0].has("r"), "one node alone has confirmed it");
    lease.check().unwrap();
    world.nodes[1].set(Manner::Sound);
    world.pass(TTL / 4);
    assert!(world.nodes[0].has("r"), "two of three have");
    lease.check().unwrap();
}

/// A key that another has for longer is not tried again before the next renewal, and nothing is restored after the end.
#[test]
fn a_restore_that_is_in_somebodys_way_is_tried_once_more_and_not_behind_the_end() {
    let world = Fixture::new(TTL);
    let lease = world.acquire("r");
    world.nodes[2].delete("r");
    world.nodes[2].hold("r");
    let before = world.nodes[2].sent();
    let renewals = world.nodes[2].extensions();
    world.pass(3 * TTL);
    let renewals = world.nodes[2].extensions() - renewals;
    // Only extensions: a key that another has is not restored at all.
    assert_eq!(world.nodes[2].sent() - before, renewals);
    world.nodes[2].set(Manner::TakenWhenExtended(50 * MS));
    world.nodes[2].delete("r");
    let before = (world.nodes[2].sent(), world.nodes[2].extensions());
    world.pass(TTL);
    let renewals = world.nodes[2].extensions() - before.1;
    assert_eq!(world.nodes[2].sent() - before.0, 3 * renewals, "an extension and two restores");
    drop(lease);
    world.pass(TTL);
    assert!(!world.nodes[2].has("r"));
}

/// Otherwise another client that asks there would get it, and with one more node the lease would be lost.
#[test]
fn a_key_is_restored_soon_after_a_node_votes_again_that_has_lost_it() {
    const TTL: Duration = Duration::from_secs(30);
    let world = Fixture::new(TTL);
    // Renewed at different times: every ten seconds.
    let leases = ["a", "b", "c"].map(|name| {
        world.pass(3 * SECOND);
        world.acquire(name)
    });
    world.nodes[0].restart();
    let is_ready = || world.redlock.nodes()[0].state == NodeState::Ready;
    while is_ready() {
        world.pass(100 * MS);
    }
    while !is_ready() {
        world.pass(100 * MS);
    }
    // A tenth of it behind the last renewal, and a twentieth later at most.
    world.pass(TTL / 10 + TTL / 20 + 100 * MS);
    assert!(["a", "b", "c"].iter().all(|name| world.nodes[0].has(name)));
    leases.iter().for_each(|lease| assert!(lease.check().is_ok()));
}

/// All nodes are looked at every ten seconds, and one that votes as it did is no reason to ask it.
#[test]
fn while_all_nodes_vote_a_lease_is_renewed_every_third_of_its_ttl_and_not_more_often() {
    const TTL: Duration = Duration::from_secs(60);
    let world = Fixture::new(TTL);
    let lease = world.acquire("r");
    world.pass(10 * TTL);
    lease.check().unwrap();
    let renewals = world.nodes[0].extensions();
    assert!((29..=31).contains(&renewals), "{renewals}");
}

//! Goal: a grant that lingers saves round trips and nothing else: no caller holds it meanwhile, and it goes back when
//! its time is up, before a close returns, and with the last handle.
//!
//! Method: virtual time, nodes that count what they are sent.

use std::{future::IntoFuture, time::Duration};

use quorlock::{Acquire, Lease, LossReason};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{got, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_secs(2);

fn world() -> Fixture {
    Fixture::with(TTL, |builder| builder.linger(LINGER))
}

fn keys(world: &Fixture) -> usize {
    world.nodes.iter().filter(|node| node.has("r")).count()
}

/// It is answered without a step of the engine.
#[track_caller]
fn at_once(request: Acquire) -> Lease {
    let mut future = request.into_future();
    got(&mut future).unwrap()
}

#[test]
fn a_resource_that_is_used_over_and_over_asks_the_nodes_once_for_64_leases() {
    let world = world();
    let mut lease = world.acquire("r");
    let (owner, sent) = (lease.owner(), world.sent());
    for _ in 1..64 {
        let token = lease.token().unwrap();
        let signal = lease.signal();
        let mut release = lease.release();
        assert!(poll(&mut release).is_ready());
        assert_eq!(signal.check().unwrap_err().reason, LossReason::Released);
        lease = at_once(world.redlock.acquire("r"));
        assert_eq!(lease.owner(), owner);
        assert!(lease.token().unwrap() > token);
        assert_eq!(signal.check().unwrap_err().reason, LossReason::Released);
    }
    assert_eq!(world.sent(), sent);
    drop(lease);
    let lease = world.acquire("r");
    assert_ne!(lease.owner(), owner);
    // Given back, and asked for.
    assert_eq!(world.sent() - sent, 2 * world.nodes.len());
}

#[test]
fn it_is_given_back_when_its_time_is_up_however_often_it_was_taken_before() {
    let world = world();
    drop(world.acquire("r"));
    for _ in 0..3 {
        world.pass(LINGER / 3);
        assert_eq!(keys(&world), 3);
        drop(at_once(world.redlock.try_acquire("r")));
    }
    let sent = world.sent();
    world.pass(LINGER - 10 * MS);
    assert_eq!(keys(&world), 3);
    world.pass(20 * MS);
    let renewed_and_released = 2 * world.nodes.len();
    assert_eq!((keys(&world), world.sent() - sent), (0, renewed_and_released));
    // A renewed one may linger for longer than a ttl.
    let request = || world.redlock.acquire("r").linger(3 * TTL);
    drop(world.request(request()));
    world.pass(2 * TTL);
    assert_eq!(keys(&world), 3);
    let lease = world.request(request());
    assert!(lease.validity() > TTL / 2);
    drop(lease);
    world.pass(3 * TTL + SECOND);
    assert_eq!(keys(&world), 0);
}

#[test]
fn whoever_does_not_ask_for_it_does_not_linger_and_takes_what_does() {
    let world = Fixture::new(TTL);
    drop(world.request(world.redlock.acquire("r").linger(LINGER)));
    let sent = world.sent();
    drop(at_once(world.redlock.acquire("r")));
    world.pass(10 * MS);
    assert_eq!((keys(&world), world.sent() - sent), (0, world.nodes.len()));
}

#[test]
fn while_it_is_not_known_whether_others_wait_they_wait_for_a_linger_at_most() {
    let world = world();
    let first = world.acquire("r");
    let owner = first.owner();
    drop(first);
    for _ in 0..3 {
        world.pass(LINGER / 4);
        drop(at_once(world.redlock.acquire("r")));
    }
    world.pass(LINGER / 4);
    let lease = world.acquire("r");
    assert_ne!(lease.owner(), owner, "it has been given back in between");
}

#[test]
fn who_comes_while_it_is_held_waits_in_line_and_gets_it_before_it_lingers() {
    let world = world();
    let held = world.acquire("r");
    let mut next = waiter(&world, SECOND);
    let sent = world.sent();
    drop(held);
    drop(got(&mut next).unwrap());
    drop(at_once(world.redlock.acquire("r")));
    assert_eq!(world.sent(), sent);
}

#[test]
fn what_will_not_do_is_given_back_and_a_round_is_begun() {
    let world = world();
    // Its keys live for longer than is asked for.
    drop(world.acquire("r"));
    let mut shorter = world.redlock.acquire("r").ttl(TTL / 2).into_future();
    assert!(poll(&mut shorter).is_pending());
    world.pass(MS);
    drop(got(&mut shorter).unwrap());
    world.pass(LINGER + SECOND);
    // It is lost while no caller has it.
    drop(world.request(world.redlock.acquire("r").linger(3 * TTL)));
    world.nodes.iter().for_each(|node| node.delete("r"));
    world.pass(TTL);
    let mut next = world.redlock.acquire("r").into_future();
    assert!(poll(&mut next).is_pending());
    world.pass(MS);
    got(&mut next).unwrap().check().unwrap();
}

#[test]
fn others_are_kept_out_by_hold_at_least_and_not_by_a_linger_on_top() {
    let world = world();
    let held = world.request(world.redlock.acquire("r").hold_at_least(500 * MS));
    drop(held);
    world.pass(10 * MS);
    // A grant that lingers in this process would keep out another process.
    let other = world.other_process(|builder| builder);
    let mut next = other.acquire("r").wait(10 * SECOND).into_future();
    assert!(poll(&mut next).is_pending());
    world.pass(400 * MS);
    assert!(poll(&mut next).is_pending());
    world.pass(200 * MS);
    drop(got(&mut next).unwrap());
}

#[test]
fn limits_of_a_lease_end_with_it() {
    let world = world();
    let request = || world.redlock.acquire("r").linger(3 * TTL);
    let held = world.request(request().max_hold(SECOND).heartbeat_within(SECOND));
    drop(held);
    world.pass(2 * TTL);
    assert_eq!(keys(&world), 3);
    let held = world.request(request().max_hold(5 * SECOND));
    world.pass(4 * SECOND);
    held.check().unwrap();
    world.pass(2 * TTL);
    assert_eq!(held.check().unwrap_err().reason, LossReason::MaxHold);
}

#[test]
fn a_close_or_a_shutdown_gives_it_back_before_it_returns_and_it_counts_as_held_by_nobody() {
    for shuts_down in [false, true] {
        let world = world();
        drop(world.acquire("r"));
        assert_eq!(keys(&world), 3);
        let redlock = world.redlock.clone();
        world.machine.sim.block_on(async move {
            if shuts_down {
                let done = redlock.shutdown().await.unwrap();
                assert_eq!((done.released, done.gone), (0, 0));
            } else {
                assert_eq!(redlock.close().await.unwrap().held, 0);
            }
        });
        assert_eq!(keys(&world), 0);
    }
}

#[test]
fn one_that_is_released_behind_a_close_does_not_linger() {
    let world = world();
    let held = world.acquire("r");
    let redlock = world.redlock.clone();
    assert_eq!(world.machine.sim.block_on(async move { redlock.close().await }).unwrap().held, 1);
    drop(held);
    world.pass(10 * MS);
    assert_eq!(keys(&world), 0);
}

#[test]
fn it_goes_back_with_the_last_handle() {
    let mut world = world();
    drop(world.acquire("r"));
    assert_eq!(keys(&world), 3);
    let other = Fixture::new(TTL);
    world.redlock = other.redlock.clone();
    world.pass(10 * MS);
    assert_eq!(keys(&world), 0);
}

#[test]
fn a_renewal_in_doubt_keeps_it_from_lingering_and_from_being_taken() {
    let world = Fixture::with(TTL, |builder| builder.linger(LINGER).node_timeout(50 * MS));
    let held = world.acquire("r");
    world.set_all(Manner::Refusing);
    world.pass(3_500 * MS);
    held.check().unwrap();
    drop(held);
    world.pass(10 * MS);
    assert_eq!(keys(&world), 0);
    world.set_all(Manner::Sound);
    drop(world.acquire("r"));
}

/// After that no node would say that another process wants it, and it would be in the way of all.
#[test]
fn it_lingers_for_no_longer_than_the_nodes_tell_of_those_who_come() {
    let world = Fixture::with(TTL, |builder| builder.linger(5 * TTL));
    world.keep_lines();
    drop(world.acquire("r"));
    world.pass(TTL - SECOND);
    assert_eq!(keys(&world), 3, "they tell of them for a ttl");
    world.pass(SECOND + 10 * MS);
    assert_eq!(keys(&world), 0);
}

#[test]
fn it_is_given_back_at_once_when_another_process_asks_where_the_nodes_tell() {
    let world = Fixture::with(TTL, |builder| builder.linger(5 * TTL));
    world.keep_lines();
    drop(world.acquire("r"));
    world.pass(SECOND);
    assert_eq!(keys(&world), 3);
    // Nobody else waits, so that it lingers for as long as it may.
    drop(at_once(world.redlock.acquire("r")));
    let other = world.other_process(|builder| builder.ttl(TTL).max_ttl(TTL));
    // A request that does not wait does not stand in line.
    let mut tries = other.try_acquire("r").into_future();
    assert!(poll(&mut tries).is_pending());
    world.pass(10 * MS);
    assert!(got(&mut tries).unwrap_err().is_contended());
    assert_eq!(keys(&world), 3);
    let mut theirs = other.acquire("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut theirs).is_pending());
    world.pass(10 * MS);
    got(&mut theirs).unwrap().check().unwrap();
}

/// The caller asked for a lease that ends in any case, and no other has asked for more since.
#[test]
fn what_was_not_to_be_renewed_is_not_renewed_while_it_lingers() {
    let world = Fixture::new(TTL);
    let request = world.redlock.acquire("r").without_renewal().linger(3 * TTL);
    drop(world.request(request));
    world.pass(TTL / 2);
    assert_eq!(keys(&world), 3);
    world.pass(TTL);
    let extensions: usize = world.nodes.iter().map(|node| node.extensions()).sum();
    assert_eq!((keys(&world), extensions), (0, 0));
}

#[test]
fn what_was_not_to_be_renewed_is_renewed_for_whoever_takes_it_and_asks_for_that() {
    let world = Fixture::new(TTL);
    drop(world.request(world.redlock.acquire("r").without_renewal().linger(TTL)));
    world.pass(SECOND);
    let lease = at_once(world.redlock.acquire("r"));
    world.pass(TTL / 2);
    assert!(lease.validity() > TTL / 2, "{:?}", lease.validity());
}

//! Goal: a waiter sees its place, here and in the lines on the nodes; takes it as soon as it has found the resource
//! held; and takes it again on a node that may have lost it.
//!
//! Method: virtual time, nodes that count what they are sent, another process that holds the resource.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use quorlock::{AcquireError, node::NodeState};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{got, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn who_waits_sees_how_many_come_before_it_and_who_holds_it() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let other = world.other_process(|it| it.ttl(TTL));
    let held = world.request(other.acquire("r"));
    let mut all = [(); 3].map(|()| waiter(&world, 60 * SECOND));
    world.pass(100 * MS);
    for (index, waiting) in all.iter_mut().enumerate() {
        assert!(poll(waiting).is_pending());
        let place = waiting.standing().unwrap();
        assert_eq!((place.here, place.elsewhere), (index, Some(0)));
        assert_eq!(place.holder, Some(held.owner().to_string()));
    }
    drop(held);
    world.pass(100 * MS);
    let [first, second, _] = &mut all;
    let lease = got(first).unwrap();
    assert!(first.standing().is_none(), "it is answered");
    let place = second.standing().unwrap();
    assert_eq!((place.here, place.holder), (0, Some(lease.owner().to_string())));
}

/// All who ask meanwhile share a round, but each is told its own waiting time.
#[test]
fn who_shares_a_round_is_told_for_how_long_it_has_waited_itself() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it.ttl(TTL));
    let _held = world.request(other.acquire("r"));
    world.set_all(Manner::Far(20 * MS));
    let _head = waiter(&world, 60 * SECOND);
    world.pass(15 * MS);
    let sent = world.sent();
    let mut once = world.redlock.try_acquire("r").into_future();
    assert!(poll(&mut once).is_pending());
    world.pass(6 * MS);
    let error = got(&mut once).unwrap_err();
    let AcquireError::Contended { waited, .. } = error else { panic!("{error}") };
    assert!(waited <= 6 * MS, "{waited:?}");
    assert_eq!(world.sent() - sent, 0);
}

/// All waiters here are told what the head's round has found.
#[test]
fn who_asks_once_is_told_what_the_head_has_found_and_that_it_has_not_waited() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it.ttl(TTL));
    let _held = world.request(other.acquire("r"));
    world.set_all(Manner::Far(20 * MS));
    let mut head = waiter(&world, 60 * SECOND);
    while head.standing().unwrap().holder.is_none() {
        world.pass(MS);
        assert!(poll(&mut head).is_pending());
    }
    let sent = world.sent();
    let mut once = world.redlock.try_acquire("r").into_future();
    let error = got(&mut once).unwrap_err();
    let AcquireError::Contended { waited, .. } = error else { panic!("{error}") };
    assert_eq!((waited, world.sent() - sent), (Duration::ZERO, 0));
}

/// Without a pause: until then no node knows that it waits, and a later client may be let in before it.
#[test]
fn who_finds_all_permits_taken_takes_its_place_at_once() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let other = world.other_process(|it| it.ttl(TTL));
    let (one, two) = (world.redlock.semaphore("s", 1).unwrap(), other.semaphore("s", 1).unwrap());
    let held = world.machine.sim.block_on(two.acquire().into_future()).unwrap();
    let sent = world.sent();
    let mut waits = one.acquire().wait(60 * SECOND).into_future();
    let mut polled = || Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled().is_pending());
    world.pass(2 * MS);
    assert_eq!(world.sent() - sent, 2 * world.nodes.len(), "it asks, and takes its place");
    // Which is before one that comes now.
    let mut later = two.acquire().wait(60 * SECOND).into_future();
    let mut late = || Pin::new(&mut later).poll(&mut Context::from_waker(Waker::noop()));
    assert!(late().is_pending());
    world.pass(20 * MS);
    drop(held);
    world.pass(5 * MS);
    assert!(late().is_pending() && polled().is_ready());
}

/// Without its line the node would let in any client, and tell none that the resource is free.
#[test]
fn who_waits_asks_soon_when_a_node_votes_again_that_has_lost_its_line() {
    let world = Fixture::new(SECOND);
    world.keep_lines();
    let other = world.other_process(|it| it.ttl(SECOND).max_ttl(SECOND));
    let _held = world.request(other.acquire("r"));
    let mut waits = waiter(&world, 60 * SECOND);
    world.pass(3 * SECOND);
    world.nodes[0].restart();
    let is_ready = || world.redlock.nodes()[0].state == NodeState::Ready;
    while is_ready() {
        world.pass(10 * MS);
    }
    let mut sent = world.sent();
    while !is_ready() {
        sent = world.sent();
        world.pass(MS);
    }
    let renewals = |node: usize| world.nodes[node].extensions();
    let before: usize = (0..3).map(renewals).sum();
    world.pass(200 * MS);
    let renewed = (0..3).map(renewals).sum::<usize>() - before;
    println!("{} commands, {renewed} of them renewals", world.sent() - sent);
    assert!(poll(&mut waits).is_pending());
    assert!(world.sent() - sent >= renewed + world.nodes.len());
}

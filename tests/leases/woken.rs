//! Goal: a waiter here is woken when this process itself gives back the resource, and only where that makes room; and a
//! grant that was taken again in the very moment at which its time was up is looked after.
//!
//! Method: virtual time, nodes that lose releases or tell nobody of them, and a waker that acquires.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{AcquireFuture, Lease};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    hostile::{Hostile, wait},
    line::{got, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_millis(300);

#[test]
fn who_waits_here_for_a_permit_asks_at_once_when_one_is_given_back_here() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let semaphore = world.redlock.semaphore("s", 1).unwrap();
    let held = world.machine.sim.block_on(semaphore.try_acquire().into_future()).unwrap();
    let mut next = semaphore.acquire().wait(60 * SECOND).into_future();
    let mut polled = || Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled().is_pending());
    world.pass(100 * MS);
    // Whatever they are sent, these nodes wake no waiter.
    world.set_all(Manner::Forgetful);
    let sent = world.sent();
    drop(held);
    world.pass(5 * MS);
    assert!(polled().is_pending());
    let (releases, round) = (world.nodes.len(), world.nodes.len());
    assert_eq!(world.sent() - sent, releases + round);
}

/// It would be denied, and each waiter would ask in vain.
#[test]
fn who_waits_here_does_not_ask_because_of_a_release_that_keeps_others_out() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let held = world.request(world.redlock.acquire("r").hold_at_least(TTL / 2));
    let mut next = waiter(&world, 60 * SECOND);
    world.pass(100 * MS);
    let sent = world.sent();
    drop(held);
    world.pass(100 * MS);
    assert!(poll(&mut next).is_pending());
    // The first waiter asks how long that is, takes its place in the lines, and waits.
    let (releases, rounds) = (world.nodes.len(), 2 * world.nodes.len());
    assert_eq!(world.sent() - sent, releases + rounds);
    world.pass(TTL / 2);
    drop(got(&mut next).unwrap());
}

/// A lease that is not renewed, and the time that passes until its loss is near.
fn lease_near_its_end(world: &Fixture, before: Duration) -> Lease {
    let request = world.redlock.acquire("other").without_renewal().linger(Duration::ZERO);
    let lease = world.request(request);
    world.pass(before);
    lease
}

/// The task that gives it back wakes others first, and one takes it: only this task could put it among the timers.
#[test]
fn what_is_taken_by_a_waker_as_its_linger_ends_is_renewed() {
    let world = || {
        let world = Fixture::with(TTL, |builder| builder.linger(LINGER));
        world.keep_lines();
        world
    };
    // When the loss is told, to the millisecond: it is the same in a world that is alike.
    let told = {
        let (world, before) = (world(), TTL - TTL / 20);
        let lost = lease_near_its_end(&world, before);
        let waker = Hostile::new(|| ());
        let _waiting = wait(lost.signal(), &waker);
        let mut told = before;
        while waker.woken() == 0 {
            world.pass(MS);
            told += MS;
        }
        assert!(lost.check().is_err(), "it is the loss that is told");
        told
    };
    let world = world();
    let lost = lease_near_its_end(&world, told - LINGER);
    let kept = world.acquire("r");
    let owner = kept.owner();
    drop(kept);
    let taken: Arc<Mutex<Option<Lease>>> = Arc::default();
    let (redlock, slot) = (world.redlock.clone(), Arc::clone(&taken));
    let waker = Hostile::new(move || {
        let mut request: AcquireFuture = redlock.acquire("r").into_future();
        *slot.lock().unwrap() = Some(got(&mut request).unwrap());
    });
    let _waiting = wait(lost.signal(), &waker);
    world.pass(LINGER + 3 * MS);
    assert_eq!(waker.woken(), 1, "the other one is over");
    let lease = taken.lock().unwrap().take().unwrap();
    assert_eq!(lease.owner(), owner, "it is the one that lingered");
    world.pass(3 * TTL);
    lease.check().unwrap();
}

#[test]
fn a_set_asks_at_once_behind_a_release_here_of_which_no_node_tells() {
    let world = Fixture::new(TTL);
    let redlock = world.untold_process(|it| it.ttl(TTL).retry(TTL, TTL));
    let held = world.request(redlock.acquire("a"));
    let mut set = redlock.acquire_all(["a", "b"]).wait(60 * SECOND).into_future();
    assert!(poll(&mut set).is_pending());
    world.pass(3 * SECOND);
    drop(held);
    world.pass(5 * MS);
    got(&mut set).unwrap().check().unwrap();
}

#[test]
fn whoever_wants_to_read_asks_at_once_when_a_writer_of_the_same_process_reads_on() {
    let world = Fixture::new(TTL);
    let redlock = world.untold_process(|it| it.ttl(TTL).retry(TTL, TTL));
    let writer = world.request(redlock.write("r"));
    let mut reads = redlock.read("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut reads).is_pending());
    world.pass(3 * SECOND);
    let _reads_on = writer.downgrade().unwrap();
    world.pass(5 * MS);
    let Poll::Ready(lease) = poll(&mut reads) else { panic!("it waits") };
    lease.unwrap().check().unwrap();
}

//! Goal: a process is not in its own way: a lease that it gives back before it asks is released on every node before
//! the request arrives there, also where the release waits for its turn behind many; and a place in the lines on the
//! nodes with which no caller here waits any more keeps out no other caller here.
//!
//! Method: virtual time, whose executor begins what is ready in any order; requests for one round, which would be told;
//! nodes that lose what gives up a place.

use std::{
    fmt::Debug,
    future::{Future, IntoFuture},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use quorlock::{AcquireError, Lease, ReadLease, runtime::Runtime};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{got, poll},
};

const TTL: Duration = Duration::from_secs(10);

/// In as many orders as there are turns.
const TURNS: usize = 40;

#[track_caller]
fn granted<T: Debug + Send + 'static>(
    world: &Fixture,
    request: impl IntoFuture<Output = Result<T, AcquireError>, IntoFuture: Send + 'static>,
) -> T {
    world.machine.sim.block_on(request.into_future()).unwrap()
}

fn lingering() -> Fixture {
    Fixture::with(TTL, |builder| builder.linger(2 * SECOND))
}

#[test]
fn what_lingers_and_will_not_do_is_released_before_the_nodes_are_asked() {
    let world = lingering();
    for _ in 0..TURNS {
        drop(world.acquire("r"));
        let shorter = world.redlock.try_acquire("r").ttl(TTL / 2).linger(Duration::ZERO);
        drop(granted(&world, shorter));
    }
}

#[test]
fn what_lingers_is_released_before_somebody_here_asks_for_what_overlaps() {
    let world = lingering();
    for _ in 0..TURNS {
        drop(world.acquire("a"));
        drop(granted(&world, world.redlock.try_acquire_all(["a", "b"])));
        // The set lingers.
        drop(granted(&world, world.redlock.try_read("b")));
        world.pass(MS);
        drop(world.acquire("b"));
        drop(granted(&world, world.redlock.try_read("b")));
        world.pass(MS);
        drop(granted(&world, world.redlock.try_acquire_all(["a", "b"])));
        drop(granted(&world, world.redlock.try_acquire("a")));
    }
}

#[test]
fn what_has_been_dropped_is_released_before_the_nodes_are_asked_again() {
    let world = Fixture::new(TTL);
    let semaphore = world.redlock.semaphore("s", 2).unwrap();
    let _held = granted(&world, semaphore.acquire());
    for _ in 0..TURNS {
        drop(world.acquire("r"));
        drop(granted(&world, world.redlock.try_acquire("r")));
        drop(granted(&world, world.redlock.try_acquire_all(["r", "q"])));
        drop(granted(&world, world.redlock.try_acquire_all(["p", "q"])));
        drop(granted(&world, world.redlock.try_read("q")));
        drop(granted(&world, world.redlock.try_write("q")));
        drop(granted(&world, world.redlock.try_read("q")));
        drop(granted(&world, world.redlock.try_acquire_all(["r", "q"])));
        drop(granted(&world, semaphore.acquire()));
        drop(granted(&world, semaphore.try_acquire()));
    }
}

/// A lease at the name of a slot is a permit that is taken, also by the same process.
#[test]
fn a_slot_and_a_lease_at_its_name_are_not_in_each_others_way_once_they_are_dropped() {
    let world = Fixture::new(TTL);
    let semaphore = world.redlock.semaphore("a/s", 1).unwrap();
    for _ in 0..TURNS {
        drop(world.acquire("a/s/0"));
        drop(granted(&world, semaphore.try_acquire()));
        drop(granted(&world, world.redlock.try_acquire("a/s/0")));
        world.pass(MS);
        drop(granted(&world, world.redlock.try_acquire_all(["a/s/0", "b"])));
        drop(granted(&world, semaphore.try_acquire()));
        drop(granted(&world, world.redlock.try_read("a/s/0")));
        drop(granted(&world, semaphore.try_acquire()));
        drop(granted(&world, world.redlock.try_acquire_all(["a/s/0", "b"])));
        world.pass(MS);
    }
}

/// A burst of releases: most of them wait for their turn, and are sent at the latest when their resource is asked for.
#[test]
fn a_release_that_waits_for_its_turn_is_sent_before_its_resource_is_asked_for() {
    const MANY: usize = 300;
    let world = Fixture::new(TTL);
    let name = |number: usize| format!("r{number}");
    let held: Vec<Lease> = (0..MANY).map(|number| world.acquire(&name(number))).collect();
    let readers: Vec<ReadLease> =
        (0..4).map(|_| granted(&world, world.redlock.read("read"))).collect();
    let sent = world.sent();
    drop(held);
    drop(readers);
    let again =
        (MANY - 20..MANY).map(|number| world.redlock.try_acquire(name(number)).into_future());
    let mut again: Vec<_> = again.collect();
    let set = world.redlock.try_acquire_all([name(MANY - 21), name(MANY - 22)]);
    let mut set = set.into_future();
    let mut write = world.redlock.try_write("read").into_future();
    let all = again.iter_mut().chain([&mut set, &mut write]);
    all.for_each(|future| assert!(poll(future).is_pending()));
    world.pass(MS);
    let all = again.iter_mut().chain([&mut set, &mut write]);
    drop(all.map(|future| got(future).unwrap()).collect::<Vec<_>>());
    world.pass(MS);
    // Each release once.
    assert_eq!(world.sent() - sent, 3 * (MANY + 4 + 2 * 22));
    assert!(world.nodes.iter().all(|node| !node.has(&name(0)) && !node.has("read")));
}

#[test]
fn a_writer_that_reads_on_is_in_no_readers_way_from_then_on() {
    let world = Fixture::new(TTL);
    for _ in 0..TURNS {
        let writer = world.acquire("r");
        let reads = writer.downgrade().unwrap();
        drop(granted(&world, world.redlock.try_read("r")));
        drop(reads);
        drop(granted(&world, world.redlock.try_write("r")));
    }
}

/// No more than 256 of them are sent out of turn, to leave room for renewals: the waiter gets it all the same.
#[test]
fn whoever_waits_behind_very_many_readers_gets_it_when_they_have_been_released() {
    const MANY: usize = 900;
    let world = Fixture::new(TTL);
    let readers: Vec<ReadLease> =
        (0..MANY).map(|_| granted(&world, world.redlock.read("r"))).collect();
    let held = world.acquire("other");
    drop(readers);
    let mut writes = world.redlock.write("r").into_future();
    assert!(poll(&mut writes).is_pending());
    let mut steps = 0;
    let lease = loop {
        match poll(&mut writes) {
            Poll::Ready(lease) => break lease.unwrap(),
            Poll::Pending => world.pass(MS),
        }
        steps += 1;
        assert!(steps < 1_000, "it waits");
    };
    lease.check().unwrap();
    held.check().unwrap();
}

/// What a waiter wants it for. A process has two places in a line: one to read, and one for all else.
#[derive(Clone, Copy, Debug)]
enum Wants {
    Read,
    Write,
    Several,
}

/// A waiter here, behind another holder. Awaited, it returns whether it has got it; the lease is over then.
fn wants(world: &Fixture, what: Wants) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    let wait = 60 * SECOND;
    let several = ["a", "r"];
    let mut future: Pin<Box<dyn Future<Output = bool> + Send>> = match what {
        Wants::Read => {
            let it = world.redlock.read("r").wait(wait).into_future();
            Box::pin(async { it.await.is_ok() })
        }
        Wants::Write => {
            let it = world.redlock.write("r").wait(wait).into_future();
            Box::pin(async { it.await.is_ok() })
        }
        Wants::Several => {
            let it = world.redlock.acquire_all(several).wait(wait).into_future();
            Box::pin(async { it.await.is_ok() })
        }
    };
    assert!(poll(&mut future).is_pending());
    future
}

const PAIRS: [(Wants, Wants); 4] = [
    (Wants::Read, Wants::Write),
    (Wants::Read, Wants::Several),
    (Wants::Write, Wants::Read),
    (Wants::Several, Wants::Read),
];

/// The line lives on while any client asks, and a node does not forget a waiter that is connected but does not come.
#[test]
fn who_gave_up_keeps_nobody_here_out_also_where_what_it_said_is_lost() {
    for (gone, comes) in PAIRS {
        for has_come_before in [false, true] {
            let world = Fixture::new(TTL);
            world.keep_lines();
            let other = world.other_process(|it| it);
            let held = world.machine.sim.block_on(other.acquire("r").into_future()).unwrap();
            let gives_up = wants(&world, gone);
            world.pass(SECOND);
            let mut waits = has_come_before.then(|| wants(&world, comes));
            world.pass(SECOND);
            world.set_all(Manner::KeepsPlaces);
            drop(gives_up);
            world.pass(MS);
            world.set_all(Manner::Sound);
            drop(held);
            world.pass(MS);
            let waits = waits.take().unwrap_or_else(|| wants(&world, comes));
            let begun = world.machine.sim.now();
            let got = world.machine.sim.block_on(waits);
            let waited = world.machine.sim.now().saturating_since(begun);
            assert!(got && waited < 50 * MS, "{comes:?} behind {gone:?}: {got} after {waited:?}");
        }
    }
}

/// In the lines on the nodes both are the same client.
#[test]
fn who_waits_here_is_passed_by_nobody_here() {
    for (before, behind) in PAIRS {
        let world = Fixture::new(TTL);
        world.keep_lines();
        let other = world.other_process(|it| it);
        let held = world.machine.sim.block_on(other.acquire("r").into_future()).unwrap();
        let mut first = wants(&world, before);
        world.pass(SECOND);
        let mut second = wants(&world, behind);
        world.pass(SECOND);
        drop(held);
        for _ in 0..100 {
            if poll(&mut first).is_ready() {
                break;
            }
            assert!(poll(&mut second).is_pending(), "{behind:?} passes {before:?}");
            world.pass(MS / 4);
        }
        assert!(world.machine.sim.block_on(second), "{behind:?} behind {before:?}");
    }
}

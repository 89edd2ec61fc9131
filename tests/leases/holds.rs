//! Goal: a lease that keeps others out for a while does so whatever ends it, to the allowance for drift and no longer; and
//! one that is left to expire stands for its ttl.
//!
//! Method: virtual time, and a second client of the same nodes that tries again every ten milliseconds.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use quorlock::{
    AcquireError, Builder, Lease, LossReason, Redlock,
    node::{MemoryNode, NodeSpec},
    protocol::{Drift, Timestamp},
    runtime::Runtime,
};

use crate::fixture::{Fixture, MS, Machine, Manner, SECOND};

const TTL: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);

/// Another client of the same nodes.
fn other(world: &Fixture) -> Redlock {
    let nodes = world.nodes.iter().map(|node| NodeSpec::new(Arc::new(node.clone())));
    let builder = Redlock::builder().nodes(nodes).ttl(TTL).max_ttl(TTL);
    let other = builder.runtime(Arc::new(world.machine.clone())).build().unwrap();
    world.pass(MS);
    other
}

/// How long after `since` the other one gets the resource.
fn free_after(world: &Fixture, other: &Redlock, since: Duration) -> Duration {
    loop {
        let request = other.try_acquire("r").into_future();
        match world.machine.sim.block_on(request) {
            Ok(lease) => {
                drop(lease);
                return world.machine.now().since_origin() - since;
            }
            Err(error) => assert!(error.is_contended(), "{error}"),
        }
        world.pass(STEP);
    }
}

fn held(world: &Fixture) -> (Lease, Duration) {
    let lease = world.request(world.redlock.acquire("r").hold_at_least(HOLD));
    (lease, world.machine.now().since_origin())
}

/// At least for as long as was asked for, and at most for that, its drift, a round trip and a step of this test.
#[track_caller]
fn is_held_as_asked(free: Duration, what: &str) {
    let most = HOLD + Drift::default().of(HOLD) + STEP + 2 * MS;
    assert!((HOLD..=most).contains(&free), "{what}: free after {free:?}");
}

#[test]
fn whatever_ends_a_lease_others_are_kept_out_until_the_time_is_up() {
    type End = fn(&Fixture, Lease);
    let ends: [(&str, End); 3] = [
        ("released", |world, lease| world.machine.sim.block_on(lease.release()).unwrap()),
        ("dropped", |_, lease| drop(lease)),
        ("shut down", |world, lease| {
            let redlock = world.redlock.clone();
            let done = world.machine.sim.block_on(async move { redlock.shutdown().await });
            assert_eq!(done.unwrap().released, 1);
            assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown);
        }),
    ];
    let passed = [Duration::ZERO, MS, 2 * SECOND, HOLD - MS];
    for (what, end) in ends {
        for (builder, name) in [(false, "fenced"), (true, "classic")] {
            for passed in passed {
                let settings = |it: Builder| if builder { it.classic() } else { it };
                let world = Fixture::with(TTL, settings);
                let nodes = world.nodes.iter().map(|node| NodeSpec::new(Arc::new(node.clone())));
                let second = settings(Redlock::builder().nodes(nodes).ttl(TTL).max_ttl(TTL));
                let second = second.runtime(Arc::new(world.machine.clone())).build().unwrap();
                world.pass(MS);
                let (lease, since) = held(&world);
                let signal = lease.signal();
                world.pass(passed);
                let extended = world.nodes[0].extensions();
                end(&world, lease);
                assert!(signal.check().is_err(), "it is over for its holder at once");
                let free = free_after(&world, &second, since);
                is_held_as_asked(free, &format!("{what}, {name}, after {passed:?}"));
                assert_eq!(world.nodes[0].extensions(), extended, "nothing is renewed any more");
            }
        }
    }
}

#[test]
fn work_that_ends_early_keeps_others_out_and_work_that_takes_longer_does_not() {
    for (work, is_early) in [(2 * SECOND, true), (HOLD, false), (30 * SECOND, false)] {
        let world = Fixture::new(TTL);
        let second = other(&world);
        let request = world.redlock.acquire("r").hold_at_least(HOLD);
        let since = world.machine.now().since_origin();
        let machine = world.machine.clone();
        let ran = request.run(async move |_| machine.sim.sleep(work).await);
        world.machine.sim.block_on(ran).unwrap();
        let free = free_after(&world, &second, since);
        if is_early {
            is_held_as_asked(free, "run");
        } else {
            assert!(free < work + STEP, "{work:?}: free after {free:?}");
        }
    }
}

/// So it is there also when the process ends right after the grant.
#[test]
fn the_grant_by_itself_keeps_others_out_for_so_long() {
    let world = Fixture::with(SECOND, |builder| builder.max_ttl(TTL));
    world.set_all(Manner::Deaf);
    let (lease, _) = held(&world);
    assert!(lease.validity() >= HOLD, "{:?}", lease.validity());
    assert!(lease.ttl() < HOLD + 200 * MS, "raised by what is needed: {:?}", lease.ttl());
    let short = world.request(world.redlock.acquire("short"));
    assert_eq!(short.ttl(), SECOND);
}

#[test]
fn a_hold_beyond_the_longest_ttl_is_refused_and_nothing_is_sent() {
    let world = Fixture::new(TTL);
    let ask = |hold: Duration| {
        let request = world.redlock.try_acquire("r").hold_at_least(hold).into_future();
        world.machine.sim.block_on(request)
    };
    let error = ask(TTL).unwrap_err();
    let AcquireError::HoldTooLong { hold, max, max_ttl, .. } = error else { panic!("{error}") };
    assert_eq!((hold, max_ttl), (TTL, TTL));
    assert!(!world.nodes[0].has("r"));
    assert!(ask(max + Duration::from_nanos(1)).is_err());
    let lease = ask(max).unwrap();
    assert!(lease.validity() >= max && lease.ttl() <= TTL);
}

/// No work was done under it.
#[test]
fn an_acquire_that_nobody_waits_for_any_more_keeps_nobody_out() {
    let world = Fixture::new(TTL);
    let second = other(&world);
    let mut request = world.redlock.acquire("r").hold_at_least(HOLD).into_future();
    let waker = std::task::Waker::noop();
    let polled = std::pin::Pin::new(&mut request).poll(&mut std::task::Context::from_waker(waker));
    assert!(polled.is_pending());
    world.pass(MS);
    assert!(world.nodes[0].has("r"), "it is granted");
    let since = world.machine.now().since_origin();
    drop(request);
    world.pass(MS);
    assert!(free_after(&world, &second, since) < 20 * MS);
}

#[test]
fn a_node_that_misses_the_release_keeps_the_key_for_the_ttl_and_the_others_decide() {
    let world = Fixture::new(TTL);
    let second = other(&world);
    let (lease, since) = held(&world);
    world.nodes[2].set(Manner::Forgetful);
    world.pass(SECOND);
    world.machine.sim.block_on(lease.release()).unwrap();
    is_held_as_asked(free_after(&world, &second, since), "one node is deaf");

    let world = Fixture::new(TTL);
    let second = other(&world);
    let (lease, since) = held(&world);
    world.set_all(Manner::Forgetful);
    world.machine.sim.block_on(lease.release()).unwrap_err();
    assert!(free_after(&world, &second, since) >= HOLD, "no node was told");
}

#[test]
fn a_share_of_a_lease_keeps_others_out_from_when_it_was_taken() {
    let world = Fixture::new(TTL);
    let second = other(&world);
    let worker = world.redlock.reentrant();
    let outer = world.machine.sim.block_on(worker.acquire("r").into_future()).unwrap();
    world.pass(SECOND);
    let inner = worker.acquire("r").hold_at_least(HOLD).into_future();
    let inner = world.machine.sim.block_on(inner).unwrap();
    assert_eq!(inner.owner(), outer.owner());
    let since = world.machine.now().since_origin();
    drop((inner, outer));
    is_held_as_asked(free_after(&world, &second, since), "shared");
}

/// The time that was asked for first is kept, however short the second one is.
#[test]
fn a_second_hold_that_ends_sooner_does_not_shorten_the_first() {
    let world = Fixture::new(TTL);
    let second = other(&world);
    let worker = world.redlock.reentrant();
    let share = |least| {
        let request = worker.acquire("r").hold_at_least(least).into_future();
        world.machine.sim.block_on(request).unwrap()
    };
    let outer = share(HOLD);
    let since = world.machine.now().since_origin();
    world.pass(SECOND);
    let inner = share(SECOND);
    assert_eq!(inner.owner(), outer.owner());
    drop((inner, outer));
    is_held_as_asked(free_after(&world, &second, since), "the shorter one came second");
}

#[test]
fn a_lease_that_is_left_to_expire_is_not_renewed_and_stands_for_its_ttl() {
    let world = Fixture::new(TTL);
    let second = other(&world);
    let lease = world.acquire("r");
    world.pass(7 * SECOND);
    let signal = lease.signal();
    let (extended, since) = (world.nodes[0].extensions(), world.machine.now().since_origin());
    assert!(extended > 0, "it was renewed");
    lease.let_expire();
    assert_eq!(signal.check().unwrap_err().reason, LossReason::LeftToExpire);
    let free = free_after(&world, &second, since);
    assert!(free > SECOND && free <= TTL, "{free:?}");
    assert_eq!(world.nodes[0].extensions(), extended);
    let redlock = world.redlock.clone();
    let closed = world.machine.sim.block_on(async move { redlock.close().await });
    assert_eq!(closed.unwrap().held, 0);
}

/// A node whose clock is fast by less than the drift lets nobody in too early.
#[test]
fn nodes_whose_clocks_are_fast_keep_others_out_for_as_long() {
    let machine = Machine::new();
    let nodes: Vec<MemoryNode> = (0..3)
        .map(|_| {
            let clock = machine.clone();
            MemoryNode::with_clock(move || {
                let time = clock.sim.now().since_origin();
                Timestamp::from_origin(time + time / 100)
            })
        })
        .collect();
    let redlock = |_| {
        let builder = Redlock::builder().nodes(&nodes).ttl(TTL).max_ttl(TTL);
        builder.runtime(Arc::new(machine.clone())).build().unwrap()
    };
    let [first, second] = [0, 1].map(redlock);
    machine.pass(SECOND);
    for passed in [Duration::ZERO, SECOND, 4 * SECOND] {
        let request = first.acquire("r").hold_at_least(HOLD).into_future();
        let lease = machine.sim.block_on(request).unwrap();
        let since = machine.now().since_origin();
        machine.pass(passed);
        drop(lease);
        let free = loop {
            match machine.sim.block_on(second.try_acquire("r").into_future()) {
                Ok(lease) => {
                    let free = machine.now().since_origin() - since;
                    machine.sim.block_on(lease.release()).unwrap();
                    break free;
                }
                Err(error) => assert!(error.is_contended(), "{error}"),
            }
            machine.pass(MS);
        };
        is_held_as_asked(free, "fast clocks");
    }
    machine.sim.shut_down();
}

#[test]
fn a_release_that_is_sent_again_keeps_others_out_for_what_is_left() {
    for (deaf, passed) in [(2, 500 * MS), (3, 500 * MS), (3, 3 * SECOND), (3, HOLD - 200 * MS)] {
        let world = Fixture::new(TTL);
        let second = other(&world);
        let (lease, since) = held(&world);
        world.pass(100 * MS);
        world.nodes.iter().take(deaf).for_each(|node| node.set(Manner::Forgetful));
        drop(lease);
        world.pass(passed);
        world.set_all(Manner::Sound);
        world.pass(SECOND.min(HOLD - 150 * MS - passed));
        assert!(world.nodes.iter().all(|node| node.has("r")), "{deaf}, {passed:?}");
        let free = free_after(&world, &second, since);
        // It may be sent again half a second after the node is sound again.
        assert!((HOLD..HOLD + 600 * MS).contains(&free), "{deaf}, {passed:?}: free after {free:?}");
    }
}

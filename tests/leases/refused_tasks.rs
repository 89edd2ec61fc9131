//! Goal: a runtime that refuses a task, or panics, costs nobody anything but what it was asked for then.
//!
//! Method: the machine refuses one task, or panics once, when it is asked for something for the first, second,
//! third... time, while several leases are held.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use quorlock::Lease;

use crate::fixture::{Fixture, MS, Manner, SECOND, all_held, watched};

#[test]
fn a_runtime_that_refuses_one_task_costs_no_other_lease() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let kept = world.acquire("kept");
        world.pass(170 * MS);
        let refused = world.acquire("refused");
        world.machine.refuse_one_task();
        // One renewal could not be started, and nothing else is acquired.
        world.pass(10 * SECOND);
        assert!(world.machine.has_refused(), "nothing was refused");
        all_held(&[kept, refused]);
    });
}

#[test]
fn a_runtime_that_refuses_a_task_costs_the_others_nothing_for_long() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let kept = world.acquire("kept");
        let refused = world.request(world.redlock.acquire("refused").ttl(500 * MS));
        world.pass(100 * MS);
        world.machine.refuse_one_task();
        world.pass(100 * MS);
        assert!(world.machine.has_refused());
        let next = world.acquire("next");
        world.pass(10 * SECOND);
        // The refused renewal was tried again.
        all_held(&[kept, refused, next]);
    });
}

#[test]
fn a_runtime_that_refused_a_task_still_has_deadlines_in_the_line() {
    watched(|| {
        let world = Fixture::with(SECOND, |builder| builder.node_timeout(500 * MS));
        // Nobody sees to the timers from here on.
        drop(world.acquire("before"));
        world.pass(2 * SECOND);
        world.nodes.iter().for_each(|node| node.hang());
        let start = |n: String, wait| {
            let mut future = world.redlock.acquire(n).wait(wait).into_future();
            assert!(
                Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
            );
            future
        };
        let _let_in: Vec<_> = (0..64).map(|n| start(format!("let in {n}"), 10 * SECOND)).collect();
        world.machine.refuse_one_task();
        let refused = start("refused".into(), 20 * MS);
        assert!(world.machine.has_refused(), "nothing was refused");
        drop(refused);
        let mut next = start("next".into(), 20 * MS);
        world.pass(200 * MS);
        let polled = Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(polled, Poll::Ready(Err(quorlock::AcquireError::Crowded { .. }))),
            "{polled:?}"
        );
    });
}

#[test]
fn a_runtime_that_refused_a_task_still_has_what_is_left_over_released() {
    watched(|| {
        let world = Fixture::with(60 * SECOND, |builder| builder.node_timeout(50 * MS));
        let leave_over = |name: &str, refuse: bool| {
            let lease = world.acquire(name);
            world.nodes[0].set(Manner::Forgetful);
            drop(lease);
            world.pass(MS);
            if refuse {
                world.machine.refuse_one_task();
            }
            world.pass(200 * MS);
            world.nodes[0].set(Manner::Sound);
            world.pass(SECOND);
        };
        leave_over("usual", false);
        assert!(!world.nodes[0].has("usual"), "without a refusal");
        leave_over("refused", true);
        assert!(world.machine.has_refused(), "nothing was refused");
        leave_over("next", false);
        world.pass(5 * SECOND);
        assert!(!world.nodes[0].has("next"), "never released");
    });
}

#[test]
fn a_runtime_that_panics_once_ends_nothing_that_goes_on_for_all() {
    watched(|| {
        for nth in 1.. {
            let world = Fixture::with(3 * SECOND, |builder| builder.node_timeout(50 * MS));
            let leases: Vec<Lease> = (0..3).map(|n| world.acquire(&format!("r{n}"))).collect();
            let left = world.acquire("left");
            world.nodes[0].set(Manner::Forgetful);
            drop(left);
            // From here on it is sent again and again.
            world.pass(1500 * MS);
            if !world.machine.pass_with_a_panic(nth, 2 * SECOND) {
                println!("it is asked {nth} times");
                assert!(nth > 30);
                return;
            }
            world.pass(3 * SECOND);
            all_held(&leases);
            world.nodes[0].set(Manner::Sound);
            world.pass(2 * SECOND);
            assert!(!world.nodes[0].has("left"), "{nth}: not released");
            drop(world.acquire("next"));
            world.pass(SECOND);
            drop(world.request(world.redlock.try_acquire("next")));
            all_held(&leases);
        }
    });
}

//! Goal: a runtime that refuses a task, or panics, costs only the operation that it was asked for then.
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
fn a_runtime_that_refuses_the_task_of_all_once_costs_nobody_anything() {
    watched(|| {
        let world = Fixture::new(SECOND);
        world.machine.refuse_one_task();
        let first = world.acquire("first");
        assert!(world.machine.has_refused(), "nothing was refused");
        let next = world.acquire("next");
        world.pass(10 * SECOND);
        all_held(&[first, next]);
    });
}

#[test]
fn a_runtime_that_refuses_that_task_twice_costs_the_one_who_asked() {
    watched(|| {
        let world = Fixture::new(SECOND);
        world.machine.refuse_tasks(2);
        let mut refused = world.redlock.acquire("refused").into_future();
        let polled = Pin::new(&mut refused).poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(polled, Poll::Ready(Err(quorlock::AcquireError::RuntimeEnded))),
            "{polled:?}"
        );
        assert!(world.machine.has_refused(), "nothing was refused");
        let next = world.acquire("next");
        world.pass(10 * SECOND);
        all_held(&[next]);
        assert!(world.nodes.iter().all(|node| !node.has("refused")));
    });
}

#[test]
fn a_runtime_that_refused_a_task_still_has_deadlines_in_the_line() {
    watched(|| {
        let world = Fixture::with(SECOND, |builder| builder.node_timeout(500 * MS));
        world.nodes.iter().for_each(|node| node.hang());
        let start = |n: String, wait| {
            let mut future = world.redlock.acquire(n).wait(wait).into_future();
            assert!(
                Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
            );
            future
        };
        world.machine.refuse_one_task();
        let _let_in: Vec<_> = (0..64).map(|n| start(format!("let in {n}"), 10 * SECOND)).collect();
        assert!(world.machine.has_refused(), "nothing was refused");
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
        let leave_over = |name: &str| {
            let lease = world.acquire(name);
            world.nodes[0].set(Manner::Forgetful);
            drop(lease);
            world.pass(200 * MS);
            world.nodes[0].set(Manner::Sound);
            world.pass(SECOND);
            assert!(!world.nodes[0].has(name), "{name}: never released");
        };
        // The one task of all begins with the first who asks.
        world.machine.refuse_one_task();
        leave_over("refused");
        assert!(world.machine.has_refused(), "nothing was refused");
        leave_over("next");
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

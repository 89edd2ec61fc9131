//! Goal: a waker that panics harms no other waiter, no other lease and no task of the engine.
//!
//! Method: it panics when it is woken, when it is dropped, or once more when its panic is caught, inside the call that
//! wakes it.

use std::{
    future::{Future, IntoFuture},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use quorlock::{Lease, protocol::LossReason};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND, all_held, watched},
    hostile::{Hostile, Waiting, begin, ended, panicking, poll, wait},
};

#[test]
fn a_waker_that_panics_costs_no_other_waiter_of_the_same_lease_its_wake_up() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let (first, others) = (panicking(), [(); 3].map(|()| Hostile::new(|| ())));
        // On both sides of the others, in whatever order they are woken.
        let _first = wait(lease.signal(), &first);
        let waiting = others.each_ref().map(|waker| wait(lease.signal(), waker));
        let last = panicking();
        let _last = wait(lease.signal(), &last);
        world.pass(2 * SECOND);
        let woken = others.each_ref().map(|waker| waker.woken());
        assert_eq!((first.woken(), woken, last.woken()), (1, [1; 3], 1));
        for (waiting, waker) in waiting.into_iter().zip(&others) {
            let mut waiting = waiting;
            assert_eq!(poll(&mut waiting, waker), Poll::Ready(LossReason::NotRenewed));
        }
    });
}

#[test]
fn a_waker_that_panics_ends_no_task_of_the_engine_that_answers_it() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let acquired = begin(world.redlock.acquire("r").into_future());
        world.pass(10 * MS);
        let lease = Arc::new(ended(acquired).unwrap());
        let extended = begin({
            let lease = Arc::clone(&lease);
            async move { lease.extend().await }
        });
        world.pass(10 * MS);
        ended(extended).unwrap();
        // More, of which one is refused and one gives up: behind a lease of this process, and behind another program.
        let behind = begin(world.redlock.acquire("r").wait(50 * MS).into_future());
        world.nodes.iter().for_each(|node| node.hold("theirs"));
        let busy = begin(world.redlock.try_acquire("theirs").into_future());
        let shares = begin(world.redlock.try_acquire("theirs").into_future());
        let late = begin(world.redlock.acquire("theirs").wait(50 * MS).into_future());
        let also_late = begin(world.redlock.acquire("theirs").wait(50 * MS).into_future());
        world.pass(100 * MS);
        for refused in [behind, busy, shares, late, also_late] {
            assert!(ended(refused).unwrap_err().is_contended());
        }
        let released = begin(Arc::into_inner(lease).unwrap().release());
        world.pass(10 * MS);
        ended(released).unwrap();
        assert_eq!(world.machine.panics(), 0);
    });
}

#[test]
fn a_waker_that_panics_costs_no_other_close_its_end() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let _held = world.acquire("r");
        let _behind = begin(world.redlock.acquire("r").wait(100 * MS).into_future());
        let given_back = world.acquire("given back");
        // Its release is under way for longer than it takes to close.
        world.set_all(Manner::Far(20 * MS));
        drop(given_back);
        world.pass(MS);
        let closes = [(); 3].map(|()| {
            let redlock = world.redlock.clone();
            begin(async move { redlock.close().await })
        });
        let kind = Hostile::new(|| ());
        let redlock = world.redlock.clone();
        let mut close: Waiting<_> =
            Box::pin(async move { redlock.close().await.map(|closed| closed.held) });
        assert!(poll(&mut close, &kind).is_pending());
        world.pass(SECOND);
        assert_eq!((kind.woken(), poll(&mut close, &kind)), (1, Poll::Ready(Ok(1))));
        closes.into_iter().for_each(|close| assert_eq!(ended(close).unwrap().held, 1));
        assert_eq!(world.machine.panics(), 0);
    });
}

#[test]
fn a_waker_that_panics_at_a_timer_costs_the_engine_nothing() {
    watched(|| {
        let world = Fixture::with(SECOND, |builder| builder.close_timeout(50 * MS));
        let held = world.acquire("r");
        world.nodes.iter().for_each(|node| node.hang());
        drop(held);
        world.pass(MS);
        let redlock = world.redlock.clone();
        let close = begin(async move { redlock.close().await });
        world.pass(100 * MS);
        assert!(ended(close).is_err());
        assert_eq!(world.machine.panics(), 0);
    });
}

#[test]
fn an_owner_whose_second_acquire_has_a_waker_that_panics_keeps_its_first() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let worker = world.redlock.reentrant();
        let acquire = |worker: &quorlock::Reentrant| {
            let worker = worker.clone();
            async move { worker.acquire("r").await }
        };
        let kind = Hostile::new(|| ());
        let mut first: Waiting<_> = Box::pin(acquire(&worker));
        assert!(poll(&mut first, &kind).is_pending());
        let second = begin(acquire(&worker));
        world.pass(10 * MS);
        let Poll::Ready(first) = poll(&mut first, &kind) else { panic!("it goes on") };
        let first = first.unwrap();
        ended(second).unwrap().check().unwrap();
        first.check().unwrap();
    });
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_costs_the_engine_nothing() {
    /// Panics when the last clone of the waker is dropped.
    struct Fragile;

    impl Wake for Fragile {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("a waker of the user's");
        }
    }

    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let mut waiting: Vec<Waiting> = (0..3)
            .map(|_| {
                let signal = lease.signal();
                let waiting: Waiting = Box::pin(async move { signal.lost().await.reason });
                waiting
            })
            .collect();
        for waiting in &mut waiting {
            let waker = Waker::from(Arc::new(Fragile));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let mut acquired = Box::pin(world.redlock.acquire("other").into_future());
        {
            let waker = Waker::from(Arc::new(Fragile));
            assert!(acquired.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        // Given up: the engine is the last to have its waker.
        drop(acquired);
        world.pass(2 * SECOND);
        assert_eq!(world.machine.panics(), 0);
        for waiting in waiting {
            assert_eq!(ended(waiting), LossReason::NotRenewed);
        }
    });
}

#[test]
fn a_waker_that_panics_costs_no_other_lease_its_renewal() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let beside = |name: &str| world.request(world.redlock.acquire(name).without_renewal());
        let (before, lease, behind) = (beside("before"), beside("panics"), beside("behind"));
        let kept = world.acquire("kept");
        let waker = Hostile::new(|| panic!("a waker of the user's"));
        let mut waiting = wait(lease.signal(), &waker);
        // They are over in the same look.
        let hears: fn() = || ();
        let told = [Hostile::new(hears), Hostile::new(hears)];
        let _waiting = [wait(before.signal(), &told[0]), wait(behind.signal(), &told[1])];
        world.pass(SECOND + 10 * MS);
        assert_eq!(told.each_ref().map(|it| it.woken()), [1, 1], "at once");
        world.pass(10 * SECOND);
        assert!(waker.woken() > 0);
        kept.check().unwrap();
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::NotRenewed));
        let later = world.acquire("later");
        world.pass(10 * SECOND);
        later.check().unwrap();
    });
}

#[test]
fn a_waker_that_panics_takes_no_result_from_the_leases_extended_with_it() {
    watched(|| {
        let world = Fixture::new(SECOND);
        // They are due together, and travel together.
        let leases: Vec<Lease> = (0..4).map(|n| world.acquire(&format!("r{n}"))).collect();
        let waker = Hostile::new(|| panic!("a waker of the user's"));
        let waiting = wait(leases[0].signal(), &waker);
        world.nodes.iter().for_each(|node| node.delete("r0"));
        world.pass(10 * SECOND);
        assert!(waker.woken() > 0);
        assert_eq!(leases[0].check().unwrap_err().reason, LossReason::Gone);
        all_held(&leases[1..]);
        drop(waiting);
    });
}

#[test]
fn a_waker_that_panics_does_not_keep_a_dropped_lease_from_being_released() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.acquire("r");
        let waker = Hostile::new(|| panic!("a waker of the user's"));
        let mut waiting = wait(lease.signal(), &waker);
        drop(lease);
        world.pass(MS);
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::Released));
        drop(world.request(world.redlock.try_acquire("r")));
    });
}

/// The payload of a panic, which panics when it is dropped, as the value of a user's type may.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the payload of a panic");
        }
    }
}

#[test]
fn a_waker_whose_panic_panics_again_ends_no_other_lease() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let kept: Vec<Lease> = (0..3).map(|n| world.acquire(&format!("kept{n}"))).collect();
        // It ends when no renewal of the others is under way.
        world.pass(170 * MS);
        let lost = world.request(world.redlock.acquire("lost").ttl(500 * MS).without_renewal());
        let waker = Hostile::new(|| std::panic::panic_any(Bomb));
        let waiting = wait(lost.signal(), &waker);
        world.pass(10 * SECOND);
        assert_eq!(waker.woken(), 1);
        all_held(&kept);
        drop(waiting);
    });
}

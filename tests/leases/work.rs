//! Goal: work under a lease, a reader's lease or a permit is polled while that holds by the clock, and no longer, also
//! in a process that stood still; and then others are let in as the lease says.
//!
//! Method: virtual time, on a machine that is suspended; futures that are polled by hand.

use std::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};

use quorlock::{Lease, LeaseSignal, LossReason, Permit, ReadLease, RunError};

use crate::{
    fixture::{Fixture, MS, SECOND},
    line::poll,
};

const TTL: Duration = Duration::from_secs(10);

fn keys(world: &Fixture, name: &str) -> usize {
    world.nodes.iter().filter(|node| node.has(name)).count()
}

/// Polls it whenever something has happened, until it has.
fn pass_until(
    world: &Fixture,
    run: &mut Pin<Box<dyn Future<Output = Result<(), RunError>> + '_>>,
    happened: impl Fn() -> bool,
) {
    for _ in 0..100 {
        if happened() {
            return;
        }
        assert!(poll(run).is_pending());
        world.pass(MS);
    }
    panic!("it has not happened");
}

#[test]
fn in_a_process_that_stood_still_work_is_polled_no_more() {
    let world = Fixture::new(TTL);
    let semaphore = world.redlock.semaphore("s", 2).unwrap();
    let polls = AtomicUsize::new(0);
    let work = || {
        poll_fn(|_| {
            polls.fetch_add(1, Ordering::Relaxed);
            Poll::<()>::Pending
        })
    };
    for kind in 0..3 {
        polls.store(0, Ordering::Relaxed);
        let mut run: Pin<Box<dyn Future<Output = Result<(), RunError>> + '_>> = match kind {
            0 => Box::pin(world.redlock.acquire("r").run(async |_| work().await)),
            1 => Box::pin(world.redlock.read("r").run(async |_| work().await)),
            _ => Box::pin(semaphore.acquire().run(async |_| work().await)),
        };
        pass_until(&world, &mut run, || polls.load(Ordering::Relaxed) > 0);
        assert!(poll(&mut run).is_pending());
        world.machine.suspend(TTL);
        let before = polls.load(Ordering::Relaxed);
        // Polled for whatever reason, before any task of the engine runs.
        let Poll::Ready(Err(RunError::Lost(lost))) = poll(&mut run) else {
            panic!("{kind}: it goes on")
        };
        assert_eq!(polls.load(Ordering::Relaxed), before, "{kind}");
        assert_eq!(lost.reason, LossReason::RenewalFailed, "{kind}");
        world.pass(SECOND);
        assert_eq!(keys(&world, "r"), 0, "{kind}");
    }
}

/// The work has ended, but after the loss: what it has sent may be on its way.
#[test]
fn work_that_ended_behind_the_loss_leaves_the_keys_for_the_lock_delay() {
    let (ttl, delay) = (2 * SECOND, 4 * SECOND);
    for ends_late in [false, true] {
        let world = Fixture::with(TTL, |builder| builder.ttl(ttl).lock_delay(delay));
        let machine = world.machine.clone();
        let work = async move |_: &Lease| {
            if ends_late {
                // It blocks its thread for longer than its lease lasts.
                machine.suspend(ttl);
            }
        };
        let mut run: Pin<Box<dyn Future<Output = Result<(), RunError>> + '_>> =
            Box::pin(world.redlock.acquire("r").run(work));
        let result = loop {
            match poll(&mut run) {
                Poll::Ready(result) => break result,
                Poll::Pending => world.pass(MS),
            }
        };
        result.unwrap();
        world.pass(MS);
        assert_eq!(keys(&world, "r"), if ends_late { 3 } else { 0 });
    }
}

#[test]
fn work_that_is_dropped_in_the_middle_leaves_nothing() {
    let world = Fixture::new(TTL);
    let mut run: Pin<Box<dyn Future<Output = Result<(), RunError>> + '_>> =
        Box::pin(world.redlock.read("r").run(async |_| pending().await));
    pass_until(&world, &mut run, || keys(&world, "r") == 3);
    drop(run);
    world.pass(MS);
    assert_eq!(keys(&world, "r"), 0);
}

/// The signal tells of the loss, the work comes to its end all the same, and in a task of its own as well.
#[test]
fn work_that_is_told_of_the_loss_comes_to_its_end_under_every_kind() {
    for kind in 0..3 {
        let world = Fixture::new(TTL);
        let (machine, redlock) = (world.machine.clone(), world.redlock.clone());
        let cleanup = 50 * MS;
        let run = async move {
            match kind {
                0 => {
                    let request = redlock.acquire("r").without_renewal();
                    let work = async |_: &Lease, signal: LeaseSignal| {
                        let lost = signal.lost().await;
                        machine.sim.sleep(cleanup).await;
                        lost
                    };
                    request.run_until_lost(work).await.unwrap()
                }
                1 => {
                    let request = redlock.read("r").without_renewal();
                    let work = async |_: &ReadLease, signal: LeaseSignal| {
                        let lost = signal.lost().await;
                        machine.sim.sleep(cleanup).await;
                        lost
                    };
                    request.run_until_lost(work).await.unwrap()
                }
                _ => {
                    let request = redlock.semaphore("s", 1).unwrap().acquire().without_renewal();
                    let work = async |_: &Permit, signal: LeaseSignal| {
                        let lost = signal.lost().await;
                        machine.sim.sleep(cleanup).await;
                        lost
                    };
                    request.run_until_lost(work).await.unwrap()
                }
            }
        };
        let ran = world.machine.sim.block_on(run);
        assert_eq!(ran.lost.as_ref(), Some(&ran.output), "{kind}");
        assert_eq!(ran.output.reason, LossReason::NotRenewed, "{kind}");
    }
}

fn is_called(_: &Lease) -> std::future::Ready<()> {
    panic!("it is called under a lease that is over");
}

/// Work that is a plain function has its effect when it is called, and not when it is polled.
#[test]
fn a_function_is_not_called_under_a_lease_that_is_over() {
    let world = Fixture::new(TTL);
    let mut run = Box::pin(world.redlock.acquire("r").run(is_called));
    assert!(poll(&mut run).is_pending());
    world.pass(MS);
    world.machine.suspend(TTL);
    assert!(matches!(poll(&mut run), Poll::Ready(Err(RunError::Lost(_)))));
}

/// What work leaves when it is dropped may be an effect: the lease still holds then, wherever the future is dropped.
#[test]
fn work_that_is_dropped_is_dropped_before_its_lease() {
    struct Leaves(LeaseSignal, std::sync::Arc<AtomicUsize>);

    impl Drop for Leaves {
        fn drop(&mut self) {
            self.1.fetch_add(usize::from(self.0.check().is_ok()), Ordering::Relaxed);
        }
    }

    for (polls, is_lost) in [(false, false), (true, false), (true, true)] {
        let world = Fixture::new(TTL);
        let lease = world.acquire("r");
        let in_time = std::sync::Arc::new(AtomicUsize::new(0));
        let leaves = Leaves(lease.signal(), std::sync::Arc::clone(&in_time));
        let work = async move {
            let _leaves = leaves;
            pending::<()>().await;
        };
        if is_lost {
            world.machine.suspend(TTL);
        }
        let mut run = Box::pin(lease.run(work));
        if polls {
            assert_eq!(poll(&mut run).is_pending(), !is_lost);
        }
        drop(run);
        assert_eq!(in_time.load(Ordering::Relaxed), usize::from(!is_lost), "{polls}");
    }
}

/// A process stood still from the grant to the end of the lease: work that would be told of the loss is not begun either.
#[test]
fn work_is_not_begun_under_a_lease_that_is_over() {
    let world = Fixture::new(TTL);
    let begun = AtomicUsize::new(0);
    let request = world.redlock.acquire("r").without_renewal();
    let mut run = Box::pin(request.run_until_lost(async |_, _| {
        begun.fetch_add(1, Ordering::Relaxed);
    }));
    assert!(poll(&mut run).is_pending());
    world.pass(2 * TTL);
    let Poll::Ready(Err(error)) = poll(&mut run) else { panic!("it runs") };
    let RunError::Lost(lost) = error else { panic!("{error}") };
    assert_eq!(lost.reason, LossReason::NotRenewed);
    assert_eq!(begun.load(Ordering::Relaxed), 0);
}

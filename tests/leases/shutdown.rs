//! Goal: a shutdown ends every lease, tells its holder, lets work under `run` end before others are let in, and says what
//! it could not end.
//!
//! Method: virtual time; every step of the engine as a point at which the shutdown begins, or is dropped.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{
    AcquireError, CloseError, Closed, LossReason, ReleaseError, RunError, Shutdown,
    runtime::Runtime,
};

use crate::fixture::{Fixture, MS, Manner, SECOND};

const TTL: Duration = Duration::from_secs(10);

type Done<T> = Arc<Mutex<Option<T>>>;

fn beside<T: Send + 'static>(
    world: &Fixture,
    future: impl Future<Output = T> + Send + 'static,
) -> Done<T> {
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    world.machine.spawn(Box::pin(async move {
        let value = future.await;
        *slot.lock().unwrap() = Some(value);
    }));
    result
}

fn shutdown(world: &Fixture) -> Result<Shutdown, CloseError> {
    let redlock = world.redlock.clone();
    world.machine.sim.block_on(async move { redlock.shutdown().await })
}

fn close(world: &Fixture) -> Closed {
    let redlock = world.redlock.clone();
    world.machine.sim.block_on(async move { redlock.close().await }).unwrap()
}

fn keys(world: &Fixture, resource: &str) -> usize {
    world.nodes.iter().filter(|node| node.has(resource)).count()
}

#[test]
fn closing_tells_how_many_leases_are_held_and_shutting_down_releases_them() {
    let world = Fixture::new(TTL);
    let leases = ["a", "b", "c"].map(|name| world.acquire(name));
    drop(world.acquire("dropped"));
    let over = world.request(world.redlock.acquire("over").ttl(SECOND).without_renewal());
    world.pass(2 * SECOND);
    assert!(over.check().is_err());
    assert_eq!(close(&world).held, 3, "neither the dropped nor the lost one");
    assert!(leases.iter().all(|lease| lease.check().is_ok()));

    let done = shutdown(&world).unwrap();
    assert_eq!((done.released, done.gone, done.unfinished), (3, 1, 0));
    assert_eq!(["a", "b", "c", "over"].map(|name| keys(&world, name)), [0; 4]);
    assert_eq!(close(&world).held, 0);
    for lease in leases {
        assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown);
        let again = world.machine.sim.block_on(lease.release());
        assert!(matches!(again, Err(ReleaseError::ShutDown)), "{again:?}");
    }
    let refused = world.machine.sim.block_on(world.redlock.acquire("a").into_future());
    assert!(matches!(refused, Err(AcquireError::Closed)), "{refused:?}");
    assert_eq!(shutdown(&world).unwrap(), done, "asked again, it says the same");
}

#[test]
fn work_is_told_and_its_resource_is_free_when_it_has_ended() {
    let world = Fixture::new(TTL);
    let (dropped, cleanup) = (SECOND, 500 * MS);
    let machine = world.machine.clone();
    let run = world.redlock.acquire("run");
    let run =
        beside(
            &world,
            async move { run.run(async |_| machine.sim.sleep(3_600 * dropped).await).await },
        );
    let (machine, told) = (world.machine.clone(), world.redlock.acquire("told"));
    let told = beside(&world, async move {
        let work = async |lease: &quorlock::Lease, signal: quorlock::LeaseSignal| {
            let reason = signal.lost().await.reason;
            machine.sim.sleep(cleanup).await;
            assert_eq!(lease.check().unwrap_err().reason, reason);
            reason
        };
        told.run_until_lost(work).await
    });
    world.pass(2 * SECOND);
    assert_eq!((keys(&world, "run"), keys(&world, "told")), (3, 3));

    let redlock = world.redlock.clone();
    let done = beside(&world, async move { redlock.shutdown().await });
    world.pass(cleanup - 10 * MS);
    let run = run.lock().unwrap().take().expect("it was dropped where it stood");
    let Err(RunError::Lost(lost)) = run else { panic!("{run:?}") };
    assert_eq!(lost.reason, LossReason::ShutDown);
    assert_eq!((keys(&world, "run"), keys(&world, "told")), (0, 3), "its work goes on");
    assert!(done.lock().unwrap().is_none(), "it waits for that");
    world.pass(20 * MS);
    let told = told.lock().unwrap().take().unwrap().unwrap();
    assert_eq!(
        (told.output, told.lost.unwrap().reason),
        (LossReason::ShutDown, LossReason::ShutDown)
    );
    let done = done.lock().unwrap().take().unwrap().unwrap();
    assert_eq!((done.released, done.gone), (2, 0));
    assert_eq!(keys(&world, "told"), 0);
}

#[test]
fn work_that_does_not_end_keeps_its_key_for_the_ttl_and_is_reported() {
    let world = Fixture::with(TTL, |builder| builder.close_timeout(SECOND));
    let (machine, request) = (world.machine.clone(), world.redlock.acquire("r"));
    let _ran = beside(&world, async move {
        request.run_until_lost(async |_, _| machine.sim.sleep(3_600 * SECOND).await).await
    });
    let _plain = world.acquire("plain");
    world.pass(SECOND);
    let error = shutdown(&world).unwrap_err();
    let expected = CloseError::Unreleased { released: 1, gone: 0, unconfirmed: 0, working: 1 };
    assert_eq!(error, expected);
    assert_eq!((keys(&world, "r"), keys(&world, "plain")), (3, 0));
    world.pass(TTL);
    assert_eq!(keys(&world, "r"), 0, "it is not renewed");
}

#[test]
fn a_minority_that_is_down_is_no_failure_and_a_majority_is_one() {
    for (down, confirmed) in [(1, true), (2, false)] {
        let world = Fixture::with(TTL, |builder| builder.close_timeout(3 * SECOND));
        let leases = ["a", "b"].map(|name| world.acquire(name));
        world.nodes.iter().take(down).for_each(|node| node.set(Manner::Forgetful));
        let since = world.machine.now();
        let done = shutdown(&world);
        let took = world.machine.now().saturating_since(since);
        assert!(took <= 3 * SECOND + 10 * MS, "{took:?}");
        match done {
            Ok(done) => {
                assert!(confirmed && done.unfinished > 0, "{done:?}");
                assert_eq!((done.released, done.gone), (2, 0));
            }
            Err(error) => {
                assert!(!confirmed, "{error}");
                let expected =
                    CloseError::Unreleased { released: 0, gone: 0, unconfirmed: 2, working: 0 };
                assert_eq!(error, expected);
            }
        }
        assert!(leases.iter().all(|lease| lease.check().is_err()));
    }
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The shutdown overtakes an acquire at every step, and is itself dropped at every other.
#[test]
fn an_acquire_at_whatever_step_leaves_nothing_held_and_a_dropped_shutdown_goes_on() {
    for steps in 0..24 {
        for more in 0..12 {
            let world = Fixture::new(TTL);
            let _held = world.acquire("held");
            let mut acquire = Box::pin(world.redlock.acquire("r").into_future());
            assert!(poll(&mut acquire).is_pending());
            (0..steps).for_each(|_| _ = world.machine.sim.step());
            let mut shutdown = Box::pin(world.redlock.shutdown());
            assert!(poll(&mut shutdown).is_pending());
            (0..more).for_each(|_| _ = world.machine.sim.step());
            drop(shutdown);
            world.pass(SECOND);
            let what = format!("{steps} steps, and {more}");
            match poll(&mut acquire) {
                Poll::Ready(Ok(lease)) => {
                    assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown, "{what}");
                }
                Poll::Ready(Err(error)) => assert!(matches!(error, AcquireError::Closed), "{what}"),
                Poll::Pending => panic!("{what}: no answer"),
            }
            assert_eq!((keys(&world, "held"), keys(&world, "r")), (0, 0), "{what}");
            assert_eq!(close(&world).held, 0, "{what}");
        }
    }
}

#[test]
fn work_that_is_not_lost_returns_what_it_has_and_is_released() {
    let world = Fixture::new(TTL);
    let request = world.redlock.acquire("r");
    let ran = request.run_until_lost(async |lease, signal| {
        assert_eq!(signal.token(), lease.token());
        assert!(signal.validity() > Duration::ZERO && signal.check().is_ok());
        7
    });
    let ran = world.machine.sim.block_on(ran).unwrap();
    assert_eq!((ran.output, ran.lost), (7, None));
    assert_eq!(keys(&world, "r"), 0);
}

#[test]
fn work_goes_on_after_the_loss_and_is_told_of_it() {
    let world = Fixture::new(SECOND);
    let (machine, request) = (world.machine.clone(), world.redlock.acquire("r").without_renewal());
    let ran = request.run_until_lost(async move |_, signal| {
        let lost = signal.lost().await;
        machine.sim.sleep(SECOND).await;
        assert_eq!(signal.validity(), Duration::ZERO);
        lost
    });
    let ran = world.machine.sim.block_on(ran).unwrap();
    assert_eq!(ran.output.reason, LossReason::NotRenewed);
    assert_eq!(ran.lost, Some(ran.output));
}

/// The memory of a list that was long is given back when it is empty.
#[test]
fn of_very_many_leases_none_is_forgotten_when_another_is_released() {
    const MANY: usize = 1_100;
    let world = Fixture::new(TTL);
    let mut leases: Vec<_> = (0..MANY).map(|n| world.acquire(&format!("r{n}"))).collect();
    leases.pop();
    assert_eq!(close(&world).held, MANY - 1);
    assert_eq!(shutdown(&world).unwrap().released, MANY - 1);
    assert!(leases.iter().all(|lease| lease.check().is_err()));
}

//! What is true of the clock: whose it is, what it waits for, and what is left when it was moved.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::testing::Fleet;
use tokio::time::{Instant as TokioInstant, sleep, timeout};

use super::{MS, SECOND, everywhere, one_thread, paused, threads, without_waiting};

/// Without the fleet nearly all of these would time out: tokio moves its clock whenever it has nothing to do, also
/// while it waits for the engine's thread.
#[tokio::test(start_paused = true)]
async fn time_limits_of_a_test_whose_time_is_paused_do_not_end_early() {
    let redlock = Fleet::new(5).redlock();
    let began = TokioInstant::now();
    for _ in 0..100 {
        let acquired = timeout(5 * SECOND, redlock.acquire("r").into_future()).await;
        acquired.expect("in time").unwrap().release().await.unwrap();
    }
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_of_the_test_makes_a_lease_expire() {
    let fleet = Fleet::new(5);
    let redlock = fleet.redlock();
    let lease = redlock.acquire("r").without_renewal().await.unwrap();
    let renewed = redlock.acquire("renewed").await.unwrap();
    sleep(30 * SECOND).await;
    assert!(lease.check().is_err());
    renewed.check().unwrap();
    assert!(fleet.nodes().iter().all(|node| node.keys() == [b"renewed"]));
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_of_the_test_ends_an_acquire_when_it_should() {
    let fleet = Fleet::new(5);
    let redlock = fleet.redlock();
    let _other = fleet.hold("r").await;
    let began = TokioInstant::now();
    let acquired = timeout(2 * SECOND, redlock.acquire("r").wait(5 * SECOND).into_future()).await;
    assert!(acquired.is_err());
    assert!(began.elapsed() >= 2 * SECOND && began.elapsed() <= 2 * SECOND + 2 * MS);
    // And nothing of it is left.
    fleet.advance(SECOND).await;
    let began = TokioInstant::now();
    assert!(redlock.acquire("r").wait(5 * SECOND).await.unwrap_err().is_contended());
    let waited = began.elapsed();
    assert!(waited >= 4 * SECOND && waited <= 6 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_clock_moves_by_what_was_asked_for() {
    let fleet = Fleet::new(3);
    let _redlock = fleet.redlock();
    for time in [Duration::ZERO, MS, 7 * MS, SECOND, 3600 * SECOND] {
        let began = TokioInstant::now();
        fleet.advance(time).await;
        let moved = began.elapsed();
        assert!(moved >= time && moved <= time + 2 * MS, "{time:?}: {moved:?}");
    }
}

#[test]
fn a_loss_wakes_who_waits_for_it() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").await.unwrap();
        let signal = lease.signal();
        fleet.stop(0..3);
        let told = AtomicBool::new(false);
        let waits = async {
            lease.lost().await;
            told.store(true, Ordering::SeqCst);
        };
        tokio::join!(waits, fleet.advance(11 * SECOND));
        assert!(told.load(Ordering::SeqCst) && signal.is_lost());
    });
}

/// A task that waits has run by then, as tokio moves its clock no further while any task can run.
#[test]
fn tasks_of_a_runtime_with_one_thread_have_run_when_the_clock_has_been_moved() {
    let test = async {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").await.unwrap();
        fleet.fail(0..3);
        let told = Arc::new(AtomicUsize::new(0));
        let tells = Arc::clone(&told);
        tokio::spawn(async move {
            lease.lost().await;
            tells.fetch_add(1, Ordering::SeqCst);
            sleep(SECOND).await;
            tells.fetch_add(1, Ordering::SeqCst);
            drop(lease);
        });
        fleet.advance(11 * SECOND).await;
        assert_eq!(told.load(Ordering::SeqCst), 2);
    };
    paused(test);
    let test = async {
        // The effects come in the order of their times, whichever task sleeps.
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let _other = fleet.hold_for("r", 4 * SECOND).await;
        let acquired = tokio::spawn(async move {
            let lease = redlock.acquire("r").wait(9 * SECOND).without_renewal().await.unwrap();
            sleep(2 * SECOND).await;
            lease.check().unwrap();
            lease.release().await.unwrap();
        });
        fleet.advance(20 * SECOND).await;
        assert!(acquired.is_finished());
        acquired.await.unwrap();
    };
    one_thread(test);
}

/// At the very last moment, and however many turns it takes.
#[test]
fn what_is_due_at_the_end_has_been_done() {
    let test = async || {
        let fleet = Fleet::new(5);
        let _redlock = fleet.redlock();
        let done = Arc::new(AtomicBool::new(false));
        let does = Arc::clone(&done);
        let due = TokioInstant::now() + 5 * SECOND;
        let work = tokio::spawn(async move {
            tokio::time::sleep_until(due).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            does.store(true, Ordering::SeqCst);
        });
        fleet.advance(due - TokioInstant::now()).await;
        assert!(done.load(Ordering::SeqCst));
        work.await.unwrap();
    };
    paused(test());
    one_thread(test());
}

#[test]
fn tokens_go_with_the_time() {
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        let before = redlock.acquire("r").await.unwrap().token().unwrap().get();
        fleet.advance(600 * SECOND).await;
        let after = redlock.acquire("r").await.unwrap().token().unwrap().get();
        assert!(after - before >= 600_000_000, "{before}, {after}");
    });
}

#[test]
fn a_lease_is_renewed_for_hours() {
    let renewed = async |fleet: Fleet, time: Duration| {
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").await.unwrap();
        fleet.advance(time).await;
        assert!(lease.check().unwrap() > 6 * SECOND);
        assert!(fleet.redlock().try_acquire("r").await.unwrap_err().is_contended());
        lease.release().await.unwrap();
    };
    everywhere(async |fleet: Fleet| renewed(fleet, 3600 * SECOND).await);
    without_waiting("eight hours", || {
        paused(async { renewed(Fleet::new(5), 8 * 3600 * SECOND).await });
    });
}

/// An advance that is polled once, and not waited for.
async fn abandoned(fleet: &Fleet) {
    let advance = std::pin::pin!(fleet.advance(60 * SECOND));
    futures::future::select(advance, std::future::ready(())).await;
}

#[test]
fn an_advance_that_is_abandoned_leaves_the_clock_where_it_is() {
    let test = async || {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").without_renewal().await.unwrap();
        for _ in 0..3 {
            abandoned(&fleet).await;
        }
        drop(fleet.advance(30 * SECOND));
        drop(redlock.acquire("other").await.unwrap());
        lease.check().unwrap();
        // And it can be moved again, by as much as is asked for.
        fleet.advance(5 * SECOND).await;
        lease.check().unwrap();
        fleet.advance(5 * SECOND).await;
        assert!(lease.check().is_err());
    };
    paused(test());
    one_thread(test());
    // On another thread it may have got anywhere before it is dropped. It must be of use afterwards.
    everywhere(async |fleet: Fleet| {
        let redlock = fleet.redlock();
        for _ in 0..10 {
            abandoned(&fleet).await;
            redlock.acquire("r").await.unwrap().release().await.unwrap();
        }
        let lease = redlock.acquire("r").without_renewal().await.unwrap();
        fleet.advance(10 * SECOND).await;
        assert!(lease.check().is_err());
    });
}

#[test]
fn a_clock_that_was_not_paused_goes_on_when_it_has_been_moved() {
    let test = async {
        let fleet = Fleet::new(3);
        let (began, real) = (TokioInstant::now(), Instant::now());
        fleet.advance(60 * SECOND).await;
        drop(fleet.advance(60 * SECOND));
        abandoned(&fleet).await;
        sleep(30 * MS).await;
        assert!(real.elapsed() >= 30 * MS && real.elapsed() < 30 * SECOND);
        let moved = began.elapsed();
        assert!(moved >= 60 * SECOND + 30 * MS && moved < 90 * SECOND, "{moved:?}");
    };
    one_thread(test);
}

#[test]
fn a_task_that_never_rests_does_not_stop_the_clock() {
    let test = async || {
        let fleet = Fleet::new(5);
        let lease = fleet.redlock().acquire("r").await.unwrap();
        // What takes a few turns each time gets along with the clock all the same.
        let works = tokio::spawn(async {
            for _ in 0..100 {
                sleep(10 * MS).await;
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let restless = tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        fleet.advance(3 * SECOND).await;
        assert!(works.is_finished());
        fleet.advance(10 * SECOND).await;
        lease.check().unwrap();
        restless.abort();
    };
    paused(test());
    one_thread(test());
}

#[test]
fn two_who_move_the_clock_at_once_move_it_once() {
    let both = async || {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").without_renewal().ttl(8 * SECOND).await.unwrap();
        tokio::join!(fleet.advance(5 * SECOND), fleet.advance(4 * SECOND));
        lease.check().unwrap();
        fleet.advance(5 * SECOND).await;
        assert!(lease.check().is_err());
        // The first to end leaves it to the other.
        tokio::join!(fleet.advance(60 * SECOND), fleet.advance(SECOND));
    };
    without_waiting("both", || {
        paused(both());
        one_thread(both());
    });
}

#[test]
fn two_fleets_have_nothing_in_common_but_the_runtime() {
    everywhere(async |fleet: Fleet| {
        let other = Fleet::new(3);
        let _held = other.hold("r").await;
        let (here, there) = (fleet.redlock(), other.redlock());
        let lease = here.acquire("r").await.unwrap();
        assert!(there.try_acquire("r").await.unwrap_err().is_contended());
        other.fail(..);
        assert!(!there.try_acquire("s").await.unwrap_err().is_contended());
        fleet.advance(30 * SECOND).await;
        lease.release().await.unwrap();
    });
    // Where each has a clock of its own, one is not moved with the other.
    threads(async {
        let (one, two) = (Fleet::new(3), Fleet::new(3));
        let (first, second) = (one.redlock(), two.redlock());
        let first = first.acquire("r").without_renewal().await.unwrap();
        let second = second.acquire("r").without_renewal().await.unwrap();
        one.advance(30 * SECOND).await;
        assert!(first.check().is_err());
        second.check().unwrap();
    });
}

/// Nothing is drawn or timed differently from one run to the next.
#[test]
fn where_time_is_paused_a_test_does_the_same_each_time() {
    let run = || {
        paused(async {
            let (began, fleet) = (TokioInstant::now(), Fleet::new(5));
            let redlock = fleet.redlock();
            let mut seen = Vec::new();
            let contend = (0..8).map(|_| {
                let redlock = redlock.clone();
                async move {
                    let lease = redlock.acquire("r").await.unwrap();
                    sleep(3 * MS).await;
                    let seen = (began.elapsed(), lease.owner(), lease.validity());
                    drop(lease);
                    seen
                }
            });
            seen.extend(futures::future::join_all(contend).await);
            fleet.advance(QUIET).await;
            seen
        })
    };
    let first = run();
    assert_eq!(first.len(), 8);
    assert_eq!(first, run());
}

const QUIET: Duration = Duration::from_secs(5);

#[test]
fn a_fleet_of_another_clock_is_not_used_where_time_is_paused() {
    let fleet = Fleet::new(3);
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        paused(async { drop(fleet.redlock()) });
    }));
    let message = used.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("make it inside this runtime"), "{message}");
}

#[test]
fn a_fleet_ends_with_the_runtime_that_it_was_made_in() {
    let (fleet, redlock, lease) = paused(async {
        let fleet = Fleet::new(3);
        let redlock = fleet.redlock();
        let lease = redlock.acquire("r").await.unwrap();
        (fleet, redlock, lease)
    });
    let ended = futures::executor::block_on(redlock.acquire("s").into_future()).unwrap_err();
    assert!(matches!(ended, quorlock::AcquireError::RuntimeEnded), "{ended}");
    let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        fleet.blocking_advance(SECOND);
    }));
    let message = moved.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("has ended"), "{message}");
    // Nobody waits for a clock that stands still for ever.
    let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(fleet.blocking_hold("r"));
    }));
    let message = held.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("has ended"), "{message}");
    let _ = futures::executor::block_on(fleet.builder().connect());
    drop(lease);
    drop(redlock);
}

//! The blocking forms, wherever they can work.

use quorlock::{AcquireError, testing::Fleet};

use super::{QUARANTINE, SECOND, one_thread, paused, threads, without_waiting};

/// All that a test of blocking code does.
fn scenario(fleet: &Fleet) {
    let redlock = fleet.redlock();
    let lease = redlock.acquire("r").blocking().unwrap();
    fleet.blocking_advance(QUARANTINE);
    lease.check().unwrap();
    lease.blocking_release().unwrap();
    let other = fleet.blocking_hold("r");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| redlock.acquire("r").wait(600 * SECOND).blocking());
        fleet.blocking_advance(SECOND);
        drop(other);
        drop(waits.join().unwrap().unwrap());
    });
    fleet.fail(0..3);
    assert!(!redlock.try_acquire("r").blocking().unwrap_err().is_contended());
    fleet.restore(..);
    redlock.blocking_close().unwrap();
}

#[test]
fn without_a_runtime() {
    scenario(&Fleet::new(5));
}

#[test]
fn in_a_runtime_with_several_threads() {
    threads(async {
        let fleet = Fleet::new(5);
        tokio::task::spawn_blocking(move || scenario(&fleet)).await.unwrap();
    });
    // Bad manners, and it works.
    threads(async { scenario(&Fleet::new(5)) });
}

#[test]
fn in_a_runtime_with_one_thread_and_one_of_the_fleets_own() {
    one_thread(async { scenario(&Fleet::on_thread(5)) });
}

#[test]
fn on_another_thread_of_a_runtime_with_one() {
    let test = async || {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let leases = (0..10).map(|job| {
            let redlock = redlock.clone();
            tokio::task::spawn_blocking(move || redlock.acquire(format!("{job}")).blocking())
        });
        for lease in leases.collect::<Vec<_>>() {
            lease.await.unwrap().unwrap().release().await.unwrap();
        }
    };
    one_thread(test());
    paused(test());
}

/// Tokio moves no clock while such a thread is at work, and this one waits for the clock.
#[test]
fn who_waits_on_another_thread_of_a_runtime_with_one_is_not_waited_for() {
    let test = async || {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let _other = fleet.hold("r").await;
        let lease = redlock.acquire("kept").await.unwrap();
        let lost = redlock.acquire("lost").without_renewal().await.unwrap();
        let waits = tokio::task::spawn_blocking(move || {
            redlock.acquire("r").wait(20 * SECOND).blocking().unwrap_err()
        });
        fleet.advance(21 * SECOND).await;
        lease.check().unwrap();
        assert!(lost.check().is_err());
        assert!(waits.await.unwrap().is_contended());
    };
    without_waiting("both", || {
        one_thread(test());
        paused(test());
    });
}

#[test]
fn on_the_thread_itself_they_say_so() {
    one_thread(async {
        let fleet = Fleet::new(5);
        let redlock = fleet.redlock();
        let refused = redlock.acquire("r").blocking().unwrap_err();
        assert!(matches!(refused, AcquireError::WouldDeadlock), "{refused}");
        let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            fleet.blocking_advance(SECOND);
        }));
        let message = moved.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("await Fleet::advance instead"), "{message}");
    });
}

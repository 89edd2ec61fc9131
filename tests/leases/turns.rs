//! Goal: where many ask at once, each waits for its turn alone; a caller that goes away, or a panic while turns are
//! given, keeps no other from its turn; and fewer ask at once where nodes are too slow, not where they are gone.
//!
//! Method: virtual time, as many as may ask at once of nodes that hang, and a clock that panics.

use std::{future::IntoFuture, task::Poll, time::Duration};

use quorlock::{AcquireError, AcquireFuture, Redlock};

use crate::{
    fixture::{Fixture, MS, SECOND},
    line::{got, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);

/// How many may ask at once in the beginning.
const AT_ONCE: usize = 64;

/// How often at least the clock is read until a waiter has been given a turn.
const FIRST_ANSWERS: usize = 12;

fn waits_for(redlock: &Redlock, name: &str) -> AcquireFuture {
    let mut future = redlock.acquire(name).wait(60 * SECOND).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

/// Nodes hang, and all turns are taken.
fn all_taken() -> (Fixture, Vec<AcquireFuture>) {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(5 * SECOND));
    world.nodes.iter().for_each(|node| node.hang());
    let all = (0..AT_ONCE).map(|n| waits_for(&world.redlock, &format!("a{n}"))).collect();
    world.pass(MS);
    (world, all)
}

#[test]
fn whoever_goes_once_it_is_answered_takes_nobodys_turn_along() {
    let (world, _all) = all_taken();
    let sent = world.sent();
    let mut first = waiter(&world, 60 * SECOND);
    let second = waiter(&world, 20 * MS);
    world.pass(50 * MS);
    assert_eq!(world.sent(), sent, "they wait for a turn");
    // Its time was up long ago.
    drop(second);
    world.nodes.iter().for_each(|node| node.resume());
    world.pass(100 * MS);
    got(&mut first).unwrap().check().unwrap();
}

/// One request may be lost with it, and no more.
#[test]
fn a_clock_that_panics_while_turns_are_given_keeps_nobody_from_one() {
    for nth in 1..=FIRST_ANSWERS {
        let (world, mut all) = all_taken();
        all.extend((0..3).map(|n| waits_for(&world.redlock, &format!("b{n}"))));
        world.nodes.iter().for_each(|node| node.resume());
        assert!(world.machine.pass_with_a_panic(nth, SECOND), "{nth}");
        world.pass(SECOND);
        let mut lost = 0;
        for waiting in &mut all {
            match got(waiting) {
                Ok(lease) => assert!(lease.check().is_ok(), "{nth}"),
                Err(AcquireError::RuntimeEnded) => lost += 1,
                Err(error) => panic!("{nth}: {error}"),
            }
        }
        assert!(lost <= 1, "{nth}: {lost}");
    }
}

/// How many commands a crowd sends at once, after a round that came to nothing.
fn sent_by_a_crowd_behind(fails: impl FnOnce(&Fixture)) -> usize {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(100 * MS));
    fails(&world);
    let mut once = world.redlock.try_acquire("once").into_future();
    // Where no node is there, that is the answer at once.
    let answer = match poll(&mut once) {
        Poll::Ready(answer) => answer,
        Poll::Pending => {
            world.pass(200 * MS);
            got(&mut once)
        }
    };
    assert!(matches!(answer, Err(AcquireError::NoQuorum { .. })));
    world.nodes.iter().for_each(|node| node.reconnect());
    world.nodes.iter().for_each(|node| node.resume());
    world.pass(SECOND);
    world.nodes.iter().for_each(|node| node.hang());
    let sent = world.sent();
    let _crowd: Vec<AcquireFuture> =
        (0..2 * AT_ONCE).map(|n| waits_for(&world.redlock, &format!("r{n}"))).collect();
    world.pass(MS);
    (world.sent() - sent) / world.nodes.len()
}

#[test]
fn fewer_take_turns_at_once_behind_a_round_that_was_too_slow_and_not_behind_one_that_failed() {
    let slow = sent_by_a_crowd_behind(|world| world.nodes.iter().for_each(|node| node.hang()));
    let gone =
        sent_by_a_crowd_behind(|world| world.nodes.iter().for_each(|node| node.disconnect()));
    assert_eq!((slow, gone), (AT_ONCE / 2, AT_ONCE));
}

/// After a burst nothing is left among the timers, and no task would look again.
#[test]
fn of_very_many_whose_time_is_up_at_once_each_is_told() {
    const MANY: usize = 1_000;
    let (world, _all) = all_taken();
    let late = |n| world.redlock.acquire(format!("late {n}")).wait(20 * MS).into_future();
    let mut late: Vec<AcquireFuture> = (0..MANY).map(late).collect();
    late.iter_mut().for_each(|late| assert!(poll(late).is_pending()));
    // The nodes hang, and nothing else happens meanwhile.
    world.pass(100 * MS);
    for (place, late) in late.iter_mut().enumerate() {
        let error = got(late).expect_err("all turns are taken");
        assert!(matches!(error, AcquireError::Crowded { .. }), "{place}: {error}");
    }
}

//! Losses: told before the lease ends, whatever stands still.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use quorlock_harness::eventually;

use super::fleet::{Fleet, Helper, SOON};

/// Until when the lease surely holds, by an answer to `check`.
#[track_caller]
fn held_until(helper: &mut Helper) -> Instant {
    let asked = Instant::now();
    let answer = helper.ask("check", "held");
    asked + Duration::from_millis(answer["validity_ms"].as_u64().unwrap())
}

#[test]
fn keys_that_somebody_removes_are_a_loss_that_is_told_before_the_end() {
    let fleet = Fleet::start();
    let (mut helper, _) = fleet.granted("job --json");
    let until = held_until(&mut helper);
    fleet.servers.iter().for_each(|server| assert!(server.del("job")));
    let lost = helper.event("lost");
    // At the next renewal, which leaves two thirds of ten seconds.
    assert!(Instant::now() < until, "{lost}");
    assert!(!lost["reason"].as_str().unwrap().is_empty());
    assert_eq!((helper.ends(), helper.rest()), (76, vec![]));
}

#[test]
fn without_a_majority_it_says_that_the_lease_ends_and_then_that_it_is_lost_in_time() {
    // A busy machine may be late once.
    let is_in_time = (0..5).any(|_| {
        let fleet = Fleet::start();
        let (mut helper, _) = fleet.granted("job --json --ttl 2s");
        fleet.servers[0].kill();
        fleet.servers[1].kill();
        let until = held_until(&mut helper);
        let ending = helper.event("ending");
        assert!(ending["validity_ms"].as_u64().unwrap() < 1_000, "{ending}");
        helper.event("lost");
        let is_in_time = Instant::now() < until;
        assert_eq!(helper.ends(), 76);
        is_in_time
    });
    assert!(is_in_time);
}

#[test]
fn each_time_that_it_is_about_to_end_is_told() {
    let fleet = Fleet::start();
    let (mut helper, _) = fleet.granted("job --json --ttl 9s");
    for _ in 0..2 {
        let before = held_until(&mut helper);
        fleet.servers[0].pause();
        fleet.servers[1].pause();
        helper.event("ending");
        fleet.servers[0].resume();
        fleet.servers[1].resume();
        eventually("it is renewed", SOON, || held_until(&mut helper) > before);
    }
    helper.ask("release", "released");
}

#[test]
fn one_that_was_stopped_beyond_the_end_says_so_and_leaves_the_next_holder_alone() {
    let fleet = Fleet::start();
    let (mut helper, _) = fleet.granted("job --json --ttl 1s");
    helper.signal(Signal::SIGSTOP);
    let (mut next, _) = fleet.granted("job --json");
    eventually("the next holder has it everywhere", SOON, || fleet.keys("job") == 3);
    helper.say("check 1");
    helper.signal(Signal::SIGCONT);
    // The question is answered by that.
    assert_eq!(helper.next()["event"], "lost");
    assert_eq!((helper.ends(), helper.rest()), (76, vec![]));
    assert_eq!(fleet.keys("job"), 3);
    next.ask("check", "held");
}

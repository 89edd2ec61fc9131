//! What a failure costs waiters: nothing where one of them is killed, a grace where one is stopped, and a poll at most
//! where they were not told.

use std::time::Duration;

use super::{
    seeds,
    setup::{Faults, Setup},
    world::run,
};

const MS: Duration = Duration::from_millis(1);

/// The longest time from a release to the next grant, and the longest wait of anybody.
fn longest(setup: Setup) -> (Duration, Duration) {
    let outcome = run(setup);
    outcome.assert_sound(&setup);
    let longest = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    (longest(&outcome.figures.hand_overs), longest(&outcome.figures.waits))
}

#[test]
fn after_a_killed_waiter_the_next_grant_is_late_by_nothing() {
    for seed in seeds(2) {
        let (undisturbed, _) = longest(Setup::new(16, seed));
        let kills = Faults { kill_waiter: Some(20 * MS), ..Faults::NONE };
        let (latest, _) = longest(Setup::new(16, seed).with(kills));
        assert!(latest < undisturbed + MS / 2, "seed {seed}: {latest:?}, else {undisturbed:?}");
    }
}

#[test]
fn after_a_stopped_waiter_it_is_late_by_a_grace_and_that_one_comes_back() {
    for (every, lasts) in [(250, 200), (1_100, 1_000)] {
        for seed in seeds(1) {
            let stops = Faults { stop_waiter: Some((every * MS, lasts * MS)), ..Faults::NONE };
            let setup = Setup::new(16, seed).with(stops).lasting(Duration::from_secs(4));
            let (latest, wait) = longest(setup);
            assert!((2 * MS..4 * MS).contains(&latest), "seed {seed}, {lasts}: {latest:?}");
            // It is served when it has gone on, with the place that it had.
            let back = (lasts + 60) * MS;
            assert!(wait > lasts * MS && wait < back, "seed {seed}: {wait:?}");
        }
    }
}

#[test]
fn where_several_in_a_row_are_stopped_whoever_comes_finds_it_out() {
    for seed in seeds(1) {
        let stops = Faults { stop_waiter: Some((20 * MS, 200 * MS)), ..Faults::NONE };
        let (latest, _) = longest(Setup::new(16, seed).with(stops));
        assert!(latest < 150 * MS, "seed {seed}: {latest:?}");
    }
}

#[test]
fn where_lines_are_gone_those_who_stood_there_are_back_within_a_poll() {
    for seed in seeds(1) {
        let flushes = Faults { flush: Some(2_000 * MS), ..Faults::NONE };
        let setup = Setup::new(16, seed).with(flushes).lasting(Duration::from_secs(5));
        let (latest, wait) = longest(setup);
        assert!(wait < 1_600 * MS && latest < 1_500 * MS, "seed {seed}: {wait:?} {latest:?}");
    }
}

#[test]
fn the_key_of_one_who_was_killed_costs_its_lifetime_and_those_who_wait_come_in_order() {
    for seed in seeds(1) {
        let kills = Faults { kill_any: Some(700 * MS), ..Faults::NONE };
        let (latest, wait) =
            longest(Setup::new(16, seed).with(kills).lasting(Duration::from_secs(4)));
        // Where one was killed that had just been woken, too.
        assert!(latest < (500 + 4) * MS, "seed {seed}: {latest:?} after a release");
        assert!(wait < (500 + 60) * MS, "seed {seed}: {wait:?}");
    }
}

/// Clients beside the nodes begin with a grace shorter than the far client's way, and each of them has to find that
/// out.
#[test]
fn one_who_is_far_from_the_nodes_gets_its_turns_among_those_who_are_near() {
    for seed in seeds(1) {
        let turns = |far, seconds, least| {
            let setup = Setup::new(16, seed).with(Faults { far: far * MS, ..Faults::NONE });
            let setup = setup.lasting(Duration::from_secs(seconds));
            let outcome = run(setup);
            outcome.assert_sound(&setup);
            let (turns, all) = (outcome.figures.grants[&0], outcome.figures.granted());
            let wait = outcome.figures.waits.iter().max().unwrap();
            println!("{far} ms, seed {seed}: {turns} of {all} turns, {wait:?} at most");
            assert!(turns > least && *wait < 6_000 * MS, "seed {seed}: {turns} of {all}, {wait:?}");
            turns
        };
        turns(30, 20, 25);
        // How soon each of the others has found it out depends on how its way fits into the length of a turn.
        let near: u64 = (1..=5).map(|far| turns(far, 5, 10)).sum();
        assert!(near > 5 * 50, "seed {seed}: {near}");
    }
}

/// As when an operator sets fast server clocks right, one after the other.
#[test]
fn where_the_clocks_of_the_nodes_are_set_back_those_who_wait_are_not_behind_all_who_come() {
    for nodes in [5, 3, 1] {
        for seed in seeds(1) {
            let set_back = Some((300 * MS, 3_600));
            let setup = Setup::new(8, seed).with(Faults { set_back, ..Faults::NONE });
            let setup = Setup { nodes, ..setup.lasting(Duration::from_secs(6)) };
            let outcome = run(setup);
            outcome.assert_sound(&setup);
            let wait = outcome.figures.waits.iter().max().unwrap();
            println!("{nodes} nodes, seed {seed}: {wait:?} at most");
            assert!(*wait < 1_600 * MS, "{nodes} nodes, seed {seed}: {wait:?}");
        }
    }
}

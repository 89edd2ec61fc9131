//! Faults that are planted: the checks that find nothing in production's code find each of them.

use std::time::Duration;

use super::{
    seeds,
    setup::{Bug, Faults, Setup},
    world::run,
};

const STOPS: Faults = Faults {
    stop_waiter: Some((Duration::from_millis(700), Duration::from_millis(200))),
    ..Faults::NONE
};

/// What a check has to say of a run.
fn found(bug: Bug, seed: u64) -> Option<String> {
    let setup = Setup::new(16, seed).with(STOPS).lasting(Duration::from_millis(2_500)).planted(bug);
    let outcome = run(setup);
    let longest = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    let (latest, wait) = (longest(&outcome.figures.hand_overs), longest(&outcome.figures.waits));
    let late = Duration::from_millis(4);
    let starved = Duration::from_secs(1);
    match bug {
        Bug::None => {
            outcome.assert_sound(&setup);
            outcome.assert_in_order(&setup);
            assert!(latest < late && wait < starved, "seed {seed}: {latest:?} {wait:?}");
            None
        }
        Bug::NewcomersOvertake | Bug::OwnClocks => outcome.checker.overtaken.first().cloned(),
        Bug::LineGrants => outcome.checker.unsafe_at.first().cloned(),
        Bug::WakesTheWrongAndNobodyPolls => {
            let one = outcome.unserved.first();
            one.map(|(who, since)| format!("{who} waits since {since:?}, and for ever"))
        }
        Bug::HeadIsNeverNamed => (latest >= late).then(|| format!("late by {latest:?}")),
        Bug::NamedForGood => (wait >= starved).then(|| format!("one has waited for {wait:?}")),
    }
}

#[test]
fn each_is_found_by_the_check_that_is_there_for_it() {
    for bug in [
        Bug::NewcomersOvertake,
        Bug::WakesTheWrongAndNobodyPolls,
        Bug::HeadIsNeverNamed,
        Bug::NamedForGood,
        Bug::OwnClocks,
        Bug::LineGrants,
    ] {
        for seed in seeds(1) {
            let found = found(bug, seed);
            println!("{bug:?}: {found:?}");
            assert!(
                found.is_some(),
                "{bug:?}, seed {seed}: a check that finds nothing proves nothing"
            );
        }
    }
}

#[test]
fn the_same_checks_find_nothing_where_nothing_is_planted() {
    for seed in seeds(1) {
        assert_eq!(found(Bug::None, seed), None);
    }
}

/// Such a client knows only the clocks of the nodes that answered first, different ones each time.
#[test]
fn tickets_by_the_clocks_of_some_nodes_are_found_where_clocks_are_apart() {
    let apart = Faults { apart: 5, ..Faults::NONE };
    for seed in seeds(1) {
        let setup = Setup::new(16, seed).with(apart).lasting(Duration::from_millis(500));
        let outcome = run(Setup { knows_clocks: false, ..setup });
        assert!(!outcome.checker.overtaken.is_empty());
        run(setup).assert_in_order(&setup);
    }
}

//! Whatever the lines say, and whatever fails, there is one valid holder at most, tokens rise, and everybody is served.

use std::time::Duration;

use super::{
    seeds,
    setup::{Faults, Setup},
    world::run,
};

/// As many clients and nodes as a seed has it.
fn crowd(seed: u64) -> Setup {
    let clients = [2, 3, 8, 16, 50][seed as usize % 5];
    let nodes = [5, 3, 4][seed as usize % 3];
    Setup { nodes, at_once: seed % 4 == 3, ..Setup::new(clients, seed) }
}

#[test]
fn one_holder_rising_tokens_and_nobody_waits_for_ever_whatever_fails() {
    let mut grants = 0;
    for (name, faults) in Faults::each() {
        for seed in seeds(5) {
            let setup = crowd(seed).with(faults).lasting(Duration::from_millis(600));
            let outcome = run(setup);
            outcome.assert_sound(&setup);
            grants += outcome.figures.granted();
            println!("{name:24} {:2} of {}: {}", setup.clients, setup.nodes, outcome.figures);
        }
    }
    println!("grants={grants}");
    assert!(grants > 15_000, "too few grants to prove anything: {grants}");
}

#[test]
fn lines_that_are_nothing_but_lies_cost_time_and_nothing_else() {
    let (mut runs, mut grants) = (0, 0);
    for seed in seeds(4) {
        let lies = Faults { lie: 1.0, garble: 0.9, lose: 0.1, ..Faults::NONE };
        let setup = crowd(seed).with(lies).lasting(Duration::from_secs(1));
        let outcome = run(setup);
        outcome.assert_sound(&setup);
        println!("lies: {}", outcome.figures);
        // How many of one run are late by a poll each time is chance.
        assert!(outcome.figures.granted() > 3, "{setup:?}: {}", outcome.figures);
        (runs, grants) = (runs + 1, grants + outcome.figures.granted());
    }
    assert!(grants > 40 * runs, "{grants} grants in {runs} runs");
}

#[test]
fn where_nodes_have_no_line_they_are_polled_as_before() {
    for seed in seeds(4) {
        let setup = Setup { lines: false, ..crowd(seed) }
            .with(Faults { kill_any: Some(Duration::from_millis(300)), ..Faults::NONE });
        let outcome = run(setup);
        outcome.assert_sound(&setup);
        assert!(outcome.figures.pushes == 0 && outcome.figures.granted() > 100);
    }
}

//! Except after a failure of a node, a process or a connection, no waiter is overtaken by a later one.

use std::time::Duration;

use super::{
    seeds,
    setup::{Faults, Setup},
    world::run,
};

#[test]
fn nobody_is_overtaken_by_one_who_came_after_it_stood_in_the_line() {
    let calm = ["nothing", "waiters killed", "a node down", "clocks apart"];
    for (name, faults) in Faults::each().into_iter().filter(|(name, _)| calm.contains(name)) {
        for seed in seeds(8) {
            let (nodes, at_once) =
                [(5, false), (3, false), (5, true), (4, false)][seed as usize % 4];
            let clients = [16, 3, 50, 2][(seed as usize + seed as usize / 4) % 4];
            let half = Duration::from_millis(500);
            let setup = Setup::new(clients, seed).with(faults).lasting(half);
            let setup = Setup { nodes, at_once, hears_late: seed % 3 != 2, ..setup };
            let outcome = run(setup);
            outcome.assert_sound(&setup);
            outcome.assert_in_order(&setup);
            assert!(outcome.figures.granted() > 150, "{name}: {}", outcome.figures);
        }
    }
}

/// A failure may cost the clients it strikes their places. Of all others few are overtaken.
#[test]
fn after_a_failure_few_others_are_overtaken() {
    for (name, faults) in Faults::each() {
        // Where lines say anything at all, there is no order.
        if faults.lie > 0.0 {
            continue;
        }
        let (mut overtaken, mut grants) = (0, 0);
        for seed in seeds(1) {
            let setup = Setup::new(16, seed).with(faults);
            let outcome = run(setup);
            overtaken += outcome.checker.overtaken.len();
            grants += outcome.figures.granted();
        }
        println!("{name:24} {overtaken} overtaken in {grants} grants");
        assert!(overtaken as u64 <= grants / 100, "{name}: {overtaken} in {grants} grants");
    }
}

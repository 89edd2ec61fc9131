//! Many seeds, each a run of its own. A seed that fails prints how to replay it.
//!
//! `QUORLOCK_SIM_SEEDS` says how many (300), `QUORLOCK_SIM_SEED` picks one and prints its trace.

use std::{env, panic};

use crate::world::{self, Outcome, Setup};

const SEEDS: u64 = 300;

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {value}")))
}

/// Runs one seed, and says how to do so again if it fails.
pub(crate) fn run(seed: u64) -> Result<Outcome, String> {
    let replay = format!(
        "replay: QUORLOCK_SIM_SEED={seed} cargo test --all-features --test sim -- seeds --nocapture"
    );
    let outcome = panic::catch_unwind(|| world::run(seed, Setup::SOUND))
        .map_err(|_| format!("seed {seed} panicked\n{replay}"))?;
    match &outcome.verdict {
        Ok(()) => Ok(outcome),
        Err(violation) => Err(format!("seed {seed}: {violation}\n{replay}")),
    }
}

#[test]
fn no_seed_breaks_exclusion_or_leaves_anything() {
    if let Some(seed) = number("QUORLOCK_SIM_SEED") {
        world::run(seed, Setup::SOUND).trace.0.iter().for_each(|line| println!("{line}"));
        run(seed).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let seeds = number("QUORLOCK_SIM_SEEDS").unwrap_or(SEEDS);
    let (mut grants, mut failures, mut cancelled, mut faults) = (0, 0, 0, 0);
    let mut broken = Vec::new();
    for seed in 0..seeds {
        match run(seed) {
            Ok(outcome) => {
                grants += outcome.grants;
                failures += outcome.failures;
                cancelled += outcome.cancelled;
                faults += outcome.faults;
            }
            Err(failure) => broken.push(failure),
        }
    }
    println!(
        "seeds={seeds} grants={grants} failures={failures} cancelled={cancelled} faults={faults}"
    );
    assert!(broken.is_empty(), "{} of {seeds}:\n{}", broken.len(), broken.join("\n"));
    // A simulation in which nothing happens would prove nothing.
    let seeds = usize::try_from(seeds).unwrap();
    assert!(grants > 5 * seeds && failures > seeds && cancelled > seeds && faults > 5 * seeds);
}

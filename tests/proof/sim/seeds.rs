//! Many seeds, each a run of its own. A seed that fails prints how to replay it.
//!
//! `QUORLOCK_SIM_SEEDS` says how many (300), `QUORLOCK_SIM_SEED` picks one and prints its trace.

use std::{env, panic};

use crate::{
    setup::Setup,
    world::{self, Outcome},
};

const SEEDS: u64 = 300;

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {value}")))
}

/// Runs one seed, and says how to do so again if it fails.
fn run(seed: u64, setup: Setup, test: &str) -> Result<Outcome, String> {
    let replay = format!(
        "replay: QUORLOCK_SIM_SEED={seed} cargo test --profile proof -p quorlock-proof --test sim -- {test} --nocapture"
    );
    let outcome = panic::catch_unwind(|| world::run(seed, setup))
        .map_err(|_| format!("seed {seed} panicked\n{replay}"))?;
    match &outcome.verdict {
        Ok(()) => Ok(outcome),
        Err(violation) => Err(format!("seed {seed}: {violation}\n{replay}")),
    }
}

/// Runs many seeds of one setup.
fn run_all(setup: Setup, test: &str) {
    if let Some(seed) = number("QUORLOCK_SIM_SEED") {
        world::run(seed, setup).trace.0.iter().for_each(|line| println!("{line}"));
        run(seed, setup, test).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let seeds = number("QUORLOCK_SIM_SEEDS").unwrap_or(SEEDS);
    let (mut grants, mut failures, mut cancelled, mut lost, mut faults) = (0, 0, 0, 0, 0);
    let mut kept_out = 0;
    let mut broken = Vec::new();
    for seed in 0..seeds {
        match run(seed, setup, test) {
            Ok(outcome) => {
                grants += outcome.grants;
                failures += outcome.failures;
                cancelled += outcome.cancelled;
                lost += outcome.lost;
                faults += outcome.faults;
                kept_out += outcome.kept_out;
            }
            Err(failure) => broken.push(failure),
        }
    }
    println!(
        "seeds={seeds} grants={grants} failures={failures} cancelled={cancelled} lost={lost} kept_out={kept_out} faults={faults}"
    );
    assert!(broken.is_empty(), "{} of {seeds}:\n{}", broken.len(), broken.join("\n"));
    // A simulation in which nothing happens would prove nothing.
    let seeds = usize::try_from(seeds).unwrap();
    assert!(grants > 5 * seeds && failures > seeds && cancelled > seeds && faults > 5 * seeds);
    assert!(lost > seeds / 10, "{lost}");
    assert!(setup.lock_delay.is_zero() || kept_out > seeds / 10, "{kept_out}");
}

#[test]
fn no_seed_breaks_exclusion_or_fencing_or_leaves_anything() {
    run_all(Setup::SOUND, "no_seed_breaks");
}

#[test]
fn no_seed_does_where_one_quarantine_follows_another() {
    run_all(Setup::BUSY, "no_seed_does");
}

#[test]
fn no_seed_does_where_no_client_lives_long() {
    run_all(Setup::SHORT_LIVED, "no_seed_does_where_no_client");
}

#[test]
fn no_seed_lets_anybody_in_before_the_lock_delay_is_over() {
    run_all(Setup::DELAYED, "no_seed_lets");
}

#[test]
fn no_seed_of_plain_redlock_breaks_exclusion_or_leaves_anything() {
    run_all(Setup::CLASSIC, "no_seed_of");
}

#[test]
fn no_seed_of_permits_gives_a_slot_to_two_or_leaves_anything() {
    run_all(Setup::PERMITS, "no_seed_of_permits");
}

#[test]
fn no_seed_of_sets_that_overlap_breaks_any_of_it() {
    run_all(Setup::SETS, "no_seed_of_sets");
}

#[test]
fn no_seed_of_readers_and_writers_breaks_any_of_it() {
    run_all(Setup::READERS, "no_seed_of_readers");
}

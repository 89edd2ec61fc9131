//! Elections in the same worlds: candidates that lead, resign, go away, lose and are killed, and observers, from one seed.
//!
//! Goal: no two act within their terms, work ends before its term does for others, terms rise, and observers report nobody who
//! was not elected, nor one behind whom another had been. Method: each piece of work writes down from when to when it acted,
//! each observer what it saw; `invariants/` judges, and is tried on histories written by hand. Candidates that end
//! their work behind their term, servers that record too early, and an observer that believes one node are planted.

mod candidate;
mod invariants;

use std::time::{Duration, Instant};

use quorlock_harness::{SimRuntime, evidence::Evidence};

use self::{
    candidate::{Candidates, TERMS},
    invariants::{History, Violation, check},
};
use crate::{
    faults::{Fault, Faults},
    node::{Bug, Watch},
    reached::Reached,
    seeds::number,
    setup::Setup,
    world::{self, Notes, World},
};

/// What is wrong with the clients, on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// It resigns, and then ends its work.
    ResignsFirst,
    /// It believes whatever node answers.
    BelievesOne,
}

/// What a run came to.
struct Outcome {
    verdict: Result<(), Violation>,
    history: History,
    /// How many candidates were killed, and how many of them while they led.
    killed: (usize, usize),
    trace: (Vec<String>, u64),
}

fn run(seed: u64, setup: Setup, flaw: Flaw, keeps_lines: bool) -> Outcome {
    let runtime = SimRuntime::with_trace(seed, keeps_lines);
    let nodes = if runtime.chance(0.5) { 3 } else { 5 };
    let clients = 2 + usize::try_from(runtime.below(3)).unwrap();
    let reached = Reached::default();
    let servers = world::servers(&runtime, nodes, setup, &Watch::new(reached.clone()));
    let notes = Notes::new(runtime.clone(), reached);
    notes.expect(clients, TERMS);
    let candidates = Candidates::new(&servers, setup, flaw, &notes);
    let (machines, processes) = (candidates.machines(), candidates.clone());
    let world = World { servers, notes, machines, processes };
    (0..clients).for_each(|client| world.begin(client));
    world.torment(setup, nodes);
    let (history, killed) = (candidates.history(), candidates.killed());
    let verdict = check(&history);
    let trace = runtime.trace();
    runtime.shut_down();
    Outcome { verdict, history, killed, trace }
}

const SETUP: Setup = Setup {
    name: "elections",
    longest_ttl: Duration::from_secs(1),
    faults: Faults::NETWORK.with(Fault::KillClient, 1),
    ..Setup::SOUND
};

/// The same where one quarantine follows another.
const HURRIED: Setup = Setup {
    name: "elections in a hurry",
    longest_ttl: Duration::from_millis(400),
    spared: Duration::from_millis(700),
    reckless: 0.1,
    ..SETUP
};

/// A share of those of the other setups.
fn seeds() -> u64 {
    number("QUORLOCK_SIM_SEEDS").map_or(200, |seeds| seeds.div_ceil(100))
}

fn replay(seed: u64, test: &str) -> String {
    format!(
        "replay: QUORLOCK_SIM_SEED={seed} cargo test --profile proof -p quorlock-proof --test sim -- --exact elections::{test} --nocapture"
    )
}

fn run_all(setup: Setup, test: &str) {
    if let Some(seed) = number("QUORLOCK_SIM_SEED") {
        let outcome = run(seed, setup, Flaw::None, true);
        outcome.trace.0.iter().for_each(|line| println!("{line}"));
        assert_eq!(outcome.verdict, Ok(()));
        return;
    }
    let (mut won, mut reports, mut killed, mut in_office) = (0, 0, 0, 0);
    let (from, mut failed, begun) =
        (number("QUORLOCK_SIM_FROM").unwrap_or(0), Vec::new(), Instant::now());
    for seed in from..from + seeds() {
        let outcome = run(seed, setup, Flaw::None, false);
        won += outcome.history.won.len();
        reports += outcome.history.reports.len();
        killed += outcome.killed.0;
        in_office += outcome.killed.1;
        let failure = |violation| format!("seed {seed}: {violation:#?}\n{}", replay(seed, test));
        failed.extend(outcome.verdict.err().map(failure));
    }
    Evidence::new("sim", "simulation of elections", setup.name)
        .count("seeds", seeds())
        .count("violations", failed.len())
        .count("terms", won)
        .count("reports", reports)
        .count("killed", killed)
        .count("killed_in_office", in_office)
        .seconds(begun.elapsed())
        .tell();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), seeds(), failed.join("\n"));
    let seeds = usize::try_from(seeds()).unwrap();
    assert!(won > 5 * seeds && reports > 5 * seeds, "a simulation in which nothing happens");
    assert!(killed > seeds && in_office > seeds / 10, "{killed} killed, {in_office} in office");
}

#[test]
fn no_seed_has_two_leaders_at_once_nor_reports_one_that_was_not_elected() {
    run_all(SETUP, "no_seed_has_two_leaders_at_once_nor_reports_one_that_was_not_elected");
}

#[test]
fn no_seed_of_elections_does_where_one_quarantine_follows_another() {
    run_all(HURRIED, "no_seed_of_elections_does_where_one_quarantine_follows_another");
}

fn violations(setup: Setup, flaw: Flaw) -> impl Iterator<Item = Violation> {
    (0..100).filter_map(move |seed| run(seed, setup, flaw, false).verdict.err())
}

#[test]
fn a_candidate_that_resigns_before_its_work_has_ended_is_seen() {
    let seen = violations(SETUP, Flaw::ResignsFirst);
    assert!({ seen }.any(|seen| matches!(seen, Violation::Overlap(..))));
}

#[test]
fn servers_that_record_a_leader_before_it_has_won_are_seen() {
    let setup = Setup { bug: Bug::RecordsEarly, bugged: 5, ..SETUP };
    let seen = violations(setup, Flaw::None);
    assert!({ seen }.any(|seen| matches!(seen, Violation::NobodyWon(_))));
}

#[test]
fn an_observer_that_believes_one_node_is_seen() {
    let seen = violations(SETUP, Flaw::BelievesOne);
    let of_observer = |seen: Violation| {
        matches!(seen, Violation::WasOver(..) | Violation::ReportFell(..) | Violation::NobodyWon(_))
    };
    assert!({ seen }.any(of_observer));
}

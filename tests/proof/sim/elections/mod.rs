//! Elections in the same worlds: candidates that lead, resign, go away and lose, and observers, from one seed.
//!
//! Goal: no two act within their terms, work ends before its term does for others, terms rise, and observers report nobody who
//! was not elected, nor one behind whom another had been. Method: each piece of work writes down from when to when it acted,
//! each observer what it saw; a checker of its own judges, and is tried on histories written by hand. Candidates that end
//! their work behind their term, servers that record too early, and an observer that believes one node are planted.

mod candidate;
mod check;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{Redlock, node::NodeSpec, runtime::Runtime};
use quorlock_harness::SimRuntime;

use self::{
    candidate::Candidate,
    check::{History, Violation, check},
};
use crate::{
    MS,
    machine::Machine,
    node::{Bug, Watch},
    reached::Reached,
    setup::Setup,
    world::{self, Notes, Processes, World},
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
    trace: (Vec<String>, u64),
}

/// Candidates do not die here: an observer may then report one who had won, and had no time to say so.
struct Immortal;

impl Processes for Immortal {
    fn begin(&self, _client: usize) {}

    fn has_ended(&self, _client: usize) {}
}

fn run(seed: u64, setup: Setup, flaw: Flaw, keeps_lines: bool) -> Outcome {
    let runtime = SimRuntime::with_trace(seed, keeps_lines);
    let nodes = if runtime.chance(0.5) { 3 } else { 5 };
    let clients = 2 + usize::try_from(runtime.below(3)).unwrap();
    let reached = Reached::default();
    let servers = world::servers(&runtime, nodes, setup, &Watch::new(reached.clone()));
    let history = Arc::new(Mutex::new(History::default()));
    let notes = Notes::new(runtime.clone(), reached);
    notes.expect(clients, 0);
    let machines: Vec<Machine> = (0..clients).map(|_| Machine::new(&runtime, 0, 0)).collect();
    let mut redlocks: Vec<Redlock> = Vec::new();
    for (number, machine) in machines.iter().enumerate() {
        let builder = Redlock::builder()
            .nodes(servers.iter().map(|server| NodeSpec::new(Arc::new(server.connection()))))
            .ttl(300 * MS)
            .max_ttl(setup.longest_ttl)
            .node_timeout(20 * MS)
            .runtime(machine.clone());
        let redlock = machine.build(|| builder.build().unwrap());
        let candidate = Candidate {
            number,
            election: redlock.election("a").text(format!("{number}.")),
            runtime: runtime.clone(),
            history: Arc::clone(&history),
            flaw,
        };
        redlocks.push(redlock);
        machine.spawn(Box::pin(candidate.clone().look(number)));
        let notes = notes.clone();
        machine.spawn(Box::pin(async move {
            candidate.live().await;
            notes.record().is_running[number] = false;
        }));
    }
    let (machines, processes) = (Arc::new(Mutex::new(machines)), Arc::new(Immortal));
    World { servers, notes, machines, processes }.torment(setup, nodes);
    let history = history.lock().unwrap().clone();
    let verdict = check(&history);
    let trace = runtime.trace();
    runtime.shut_down();
    drop(redlocks);
    Outcome { verdict, history, trace }
}

const SETUP: Setup = Setup { longest_ttl: Duration::from_secs(1), ..Setup::SOUND };

fn seeds() -> u64 {
    let variable = std::env::var("QUORLOCK_SIM_SEEDS").ok();
    variable.map_or(200, |seeds| seeds.parse::<u64>().expect("a number").div_ceil(15))
}

fn run_all(setup: Setup) {
    if let Ok(seed) = std::env::var("QUORLOCK_SIM_SEED") {
        let outcome = run(seed.parse().unwrap(), setup, Flaw::None, true);
        outcome.trace.0.iter().for_each(|line| println!("{line}"));
        assert_eq!(outcome.verdict, Ok(()));
        return;
    }
    let (mut won, mut reports, mut failed) = (0, 0, Vec::new());
    for seed in 0..seeds() {
        let Outcome { verdict, history, .. } = run(seed, setup, Flaw::None, false);
        won += history.won.len();
        reports += history.reports.len();
        failed.extend(verdict.err().map(|violation| format!("seed {seed}: {violation:#?}")));
    }
    println!("seeds={} terms={won} reports={reports}", seeds());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), seeds(), failed.join("\n"));
    let seeds = usize::try_from(seeds()).unwrap();
    assert!(won > 5 * seeds && reports > 5 * seeds, "a simulation in which nothing happens");
}

#[test]
fn no_seed_has_two_leaders_at_once_nor_reports_one_that_was_not_elected() {
    run_all(SETUP);
}

#[test]
fn no_seed_of_elections_does_where_one_quarantine_follows_another() {
    run_all(Setup { longest_ttl: 400 * MS, spared: 700 * MS, reckless: 0.1, ..SETUP });
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

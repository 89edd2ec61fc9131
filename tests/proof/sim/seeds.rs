//! Many seeds, each a run of its own. A seed that fails prints how to replay it.
//!
//! `QUORLOCK_SIM_SEEDS` says how many in all setups together (10,000 and a few), `QUORLOCK_SIM_FROM` with which to begin
//! (0), `QUORLOCK_SIM_SEED` picks one and prints its trace. The seeds of `kept.txt` run first.

use std::{cell::Cell, env, panic, sync::Once, time::Instant};

use quorlock_harness::evidence::Evidence;

use crate::{
    reached::{ELSEWHERE, SCENARIOS, Scenario},
    setup::Setup,
    world::{self, Outcome, Promises},
};

/// So many seeds of each setup.
const SEEDS: u64 = 10_080 / Setup::ALL.len() as u64;

/// So often each scenario is reached at the least, in one of the setups that are there for it.
const OFTEN: u32 = 100;

pub(crate) fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {value}")))
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts panics, also those that the engine catches: none is expected of anybody here.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.with(|panics| panics.set(panics.get() + 1));
            before(info);
        }));
    });
}

/// Runs one seed, and says how to do so again if it fails.
pub(crate) fn run(seed: u64, setup: Setup, test: &str) -> Result<Outcome, String> {
    let replay = format!(
        "replay: QUORLOCK_SIM_SEED={seed} cargo test --profile proof -p quorlock-proof --test sim -- --exact seeds::{test} --nocapture"
    );
    count_panics();
    let before = PANICS.get();
    let outcome = panic::catch_unwind(|| world::run(seed, setup));
    if PANICS.get() > before {
        return Err(format!("seed {seed} panicked\n{replay}"));
    }
    let outcome = outcome.map_err(|_| format!("seed {seed} panicked\n{replay}"))?;
    match &outcome.verdict {
        Ok(()) => Ok(outcome),
        Err(violation) => Err(format!("seed {seed}: {violation}\n{replay}")),
    }
}

/// The seeds of this setup that have failed once.
fn kept(setup: Setup) -> impl Iterator<Item = u64> {
    let lines = include_str!("kept.txt").lines();
    let kept = lines.filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    kept.filter_map(move |line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, seed, _found, _mended] = fields[..] else { panic!("kept.txt: {line}") };
        assert!(Setup::ALL.iter().any(|setup| setup.name == name), "kept.txt: {line}");
        let seed = seed.parse().unwrap_or_else(|_| panic!("kept.txt: {line}"));
        (name == setup.name).then_some(seed)
    })
}

/// What many runs came to.
#[derive(Default)]
struct Sum {
    grants: usize,
    failures: usize,
    cancelled: usize,
    lost: usize,
    kept_out: usize,
    promises: Promises,
    faults: usize,
    excused: usize,
    killed: usize,
    reached: Vec<u32>,
}

impl Sum {
    fn new() -> Self {
        Self { reached: vec![0; SCENARIOS], ..Self::default() }
    }

    fn add(&mut self, outcome: &Outcome) {
        self.grants += outcome.grants;
        self.failures += outcome.failures;
        self.cancelled += outcome.cancelled;
        self.lost += outcome.lost;
        self.kept_out += outcome.kept_out;
        let (sum, more) = (&mut self.promises, outcome.promises);
        sum.lingered += more.lingered;
        sum.held += more.held;
        sum.delayed += more.delayed;
        sum.downgraded += more.downgraded;
        self.faults += outcome.faults;
        self.excused += usize::from(outcome.excused);
        self.killed += outcome.killed;
        for (sum, count) in self.reached.iter_mut().zip(outcome.reached) {
            *sum += count;
        }
    }

    /// The scenarios that are there to be reached in this setup, and were not often.
    fn rarely_reached(&self, setup: Setup) -> Vec<usize> {
        let (_, often) = OFTEN_IN.iter().find(|(one, _)| one.name == setup.name).unwrap();
        often.iter().copied().filter(|&number| self.reached[number] < OFTEN).collect()
    }

    fn figures(&self, name: &str, seeds: u64, violations: usize) -> Evidence {
        let figures = Evidence::new("sim", "simulation of the whole crate", name)
            .count("seeds", seeds)
            .count("violations", violations)
            .count("grants", self.grants)
            .count("failures", self.failures)
            .count("cancelled", self.cancelled)
            .count("lost", self.lost)
            .count("kept_out", self.kept_out)
            .count("faults", self.faults);
        let figures =
            if self.excused > 0 { figures.count("excused", self.excused) } else { figures };
        let figures = if self.killed > 0 { figures.count("killed", self.killed) } else { figures };
        let reached = self.reached.iter().enumerate().filter(|(_, count)| **count > 0);
        reached
            .fold(figures, |figures, (number, count)| figures.count(&format!("S{number}"), *count))
    }
}

/// Runs many seeds of one setup. `test` is the name of the test that does so.
fn run_all(setup: Setup, test: &str) {
    if let Some(seed) = number("QUORLOCK_SIM_SEED") {
        world::trace(seed, setup).trace.0.iter().for_each(|line| println!("{line}"));
        run(seed, setup, test).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let total = number("QUORLOCK_SIM_SEEDS");
    let seeds = total.map_or(SEEDS, |total| total.div_ceil(Setup::ALL.len() as u64));
    let from = number("QUORLOCK_SIM_FROM").unwrap_or(0);
    let (mut sum, mut broken, begun) = (Sum::new(), Vec::new(), Instant::now());
    let mut take = |sum: &mut Sum, seed: u64| match run(seed, setup, test) {
        Ok(outcome) => sum.add(&outcome),
        Err(failure) => broken.push(failure),
    };
    kept(setup).chain(from..from + seeds).for_each(|seed| take(&mut sum, seed));
    // What is rarer than elsewhere takes more of them, up to twice as many.
    let (mut seeds, most) = (seeds, 2 * seeds);
    while total.is_none() && seeds < most && !sum.rarely_reached(setup).is_empty() {
        take(&mut sum, from + seeds);
        seeds += 1;
    }
    sum.figures(setup.name, seeds, broken.len()).seconds(begun.elapsed()).tell();
    let shown = broken.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(broken.is_empty(), "{} of {seeds}:\n{shown}", broken.len());
    // A simulation in which nothing happens would prove nothing.
    let seeds = usize::try_from(seeds).unwrap();
    assert!(sum.grants > 5 * seeds && sum.failures > seeds / 2 && sum.faults > 5 * seeds);
    // Of few seeds a few may be: those that are kept are among them.
    assert!(sum.excused <= (seeds / 100).max(5), "{} excused", sum.excused);
    let kills = setup.faults.kill_clients();
    assert_eq!(sum.killed > seeds / 10, kills, "{} killed that held something", sum.killed);
    assert!(sum.cancelled > seeds / 2 && sum.lost > seeds / 10, "{} lost", sum.lost);
    assert!(setup.lock_delay.is_zero() || sum.kept_out > seeds / 10, "{}", sum.kept_out);
    if seeds as u64 >= SEEDS {
        let rarely = sum.rarely_reached(setup);
        assert!(rarely.is_empty(), "too rarely reached: S{rarely:?}");
        if setup.varied {
            let Promises { lingered, held, delayed, downgraded } = sum.promises;
            println!("{:?}", sum.promises);
            let rarely = [lingered, held, delayed, downgraded].into_iter().min().unwrap();
            assert!(rarely >= OFTEN as usize, "too rarely promised: {:?}", sum.promises);
        }
    }
}

/// The scenarios that are reached often in each setup.
const OFTEN_IN: [(Setup, &[usize]); Setup::ALL.len()] = [
    (Setup::SOUND, &[2, 36, 37]),
    (Setup::BUSY, &[15, 26, 31]),
    (Setup::SHORT_LIVED, &[20, 29, 31]),
    (Setup::DELAYED, &[2, 11]),
    (Setup::CLASSIC, &[10, 11]),
    (Setup::PERMITS, &[15, 32]),
    (Setup::SETS, &[29, 30]),
    (Setup::READERS, &[8, 15]),
    (Setup::CLOCKS, &[1, 3, 4, 5, 6, 17, 33, 35]),
    (Setup::SERVERS, &[5, 14, 16, 17, 18, 19, 27, 32, 35]),
    (Setup::CROWD, &[7, 28, 30, 31]),
    (Setup::MESSAGES, &[20, 21, 22, 23, 34]),
    (Setup::ROLLING, &[8, 9, 10, 26]),
    (Setup::AHEAD, &[1, 3, 13, 14, 17]),
    (Setup::RENEWALS, &[7, 8, 39]),
];

#[test]
fn no_seed_breaks_exclusion_or_fencing_or_leaves_anything() {
    run_all(Setup::SOUND, "no_seed_breaks_exclusion_or_fencing_or_leaves_anything");
}

#[test]
fn no_seed_does_where_one_quarantine_follows_another() {
    run_all(Setup::BUSY, "no_seed_does_where_one_quarantine_follows_another");
}

#[test]
fn no_seed_does_where_no_client_lives_long() {
    run_all(Setup::SHORT_LIVED, "no_seed_does_where_no_client_lives_long");
}

#[test]
fn no_seed_lets_anybody_in_before_the_lock_delay_is_over() {
    run_all(Setup::DELAYED, "no_seed_lets_anybody_in_before_the_lock_delay_is_over");
}

#[test]
fn no_seed_of_plain_redlock_breaks_exclusion_or_leaves_anything() {
    run_all(Setup::CLASSIC, "no_seed_of_plain_redlock_breaks_exclusion_or_leaves_anything");
}

#[test]
fn no_seed_of_permits_gives_a_slot_to_two_or_leaves_anything() {
    run_all(Setup::PERMITS, "no_seed_of_permits_gives_a_slot_to_two_or_leaves_anything");
}

#[test]
fn no_seed_of_sets_that_overlap_breaks_any_of_it() {
    run_all(Setup::SETS, "no_seed_of_sets_that_overlap_breaks_any_of_it");
}

#[test]
fn no_seed_of_readers_and_writers_breaks_any_of_it() {
    run_all(Setup::READERS, "no_seed_of_readers_and_writers_breaks_any_of_it");
}

#[test]
fn no_seed_with_clocks_of_its_own_breaks_any_of_it() {
    run_all(Setup::CLOCKS, "no_seed_with_clocks_of_its_own_breaks_any_of_it");
}

#[test]
fn no_seed_of_servers_that_forget_and_go_back_breaks_any_of_it() {
    run_all(Setup::SERVERS, "no_seed_of_servers_that_forget_and_go_back_breaks_any_of_it");
}

#[test]
fn no_seed_of_a_crowd_breaks_any_of_it() {
    run_all(Setup::CROWD, "no_seed_of_a_crowd_breaks_any_of_it");
}

#[test]
fn no_seed_of_late_and_repeated_messages_breaks_any_of_it() {
    run_all(Setup::MESSAGES, "no_seed_of_late_and_repeated_messages_breaks_any_of_it");
}

#[test]
fn no_seed_of_rolling_restarts_loses_the_lease() {
    run_all(Setup::ROLLING, "no_seed_of_rolling_restarts_loses_the_lease");
}

#[test]
fn no_seed_of_clocks_that_jump_ahead_breaks_the_order_of_tokens() {
    run_all(Setup::AHEAD, "no_seed_of_clocks_that_jump_ahead_breaks_the_order_of_tokens");
}

#[test]
fn no_seed_of_late_renewals_breaks_any_of_it() {
    run_all(Setup::RENEWALS, "no_seed_of_late_renewals_breaks_any_of_it");
}

#[test]
fn every_scenario_is_reached_often_or_tried_out_elsewhere() {
    for number in 1..SCENARIOS {
        let is_elsewhere = ELSEWHERE.iter().any(|(scenario, _)| *scenario == Scenario(number));
        let is_often = OFTEN_IN.iter().any(|(_, often)| often.contains(&number));
        assert!(is_elsewhere != is_often, "S{number}");
    }
}

#[test]
fn docs_safety_md_says_where_each_scenario_is_simulated() {
    let page = include_str!("../../../docs/safety.md");
    for number in 1..SCENARIOS {
        let begins = format!("| S{number} |");
        let row = page.lines().find(|line| line.starts_with(&begins));
        let said = row.and_then(|row| row.split('|').nth(5)).unwrap_or_default().trim();
        let there = OFTEN_IN.iter().filter(|(_, often)| often.contains(&number));
        let there: Vec<String> = there.map(|(setup, _)| format!("`{}`", setup.name)).collect();
        if there.is_empty() {
            assert!(said.starts_with("no: "), "S{number}: {said}");
        } else {
            assert_eq!(said, there.join(", "), "S{number}");
        }
    }
}

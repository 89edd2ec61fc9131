//! Random schedules of all that may happen at once, and of flaws that must be found out.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    world::{Fault, Flaw, World},
    *,
};

/// What has come of one random schedule.
#[derive(Debug, Default)]
struct Outcome {
    wrong: Option<String>,
    grants: usize,
    admissions: usize,
    lapsed: usize,
    beside: usize,
}

/// Three clients, and nodes with whatever faults the seed says. Exclusion is promised where no clock jumps while a lease
/// holds (A2); everything else always.
fn run(seed: u64, flaw: Flaw) -> Outcome {
    let mut rng = StdRng::seed_from_u64(seed);
    let nodes = [3, 3, 5][rng.random_range(0..3)];
    let jumps = rng.random_bool(0.5);
    let mut world = World::new(nodes, 3, seed, flaw);
    let mut faults = vec![Fault::Restart, Fault::Flush];
    // Where a node is away for good, the others must hear all that is said.
    if !world.lacks_a_node() {
        faults.extend([Fault::Cut, Fault::Down]);
    }
    if jumps {
        faults.extend([Fault::Jump; 2]);
    }
    for _ in 0..1_500 {
        world.act(&mut rng, &faults);
    }
    let won: Vec<_> = world.won.iter().map(|won| (won.began, (won.step, won.tokens))).collect();
    let mut wrong = world.wrong.clone().or_else(|| wrong_tokens(seed, &won));
    wrong = wrong.or_else(|| world.overlap().filter(|_| !jumps));
    if wrong.is_none() && seed.is_multiple_of(8) {
        world.settle(60_000);
        let left = world.without_a_vote();
        wrong = world.wrong.clone();
        wrong = wrong.or_else(|| (!left.is_empty()).then(|| format!("without a vote: {left:?}")));
    }
    let wrong = wrong.map(|wrong| format!("seed {seed}: {wrong}"));
    let World { admissions, lapsed, beside, .. } = world;
    Outcome { wrong, grants: world.won.len(), admissions, lapsed, beside }
}

#[test]
fn whatever_happens_to_nodes_and_clients_tokens_rise_leases_exclude_and_all_vote_again() {
    let seeds = std::env::var("QUORLOCK_SCHEDULES").map_or(1_500, |seeds| seeds.parse().unwrap());
    let (mut grants, mut admissions, mut lapsed, mut beside) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let outcome = run(seed, Flaw::None);
        assert_eq!(outcome.wrong, None);
        grants += outcome.grants;
        admissions += outcome.admissions;
        lapsed += outcome.lapsed;
        beside += outcome.beside;
    }
    println!(
        "schedules={seeds} grants={grants} admissions={admissions} lapsed={lapsed} beside={beside}"
    );
    let seeds = usize::try_from(seeds).unwrap();
    assert!(
        grants > seeds && admissions > seeds && lapsed > seeds / 10 && beside > seeds / 10,
        "too few to prove anything"
    );
}

#[test]
fn an_admission_with_a_flaw_is_found_out() {
    let flaws = [Flaw::AdmittedInAnyEpoch, Flaw::LapsedCounts, Flaw::NoQuarantine, Flaw::Untold];
    for flaw in flaws {
        let found = (0..50_000).find_map(|seed| run(seed, flaw).wrong);
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
}

//! The same seed twice: the same trace, line by line, and the same tasks at the same steps.
//!
//! Goal: a seed that fails can be replayed. Without this a green simulation would mean little.

use std::time::Instant;

use quorlock_harness::evidence::Evidence;

use crate::{setup::Setup, world};

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let (first, first_digest) = world::trace(seed, Setup::SOUND).trace;
        let (second, second_digest) = world::trace(seed, Setup::SOUND).trace;
        let same = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
        assert_eq!(first.get(same), second.get(same), "seed {seed}, line {same}");
        assert_eq!(first_digest, second_digest, "seed {seed}: same lines, other steps");
        assert!(first.len() > 20, "seed {seed}: a trace of {} lines", first.len());
    }
}

/// Whatever the world is.
#[test]
fn seeds_of_all_setups_give_the_same_trace_twice() {
    const SEEDS: u64 = 400;
    let begun = Instant::now();
    let differ: Vec<String> = (0..SEEDS)
        .filter_map(|seed| {
            let setup = Setup::ALL[usize::try_from(seed).unwrap() % Setup::ALL.len()];
            let digest = || world::run(seed, setup).trace.1;
            (digest() != digest()).then(|| format!("{} {seed}", setup.name))
        })
        .collect();
    Evidence::new("repeated", "the same seed twice gives the same trace", "all setups")
        .count("seeds", SEEDS)
        .count("violations", differ.len())
        .seconds(begun.elapsed())
        .tell();
    assert!(differ.is_empty(), "{differ:?}");
}

#[test]
fn another_seed_gives_another_trace() {
    let first = world::trace(1, Setup::SOUND).trace;
    let second = world::trace(2, Setup::SOUND).trace;
    assert_ne!(first.1, second.1);
    assert_ne!(first.0, second.0);
}

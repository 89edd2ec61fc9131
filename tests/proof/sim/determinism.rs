//! The same seed twice: the same trace, line by line, and the same tasks at the same steps.
//!
//! Goal: a seed that fails can be replayed. Without this a green simulation would mean little.

use crate::{setup::Setup, world};

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let (first, first_digest) = world::run(seed, Setup::SOUND).trace;
        let (second, second_digest) = world::run(seed, Setup::SOUND).trace;
        let same = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
        assert_eq!(first.get(same), second.get(same), "seed {seed}, line {same}");
        assert_eq!(first_digest, second_digest, "seed {seed}: same lines, other steps");
        assert!(first.len() > 20, "seed {seed}: a trace of {} lines", first.len());
    }
}

#[test]
fn another_seed_gives_another_trace() {
    let first = world::run(1, Setup::SOUND).trace;
    let second = world::run(2, Setup::SOUND).trace;
    assert_ne!(first.1, second.1);
    assert_ne!(first.0, second.0);
}

//! Random walks through a world that no search comes to the end of.
//!
//! Goal: states that lie hundreds of steps behind the first one. Method: from the first state on, one of the possible steps
//! is taken at random, with the seed of the walk, some steps less often; every state is judged.

use std::time::Instant;

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::model::search::{Found, Limits, Sometimes, Space, Trace};

/// How a walk goes.
pub(crate) struct Manner<T> {
    /// How many steps it has.
    pub(crate) length: usize,
    pub(crate) is_rare: fn(&T) -> bool,
    /// Who does a step.
    pub(crate) actor: fn(&T) -> Option<(bool, usize)>,
}

/// As many walks as the limits have states, divided by the length of a walk.
pub(crate) fn walk<S: Space>(space: &mut S, manner: Manner<S::Step>, limits: Limits) -> Found {
    let began = Instant::now();
    let mut found = Found {
        states: 0,
        steps: 0,
        depth: manner.length,
        exhausted: false,
        cut: false,
        trace: None,
        sometimes: Sometimes::default(),
        seconds: 0.0,
    };
    let mut possible = Vec::new();
    for seed in 0.. {
        if found.states >= limits.states {
            break;
        }
        if limits.time.is_some_and(|time| began.elapsed() > time) {
            found.cut = true;
            break;
        }
        let mut rng = StdRng::seed_from_u64(seed);
        let mut state = space.first();
        let (mut told, mut last) = (Vec::new(), None);
        for _ in 0..manner.length {
            possible.clear();
            space.steps(&state, &mut possible);
            if possible.is_empty() {
                break;
            }
            let mut step = possible[rng.random_range(0..possible.len())];
            if (manner.is_rare)(&step) && rng.random_bool(0.9) {
                step = possible[rng.random_range(0..possible.len())];
            }
            // Mostly the same client goes on.
            let goes_on = |step: &&S::Step| (manner.actor)(step) == last;
            if rng.random_bool(0.6) && possible.iter().any(|step| goes_on(&step)) {
                while !goes_on(&&step) || (manner.is_rare)(&step) && rng.random_bool(0.9) {
                    step = possible[rng.random_range(0..possible.len())];
                }
            }
            last = (manner.actor)(&step);
            let Some(next) = space.step(&state, step) else { continue };
            told.push((state, step));
            (found.states, found.steps) = (found.states + 1, found.steps + 1);
            space.note(&next, &mut found.sometimes);
            if let Some(property) = space.wrong(&next, false) {
                let steps = told.iter().map(|(state, step)| space.tell(state, *step)).collect();
                found.trace = Some(Trace { property, steps });
                found.seconds = began.elapsed().as_secs_f64();
                return found;
            }
            state = next;
        }
    }
    found.seconds = began.elapsed().as_secs_f64();
    found
}

//! The search for a key that nobody deletes: every order of events, or one at random.
//!
//! Goal: the shortest way to what must not be. Method: breadth first over the states of the world, which are told apart
//! by `Hash` and `Eq`; a state from which nothing can leak any more is not followed.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    footprint_steps::{Flaw, Step},
    footprint_world::{Outcome, World},
};

/// The way to something that must not be.
#[derive(Debug)]
pub(crate) struct Leak {
    what: &'static str,
    steps: Vec<Step>,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} steps: {:?}", self.what, self.steps.len(), self.steps)
    }
}

pub(crate) struct Explored {
    pub(crate) states: usize,
    /// States from which nothing can leak any more.
    pub(crate) ends: usize,
    /// States that are not at rest, and from which nothing leads on.
    pub(crate) stuck: usize,
    pub(crate) leak: Option<Leak>,
}

/// Every order of events, breadth first, up to the first that goes wrong: none goes wrong in fewer steps.
pub(crate) fn explore(first: World, flaw: Flaw) -> Explored {
    let mut explored = Explored { states: 1, ends: 0, stuck: 0, leak: None };
    // Of each state, that from which it was reached, and how.
    let mut came: Vec<Option<(usize, Step)>> = vec![None];
    let mut seen = HashMap::from([(first.clone(), 0)]);
    let mut open = VecDeque::from([(0, first)]);
    while let Some((number, world)) = open.pop_front() {
        if world.is_safe(flaw) {
            explored.ends += 1;
            continue;
        }
        let mut leads_on = false;
        for step in world.steps() {
            match world.step(step, flaw) {
                Outcome::No => {}
                Outcome::Next(next) => {
                    leads_on = true;
                    if let Entry::Vacant(entry) = seen.entry(next) {
                        open.push_back((came.len(), entry.key().clone()));
                        entry.insert(came.len());
                        came.push(Some((number, step)));
                        explored.states += 1;
                    }
                }
                Outcome::Wrong(what) => {
                    let mut steps = vec![step];
                    let mut at = number;
                    while let Some((before, step)) = came[at] {
                        steps.push(step);
                        at = before;
                    }
                    steps.reverse();
                    explored.leak = Some(Leak { what, steps });
                    return explored;
                }
            }
        }
        explored.stuck += usize::from(!leads_on);
    }
    explored
}

/// One order of events at random, until everything is at rest.
pub(crate) fn wander(mut world: World, flaw: Flaw, seed: u64) -> Option<Leak> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut steps = Vec::new();
    while !world.is_at_rest() {
        let mut possible = world.steps();
        loop {
            assert!(!possible.is_empty(), "stuck after {steps:?}");
            let step = possible.swap_remove(random.random_range(0..possible.len()));
            match world.step(step, flaw) {
                Outcome::No => {}
                Outcome::Next(next) => {
                    steps.push(step);
                    world = next;
                    break;
                }
                Outcome::Wrong(what) => {
                    steps.push(step);
                    return Some(Leak { what, steps });
                }
            }
        }
    }
    None
}

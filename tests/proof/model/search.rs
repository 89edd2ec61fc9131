//! The search: every state that can be reached from the first one, breadth first.
//!
//! Goal: no state of a world is left out, none is taken for another, and what goes wrong is shown by the fewest steps that
//! lead there. Method: a state is a row of numbers, one for each of its parts (`pool.rs`), so that two states are compared
//! exactly and no fingerprint stands for one of them. The rows stand one behind the other in the order in which they were
//! found, and are at once the queue and the way back: each knows the row that it was found from, and the steps of a trace
//! are found again by taking them.
//!
//! Not modelled: nothing here knows what a state means.

use std::{
    fmt::Debug,
    hash::{Hash, Hasher},
    time::{Duration, Instant},
};

use super::pool::Mixer;

/// What is searched.
pub(crate) trait Space {
    /// A state with its parts.
    type State: Clone;
    /// Something that can happen.
    type Step: Copy + Debug;

    /// How many parts a state has.
    fn width(&self) -> usize;
    /// The state in which it begins.
    fn first(&mut self) -> Self::State;
    /// The numbers of the parts of a state.
    fn pack(&mut self, state: &Self::State, row: &mut Vec<u32>);
    /// The state with these parts.
    fn unpack(&self, row: &[u32]) -> Self::State;
    /// All that may happen now, and little that may not.
    fn steps(&self, state: &Self::State, into: &mut Vec<Self::Step>);
    /// What comes of it; `None` where it cannot happen.
    fn step(&mut self, state: &Self::State, step: Self::Step) -> Option<Self::State>;
    /// Which property does not hold in a state; the second of the two says whether anything can happen in it.
    fn wrong(&mut self, state: &Self::State, stuck: bool) -> Option<&'static str>;
    /// Counts what a new state puts to the test.
    fn note(&mut self, state: &Self::State, sometimes: &mut Sometimes);
    /// Whether all ends well where nothing goes wrong from a state on, as far as that can be tried: the property that does
    /// not hold then. It is asked for some of them.
    fn heal(&mut self, state: &Self::State) -> Result<bool, &'static str>;
    /// What a step is, in words.
    fn tell(&self, state: &Self::State, step: Self::Step) -> String;
}

/// How often something has been seen that a property is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sometimes(pub(crate) Vec<(&'static str, u64)>);

impl Sometimes {
    /// Counts one more, if so.
    pub(crate) fn note(&mut self, what: &'static str, seen: bool) {
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, count)) => *count += u64::from(seen),
            None => self.0.push((what, u64::from(seen))),
        }
    }
}

/// How far a search may go. What it finds depends on the number of states alone, which come in the same order everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) states: usize,
    /// Where the user of the search has set a limit. Reaching it is no verdict.
    pub(crate) time: Option<Duration>,
    /// Whether it is tried out of some states that all ends well from there.
    pub(crate) heals: bool,
}

impl Limits {
    /// So many states, however long that takes.
    pub(crate) const fn of(states: usize) -> Self {
        Self { states, time: None, heals: true }
    }

    /// The seconds that a configuration may take in a long search, where one is wanted.
    pub(crate) fn long() -> Option<Duration> {
        let seconds = std::env::var("QUORLOCK_MODEL_SECONDS").ok()?;
        Some(Duration::from_secs(seconds.parse().expect("a number of seconds")))
    }
}

/// The fewest steps to a state in which a property does not hold.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) property: &'static str,
    pub(crate) steps: Vec<String>,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: u64,
    /// How many steps lead to the state that is the furthest away.
    pub(crate) depth: usize,
    /// Whether there are no other states.
    pub(crate) exhausted: bool,
    /// Whether its time was up before.
    pub(crate) cut: bool,
    pub(crate) trace: Option<Trace>,
    pub(crate) sometimes: Sometimes,
    pub(crate) seconds: f64,
}

impl Found {
    /// What several searches have found, one behind the other, up to the first that finds something wrong.
    pub(crate) fn of_all<T>(all: impl IntoIterator<Item = T>, search: impl Fn(T) -> Self) -> Self {
        let mut whole: Option<Self> = None;
        for setup in all {
            let mut found = search(setup);
            if let Some(whole) = &whole {
                found.exhausted &= whole.exhausted;
                found.add(whole);
            }
            if found.trace.is_some() {
                return found;
            }
            whole = Some(found);
        }
        whole.expect("there is one")
    }

    /// What another search has seen beside this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.steps += other.steps;
        self.seconds += other.seconds;
        self.cut |= other.cut;
        for (what, count) in &other.sometimes.0 {
            self.sometimes.note(what, false);
            let seen = self.sometimes.0.iter_mut().find(|(name, _)| name == what);
            seen.into_iter().for_each(|(_, seen)| *seen += count);
        }
    }
}

/// One state of so many is tried for whether all ends well from there.
const HEALED: usize = 251;

/// How often that was so.
pub(crate) const HEALS: &str = "faults stopped, and somebody won again";

const ROWS: usize = 1 << 16;

/// Rows of numbers, each once, in the order in which they came.
struct Rows {
    width: usize,
    /// In blocks, so that none of them is ever copied to grow.
    blocks: Vec<Vec<u32>>,
    /// From which row each was found.
    from: Vec<u32>,
    /// The place of each row plus one, where its hash says, or behind that; zero is free.
    table: Vec<u32>,
}

impl Rows {
    fn new(width: usize) -> Self {
        Self { width, blocks: Vec::new(), from: Vec::new(), table: vec![0; 1 << 16] }
    }

    fn get(&self, at: usize) -> &[u32] {
        let start = at % ROWS * self.width;
        &self.blocks[at / ROWS][start..start + self.width]
    }

    fn slot(&self, row: &[u32]) -> usize {
        let mut hasher = Mixer::default();
        row.hash(&mut hasher);
        let hash = usize::try_from(hasher.finish()).unwrap();
        let mask = self.table.len() - 1;
        let mut slot = hash & mask;
        while self.table[slot] != 0 && self.get(self.table[slot] as usize - 1) != row {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Takes a row that has not come before.
    fn insert(&mut self, row: &[u32], from: u32) -> bool {
        let slot = self.slot(row);
        if self.table[slot] != 0 {
            return false;
        }
        let count = self.from.len();
        if count.is_multiple_of(ROWS) {
            self.blocks.push(Vec::with_capacity(ROWS * self.width));
        }
        self.blocks.last_mut().unwrap().extend_from_slice(row);
        self.from.push(from);
        self.table[slot] = u32::try_from(count + 1).unwrap();
        if (count + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        self.table = vec![0; self.table.len() * 2];
        for at in 0..self.from.len() {
            let slot = self.slot(self.get(at));
            self.table[slot] = u32::try_from(at + 1).unwrap();
        }
    }
}

/// Looks at all states, the nearest first, until a property does not hold or the limits are reached.
pub(crate) fn search<S: Space>(space: &mut S, limits: Limits) -> Found {
    let began = Instant::now();
    let mut rows = Rows::new(space.width());
    let mut found = Found {
        states: 1,
        steps: 0,
        depth: 0,
        exhausted: false,
        cut: false,
        trace: None,
        sometimes: Sometimes::default(),
        seconds: 0.0,
    };
    let (mut row, mut possible) = (Vec::new(), Vec::new());
    let first = space.first();
    space.pack(&first, &mut row);
    rows.insert(&row, 0);
    let (mut at, mut level_ends) = (0, 1);
    while at < rows.from.len() && found.trace.is_none() {
        if at == level_ends {
            (found.depth, level_ends) = (found.depth + 1, rows.from.len());
        }
        if rows.from.len() > limits.states {
            break;
        }
        if at % 1024 == 0 && limits.time.is_some_and(|time| began.elapsed() > time) {
            found.cut = true;
            break;
        }
        let state = space.unpack(rows.get(at));
        possible.clear();
        space.steps(&state, &mut possible);
        let mut stuck = true;
        for step in &possible {
            let Some(next) = space.step(&state, *step) else { continue };
            (stuck, found.steps) = (false, found.steps + 1);
            row.clear();
            space.pack(&next, &mut row);
            if !rows.insert(&row, u32::try_from(at).unwrap()) {
                continue;
            }
            space.note(&next, &mut found.sometimes);
            let mut wrong = space.wrong(&next, false);
            if wrong.is_none() && limits.heals && rows.from.len().is_multiple_of(HEALED) {
                match space.heal(&next) {
                    Ok(tried) => found.sometimes.note(HEALS, tried),
                    Err(property) => wrong = Some(property),
                }
            }
            if let Some(property) = wrong {
                found.trace = Some(trace(space, &rows, rows.from.len() - 1, property));
                break;
            }
        }
        if stuck && let Some(property) = space.wrong(&state, true) {
            found.trace = Some(trace(space, &rows, at, property));
        }
        at += 1;
    }
    found.exhausted = at == rows.from.len() && found.trace.is_none();
    (found.states, found.seconds) = (rows.from.len(), began.elapsed().as_secs_f64());
    found
}

fn trace<S: Space>(space: &mut S, rows: &Rows, mut at: usize, property: &'static str) -> Trace {
    let (mut steps, mut possible, mut row) = (Vec::new(), Vec::new(), Vec::new());
    while at != 0 {
        let from = rows.from[at] as usize;
        let state = space.unpack(rows.get(from));
        possible.clear();
        space.steps(&state, &mut possible);
        let step = possible.iter().copied().find(|step| {
            let Some(next) = space.step(&state, *step) else { return false };
            row.clear();
            space.pack(&next, &mut row);
            row == rows.get(at)
        });
        steps.push(space.tell(&state, step.expect("the step by which it was found")));
        at = from;
    }
    steps.reverse();
    Trace { property, steps }
}

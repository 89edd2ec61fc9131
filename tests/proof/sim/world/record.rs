//! What happened in a run: who held what, what the stores saw, and what was counted.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use quorlock_core::Timestamp;
use quorlock_harness::SimRuntime;

use crate::{
    invariants::{Hold, Violation, store::Write},
    reached::{Reached, S2, S36},
};

/// What all clients and the nemesis write to. A clone is of the same run.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) runtime: SimRuntime,
    pub(crate) reached: Reached,
    record: Arc<Mutex<Record>>,
}

/// How often a lease has promised what must outlive all that was sent before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promises {
    /// A grant was nobody's, and a request had it that came then.
    pub(crate) lingered: usize,
    /// A lease was let go of before its least time was over.
    pub(crate) held: usize,
    /// A lease was lost by its time and left, with a lock-delay.
    pub(crate) delayed: usize,
    /// A writer has read on.
    pub(crate) downgraded: usize,
}

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) history: Vec<Hold>,
    pub(crate) writes: Vec<Write>,
    /// It was not asked that everything can be had in the end.
    pub(crate) excused: bool,
    /// How often a process was killed that held something.
    pub(crate) killed: usize,
    /// What was found on the way.
    pub(crate) violation: Option<Violation>,
    pub(crate) failures: usize,
    pub(crate) cancelled: usize,
    pub(crate) lost: usize,
    pub(crate) promises: Promises,
    pub(crate) faults: usize,
    /// By resource: the largest token that its store has seen.
    stores: BTreeMap<String, u64>,
    /// By resource: how many wait for it.
    pub(crate) waiting: BTreeMap<String, u32>,
    /// When which server forgot what it had.
    pub(crate) forgotten: Vec<(Timestamp, usize)>,
    /// By client: how often it will ask yet.
    pub(crate) to_do: Vec<usize>,
    /// By client: it has not done yet.
    pub(crate) is_running: Vec<bool>,
}

impl Notes {
    pub(crate) fn new(runtime: SimRuntime, reached: Reached) -> Self {
        Self { runtime, reached, record: Arc::default() }
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    /// So many clients begin, each of which asks so often.
    pub(crate) fn expect(&self, clients: usize, requests: usize) {
        let mut record = self.record();
        record.to_do = vec![requests; clients];
        record.is_running = vec![true; clients];
    }

    pub(crate) fn are_running(&self) -> bool {
        self.record().is_running.contains(&true)
    }

    /// Whether a client asks once more.
    pub(crate) fn takes_on(&self, client: usize) -> bool {
        let to_do = &mut self.record().to_do[client];
        let more = *to_do > 0;
        *to_do = to_do.saturating_sub(1);
        more
    }

    /// What is wrong already. The first one counts.
    pub(super) fn judge(&self, seen: Result<(), Violation>) {
        if let Err(violation) = seen {
            self.record().violation.get_or_insert(violation);
        }
    }

    /// Somebody waits for the resources while the answer is kept.
    pub(super) fn waits(&self, resources: &[&str]) -> Waits {
        let resources: Vec<String> = resources.iter().map(|&name| name.to_owned()).collect();
        let mut record = self.record();
        for resource in &resources {
            *record.waiting.entry(resource.clone()).or_default() += 1;
        }
        drop(record);
        Waits { notes: self.clone(), resources }
    }

    /// A write has reached the store of a resource, which compares tokens unless it is flawed. The lease ends at
    /// `until`, if that is known.
    pub(super) fn write(
        &self,
        resource: &str,
        (owner, token): (&str, u64),
        is_flawed: bool,
        is_over: bool,
    ) {
        let at = quorlock::runtime::Runtime::now(&self.runtime);
        let mut record = self.record();
        let latest = record.stores.entry(resource.to_owned()).or_default();
        let is_taken = is_flawed || token >= *latest;
        self.reached.hit_if(is_over, S2);
        self.reached.hit_if(!is_taken, S36);
        *latest = token.max(*latest);
        let (resource, owner) = (resource.to_owned(), owner.to_owned());
        record.writes.push(Write { resource, owner, token, at, is_taken });
    }
}

/// Somebody waits.
pub(super) struct Waits {
    notes: Notes,
    resources: Vec<String>,
}

impl Waits {
    /// How many others wait for the one of the resources for which most do.
    pub(super) fn others(&self) -> u32 {
        let record = self.notes.record();
        let of = |name| record.waiting.get(name).map_or(0, |count| count - 1);
        self.resources.iter().map(of).max().unwrap_or_default()
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut record = self.notes.record();
        for resource in &self.resources {
            if let Some(count) = record.waiting.get_mut(resource) {
                *count -= 1;
            }
        }
    }
}

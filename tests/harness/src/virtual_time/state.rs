//! Which tasks there are, which of them are ready, and which timers run.
//!
//! It decides which task is next: one of those that are ready, drawn by the seed from them in the order in which they
//! were made. The order in which they were woken must not matter, since that may rest on the addresses of things.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

use quorlock::{protocol::Timestamp, runtime::Task};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{Shared, trace::Trace};

/// Quiet tasks have numbers above this.
const QUIET: u64 = 1 << 63;

pub(super) struct State {
    pub(super) now: Timestamp,
    pub(super) rng: SmallRng,
    pub(super) steps: u64,
    /// A number that is drawn anew for each task that runs.
    pub(super) of_step: u8,
    pub(super) trace: Trace,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// In the order in which they were made.
    ready: Vec<Key>,
    /// The quiet tasks that are ready, in the order in which they were woken.
    quiet: Vec<Key>,
    processes: Vec<Process>,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    next_task: u64,
    next_quiet: u64,
    next_timer: u64,
}

/// A task: its number, and its place.
type Key = (u64, u32);

struct Slot {
    number: u64,
    process: u32,
    /// It is ready, or will be when its process goes on.
    queued: bool,
    task: Option<Task>,
    waker: Option<Waker>,
}

/// What runs, stands still and ends together.
#[derive(Default)]
struct Process {
    is_frozen: bool,
    has_ended: bool,
    /// Tasks that were woken while it stood still.
    held: Vec<Key>,
}

impl State {
    pub(super) fn new(seed: u64, now: Timestamp, keeps_lines: bool) -> Self {
        Self {
            now,
            rng: SmallRng::seed_from_u64(seed),
            steps: 0,
            of_step: 0,
            trace: Trace::new(keeps_lines),
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            quiet: Vec::new(),
            processes: vec![Process::default()],
            timers: BTreeMap::new(),
            next_task: 0,
            next_quiet: QUIET,
            next_timer: 0,
        }
    }

    pub(super) fn add_process(&mut self) -> u32 {
        self.processes.push(Process::default());
        u32::try_from(self.processes.len() - 1).unwrap()
    }

    /// Takes a task, or gives it back where its process has ended.
    pub(super) fn add(
        &mut self,
        task: Task,
        process: u32,
        is_quiet: bool,
        shared: &Arc<Shared>,
    ) -> Option<Task> {
        if self.process(process).has_ended {
            return Some(task);
        }
        let next = if is_quiet { &mut self.next_quiet } else { &mut self.next_task };
        *next += 1;
        let number = *next;
        let place = self.free.pop().unwrap_or(u32::try_from(self.slots.len()).unwrap());
        let waker = TaskWaker { key: (number, place), shared: Arc::downgrade(shared) };
        let waker = Some(Waker::from(Arc::new(waker)));
        let slot = Slot { number, process, queued: false, task: Some(task), waker };
        match self.slots.get_mut(place as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.wake((number, place));
        None
    }

    pub(super) fn wake(&mut self, key: Key) {
        let slot = &mut self.slots[key.1 as usize];
        if slot.number != key.0 || slot.queued {
            return;
        }
        slot.queued = true;
        let process = &mut self.processes[slot.process as usize];
        if process.is_frozen {
            process.held.push(key);
        } else {
            self.queue(key);
        }
    }

    fn queue(&mut self, key: Key) {
        if key.0 > QUIET {
            self.quiet.push(key);
        } else {
            let at = self.ready.partition_point(|other| *other < key);
            self.ready.insert(at, key);
        }
    }

    /// The next task to run, with what wakes it. None if none is ready.
    pub(super) fn next(&mut self) -> Option<(Key, Task, Waker)> {
        let key = if !self.quiet.is_empty() {
            self.quiet.remove(0)
        } else if self.ready.is_empty() {
            return None;
        } else {
            let pick = self.rng.random_range(0..self.ready.len());
            let key = self.ready.remove(pick);
            self.trace.step(key.0, self.now);
            self.of_step = self.rng.random();
            key
        };
        let slot = &mut self.slots[key.1 as usize];
        slot.queued = false;
        Some((key, slot.task.take().unwrap(), slot.waker.take().unwrap()))
    }

    /// A task has run, and goes on later; or it is given back, where its process has ended meanwhile.
    pub(super) fn put_back(&mut self, key: Key, task: Task, waker: Waker) -> Option<Task> {
        let slot = &mut self.slots[key.1 as usize];
        if slot.number != key.0 {
            return Some(task);
        }
        (slot.task, slot.waker) = (Some(task), Some(waker));
        None
    }

    /// A task has come to its end.
    pub(super) fn remove(&mut self, key: Key) {
        let slot = &mut self.slots[key.1 as usize];
        if slot.number != key.0 {
            return;
        }
        if slot.queued {
            let held = &mut self.processes[slot.process as usize].held;
            for queue in [&mut self.ready, &mut self.quiet, held] {
                queue.retain(|other| *other != key);
            }
        }
        (slot.number, slot.queued) = (0, false);
        self.free.push(key.1);
    }

    /// Moves time to the next timer, and returns what is due then: mostly there is one.
    pub(super) fn jump(&mut self) -> Option<(Waker, Vec<Waker>)> {
        let ((at, _), first) = self.timers.pop_first()?;
        self.now = self.now.max(at);
        let mut due = Vec::new();
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            due.push(first.remove());
        }
        Some((first, due))
    }

    pub(super) fn set_timer(&mut self, at: Timestamp, id: &mut Option<u64>, waker: &Waker) {
        let id = *id.get_or_insert_with(|| {
            self.next_timer += 1;
            self.next_timer
        });
        match self.timers.get_mut(&(at, id)) {
            Some(set) if set.will_wake(waker) => {}
            Some(set) => set.clone_from(waker),
            None => drop(self.timers.insert((at, id), waker.clone())),
        }
    }

    pub(super) fn clear_timer(&mut self, at: Timestamp, id: u64) -> Option<Waker> {
        self.timers.remove(&(at, id))
    }

    pub(super) fn freeze(&mut self, process: u32) {
        let of_it = |slots: &[Slot], key: &Key| slots[key.1 as usize].process == process;
        let mut held = Vec::new();
        for queue in [&mut self.ready, &mut self.quiet] {
            held.extend(queue.extract_if(.., |key| of_it(&self.slots, key)));
        }
        let process = self.process(process);
        process.is_frozen = true;
        process.held.extend(held);
    }

    pub(super) fn thaw(&mut self, process: u32) {
        let process = self.process(process);
        process.is_frozen = false;
        for key in std::mem::take(&mut process.held) {
            self.queue(key);
        }
    }

    /// Ends a process. What it was doing is to be dropped without the lock.
    pub(super) fn end(&mut self, process: u32) -> Vec<Task> {
        self.process(process).has_ended = true;
        let mut left = Vec::new();
        for place in 0..self.slots.len() {
            let slot = &mut self.slots[place];
            if slot.process == process && slot.number > 0 {
                left.extend(slot.task.take());
                slot.waker = None;
                let key = (slot.number, u32::try_from(place).unwrap());
                self.remove(key);
            }
        }
        left
    }

    /// All that is left of all processes.
    pub(super) fn take_all(&mut self) -> Vec<Task> {
        let processes = u32::try_from(self.processes.len()).unwrap();
        (0..processes).flat_map(|process| self.end(process)).collect()
    }

    pub(super) fn has_ended(&self, process: u32) -> bool {
        self.processes[process as usize].has_ended
    }

    fn process(&mut self, process: u32) -> &mut Process {
        &mut self.processes[process as usize]
    }
}

struct TaskWaker {
    key: Key,
    shared: Weak<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.state().wake(self.key);
        }
    }
}

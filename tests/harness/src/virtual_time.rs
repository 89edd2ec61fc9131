//! A runtime in virtual time: one thread, one seed, no real clock.
//!
//! Goal: the engine of production runs unchanged, and every run with one seed is the same run. Method: an
//! own executor, small enough to be read. Of the tasks that are ready it picks one by the seed, as any
//! scheduler might; when none is, time jumps to the next timer. Everything that could differ between two
//! runs goes through it: time, sleep, spawn, randomness.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};

/// More steps than any of our runs takes: beyond it something turns in a circle.
const MOST_STEPS: u64 = 5_000_000;

/// The runtime; a clone is the same one.
#[derive(Clone)]
pub struct SimRuntime {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    now: Timestamp,
    rng: StdRng,
    next_id: u64,
    steps: u64,
    ready: Vec<u64>,
    tasks: BTreeMap<u64, Task>,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    trace: Vec<String>,
    /// A digest of which task ran when: it differs wherever two runs differ.
    digest: u64,
}

impl SimRuntime {
    /// A new one, with nothing to run.
    pub fn new(seed: u64) -> Self {
        let state = State {
            // Not at the origin, so that an unsigned underflow would show.
            now: Timestamp::from_origin(Duration::from_secs(1_000)),
            rng: StdRng::seed_from_u64(seed),
            next_id: 0,
            steps: 0,
            ready: Vec::new(),
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            trace: Vec::new(),
            digest: 0xcbf2_9ce4_8422_2325,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state) }) }
    }

    /// Runs one ready task, or else moves time to the next timer. False when there is neither.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        state.steps += 1;
        assert!(state.steps < MOST_STEPS, "the simulation does not come to an end");
        if state.ready.is_empty() {
            let Some((&(at, _), _)) = state.timers.first_key_value() else { return false };
            state.now = state.now.max(at);
            let now = state.now;
            let later = state.timers.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut state.timers, later);
            drop(state);
            due.into_values().for_each(Waker::wake);
            return true;
        }
        let ready = state.ready.len();
        let pick = state.rng.random_range(0..ready);
        let id = state.ready.swap_remove(pick);
        let (steps, now) = (state.steps, state.now.since_origin().as_nanos());
        state.note_step(u128::from(steps) ^ u128::from(id) << 64 ^ now);
        let Some(mut task) = state.tasks.remove(&id) else { return true };
        drop(state);
        let waker = Waker::from(Arc::new(TaskWaker { id, shared: Arc::downgrade(&self.shared) }));
        // A task that wakes itself while it runs is not in `tasks`, so readiness is kept by its id.
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.state().tasks.insert(id, task);
        }
        true
    }

    /// Runs until `future` has ended, and panics if nothing is left to run before that.
    pub fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let output = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&output);
        self.spawn(Box::pin(async move {
            let value = future.await;
            *slot.lock().unwrap() = Some(value);
        }));
        loop {
            if let Some(value) = output.lock().unwrap().take() {
                return value;
            }
            assert!(self.step(), "everything waits and no timer is set");
        }
    }

    /// Lets `duration` of virtual time pass, with everything that happens in it.
    pub fn pass(&self, duration: Duration) {
        let sleep = self.sleep(duration);
        self.block_on(sleep);
    }

    /// Ends when so much virtual time has passed.
    pub fn sleep(&self, duration: Duration) -> Task {
        self.sleep_until(self.now().saturating_add(duration))
    }

    /// Takes whatever is still there apart, which breaks the cycles that unfinished tasks are.
    pub fn shut_down(&self) {
        let mut state = self.state();
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop(tasks);
    }

    /// A random number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.state().rng.random_range(0..end)
    }

    /// True with this probability.
    pub fn chance(&self, probability: f64) -> bool {
        self.state().rng.random_bool(probability)
    }

    /// Writes a line, with the time, into the trace.
    pub fn note(&self, event: impl fmt::Display) {
        let mut state = self.state();
        let line = format!("{:?} {event}", state.now.since_origin());
        state.trace.push(line);
    }

    /// The lines noted so far, and the digest of every step.
    pub fn trace(&self) -> (Vec<String>, u64) {
        let state = self.state();
        (state.trace.clone(), state.digest)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note_step(&mut self, what: u128) {
        for byte in what.to_le_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn wall_us(&self) -> u64 {
        u64::try_from(self.state().now.since_origin().as_micros()).unwrap()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        let id = self.state().id();
        Box::pin(Sleep { runtime: self.clone(), at, id })
    }

    fn spawn(&self, task: Task) {
        let mut state = self.state();
        let id = state.id();
        state.tasks.insert(id, task);
        state.ready.push(id);
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.state().rng.fill_bytes(&mut bytes);
        bytes
    }
}

impl fmt::Debug for SimRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimRuntime").finish_non_exhaustive()
    }
}

struct TaskWaker {
    id: u64,
    shared: Weak<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.ready.contains(&self.id) {
            state.ready.push(self.id);
        }
    }
}

struct Sleep {
    runtime: SimRuntime,
    at: Timestamp,
    id: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.runtime.state();
        if state.now >= self.at {
            return Poll::Ready(());
        }
        state.timers.insert((self.at, self.id), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.runtime.state().timers.remove(&(self.at, self.id));
        drop(waker);
    }
}

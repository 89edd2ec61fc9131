//! A runtime in virtual time: one thread, one seed, no real clock.
//!
//! Goal: the engine of production runs unchanged, and every run with one seed is the same run. Method: an
//! own executor, small enough to be read. Of the tasks that are ready it picks one by the seed, as any
//! scheduler might; when none is, time jumps to the next timer. Everything that could differ between two
//! runs goes through it: time, sleep, spawn, randomness. Tasks belong to processes, each of which can stand still and
//! end by itself.

mod state;
mod trace;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};
use rand::{Rng, RngCore};

use self::state::State;

/// More steps than any of our runs takes: beyond it something turns in a circle.
const MOST_STEPS: u64 = 5_000_000;

/// The runtime, as one process of it sees it; a clone is of the same process.
#[derive(Clone)]
pub struct SimRuntime {
    shared: Arc<Shared>,
    process: u32,
    is_quiet: bool,
}

struct Shared {
    state: Mutex<State>,
    /// What time it is, in nanoseconds: that is asked for more often than anything else.
    now: AtomicU64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_origin(Duration::from_nanos(self.now.load(Ordering::Relaxed)))
    }

    fn set_now(&self, now: Timestamp) {
        let nanos = u64::try_from(now.since_origin().as_nanos()).unwrap();
        self.now.store(nanos, Ordering::Relaxed);
    }
}

impl SimRuntime {
    /// A new one, with nothing to run.
    pub fn new(seed: u64) -> Self {
        Self::with_trace(seed, true)
    }

    /// The same; where nobody will read the lines of the trace, they need not be kept.
    pub fn with_trace(seed: u64, keeps_lines: bool) -> Self {
        // Not at the origin, so that an unsigned underflow would show.
        let now = Timestamp::from_origin(Duration::from_secs(1_000));
        let state = Mutex::new(State::new(seed, now, keeps_lines));
        let shared = Shared { state, now: AtomicU64::new(0) };
        shared.set_now(now);
        Self { shared: Arc::new(shared), process: 0, is_quiet: false }
    }

    /// A process of its own: what is spawned by it runs, stands still and ends by itself.
    #[must_use]
    pub fn process(&self) -> Self {
        let process = self.state().add_process();
        Self { process, ..self.clone() }
    }

    /// What is spawned by this runs as soon as it is woken, ahead of all others, and leaves nothing in the trace: for
    /// tasks that only look on. It draws no random numbers from it.
    #[must_use]
    pub fn quiet(&self) -> Self {
        Self { is_quiet: true, ..self.clone() }
    }

    /// The process stands still, as by SIGSTOP: what was ready or is woken runs when it goes on.
    pub fn freeze(&self) {
        self.state().freeze(self.process);
    }

    /// It goes on.
    pub fn thaw(&self) {
        self.state().thaw(self.process);
    }

    /// The process ends, as by `kill -9`: none of its tasks takes another step, and what they do when they are dropped
    /// begins nothing.
    pub fn end(&self) {
        let left = self.state().end(self.process);
        drop(left);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.state().has_ended(self.process)
    }

    /// Runs one ready task, or else moves time to the next timer. False when there is neither.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        state.steps += 1;
        assert!(state.steps < MOST_STEPS, "the simulation does not come to an end");
        let Some((key, mut task, waker)) = state.next() else {
            let Some((first, rest)) = state.jump() else { return false };
            self.shared.set_now(state.now);
            drop(state);
            first.wake();
            rest.into_iter().for_each(Waker::wake);
            return true;
        };
        drop(state);
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state();
        let left = if polled.is_pending() {
            state.put_back(key, task, waker)
        } else {
            state.remove(key);
            Some(task)
        };
        drop(state);
        drop(left);
        true
    }

    /// Runs until `future` has ended, and panics if nothing is left to run before that.
    pub fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let output = Arc::new((AtomicBool::new(false), Mutex::new(None)));
        let ended = Arc::clone(&output);
        self.spawn(Box::pin(async move {
            let value = future.await;
            *ended.1.lock().unwrap() = Some(value);
            ended.0.store(true, Ordering::Release);
        }));
        while !output.0.load(Ordering::Acquire) {
            assert!(self.step(), "everything waits and no timer is set");
        }
        output.1.lock().unwrap().take().unwrap()
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

    /// Ends at that time.
    pub fn timer(&self, at: Timestamp) -> Timer {
        Timer { shared: Arc::clone(&self.shared), at, id: None }
    }

    /// Drops whatever is left, which breaks the reference cycles of unfinished tasks.
    pub fn shut_down(&self) {
        let left = self.state().take_all();
        drop(left);
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
        let now = state.now;
        state.trace.note(now, event);
    }

    /// Writes a line into the trace where its lines are kept, and nowhere else: for what is too much to be told of
    /// always.
    pub fn detail<T: fmt::Display>(&self, event: impl FnOnce() -> T) {
        if !self.state().trace.keeps_lines() {
            return;
        }
        let event = event();
        let mut state = self.state();
        let now = state.now;
        state.trace.detail(now, event);
    }

    /// The lines noted so far, and the digest of them and of every step.
    pub fn trace(&self) -> (Vec<String>, u64) {
        let state = self.state();
        (state.trace.lines(), state.trace.digest())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Timestamp {
        self.shared.now()
    }

    fn wall_us(&self) -> u64 {
        self.shared.now.load(Ordering::Relaxed) / 1_000
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        Box::pin(self.timer(at))
    }

    fn spawn(&self, task: Task) {
        let refused = self.state().add(task, self.process, self.is_quiet, &self.shared);
        drop(refused);
    }

    /// All draws of one task in one step share the first byte. Code that walks a map, in an order that differs between
    /// runs, draws by it when waiters ask again. Owners use the other bytes too.
    fn random(&self) -> [u8; 16] {
        let (mut bytes, mut state) = ([0; 16], self.state());
        state.rng.fill_bytes(&mut bytes);
        let [first, ..] = &mut bytes;
        *first = state.of_step;
        bytes
    }
}

impl fmt::Debug for SimRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimRuntime").finish_non_exhaustive()
    }
}

/// Ends when a time has come.
pub struct Timer {
    shared: Arc<Shared>,
    at: Timestamp,
    /// Once it has been polled.
    id: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.shared.now() >= this.at {
            return Poll::Ready(());
        }
        this.shared.state().set_timer(this.at, &mut this.id, cx.waker());
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let waker = self.shared.state().clear_timer(self.at, id);
        drop(waker);
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("at", &self.at).finish_non_exhaustive()
    }
}

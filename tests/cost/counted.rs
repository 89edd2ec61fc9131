//! A runtime in virtual time that counts what tasks do; what it allocates itself is not counted.

use std::{
    future::poll_fn,
    ops::Sub,
    sync::{Arc, Mutex},
    task::Poll,
};

use allocation_counter::{measure, opt_out};
use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};
use quorlock_harness::SimRuntime;

/// What all tasks together have done until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
    pub(crate) tasks: u64,
    pub(crate) polls: u64,
    pub(crate) timers: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            allocations: self.allocations - before.allocations,
            bytes: self.bytes - before.bytes,
            tasks: self.tasks - before.tasks,
            polls: self.polls - before.polls,
            timers: self.timers - before.timers,
        }
    }
}

/// The simulation's runtime, counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) sim: SimRuntime,
    counts: Arc<Mutex<Counts>>,
}

impl Counted {
    pub(crate) fn new() -> Self {
        Self { sim: SimRuntime::with_trace(1, false), counts: Arc::default() }
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap()
    }

    /// Runs a task to its end, and counts it as one of the engine's.
    pub(crate) fn finish(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (ended, ends) = futures::channel::oneshot::channel();
        self.spawn(Box::pin(async move {
            task.await;
            ended.send(()).unwrap();
        }));
        self.sim.block_on(async move { ends.await.unwrap() });
    }
}

impl Runtime for Counted {
    fn now(&self) -> Timestamp {
        self.sim.now()
    }

    fn wall_us(&self) -> u64 {
        self.sim.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.counts.lock().unwrap().timers += 1;
        let mut sleep = self.sim.timer(at);
        Box::pin(poll_fn(move |cx| {
            let mut polled = Poll::Pending;
            opt_out(|| polled = std::pin::Pin::new(&mut sleep).poll(cx));
            polled
        }))
    }

    fn spawn(&self, mut task: Task) {
        self.counts.lock().unwrap().tasks += 1;
        let counts = Arc::clone(&self.counts);
        opt_out(|| {
            self.sim.spawn(Box::pin(poll_fn(move |cx| {
                let mut polled = Poll::Pending;
                let allocated = measure(|| polled = task.as_mut().poll(cx));
                let mut counts = counts.lock().unwrap();
                counts.polls += 1;
                counts.allocations += allocated.count_total;
                counts.bytes += allocated.bytes_total;
                polled
            })));
        });
    }

    fn random(&self) -> [u8; 16] {
        self.sim.random()
    }
}

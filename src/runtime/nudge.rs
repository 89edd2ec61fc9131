//! Notices a paused clock that is stuck, because something in its runtime never comes to rest.
//!
//! It decides when tokio has had time enough to move the clock by itself. It must never say so of a runtime that is
//! only slow: it counts only while the asking task is polled.
#![allow(clippy::disallowed_methods, reason = "the list points to this folder")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// A thread that wakes a task at intervals of real time, which the task cannot tell from a paused clock.
pub(super) struct Nudge {
    tick: Arc<Notify>,
    ended: Arc<AtomicBool>,
    /// `None` where no thread could be started: then nothing is noticed.
    thread: Option<Thread>,
    /// The clock at the last tick, and for how many ticks in a row it stood there.
    seen: Instant,
    still: u32,
}

impl Nudge {
    pub(super) fn start() -> Self {
        let (tick, ended) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let ticks = {
            let (tick, ended) = (Arc::clone(&tick), Arc::clone(&ended));
            move || {
                while !ended.load(Ordering::Acquire) {
                    thread::park_timeout(EVERY);
                    tick.notify_one();
                }
            }
        };
        let thread = thread::Builder::new().name("quorlock-nudge".to_owned()).spawn(ticks);
        let thread = thread.ok().map(|handle| handle.thread().clone());
        Self { tick, ended, thread, seen: Instant::now(), still: 0 }
    }

    /// Ends once the paused clock has stood still so long that it must be moved by hand.
    pub(super) async fn stuck(&mut self) {
        loop {
            self.tick.notified().await;
            let now = Instant::now();
            self.still = if now == self.seen { self.still.saturating_add(1) } else { 0 };
            self.seen = now;
            if self.still >= PATIENCE {
                return;
            }
        }
    }

    /// Moves the clock by hand by `left`, in steps, but at most `STEPS` of them: other tasks may have acted by then.
    pub(super) async fn push(&mut self, mut left: Duration) {
        for _ in 0..STEPS {
            if left.is_zero() {
                break;
            }
            let step = left.min(STEP);
            left = left.saturating_sub(step);
            tokio::time::advance(step).await;
            // The runtime wakes due tasks when it looks at its timers, and what follows takes a few turns.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
        self.seen = Instant::now();
    }
}

impl Drop for Nudge {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

/// How often to look at the clock, in real time, and for how many looks it must have stood still.
const EVERY: Duration = Duration::from_millis(20);
const PATIENCE: u32 = 10;

/// The size of a step by hand, the steps of one push, and the turns after each step.
const STEP: Duration = Duration::from_millis(10);
const STEPS: u32 = 100;
const TURNS: u32 = 8;

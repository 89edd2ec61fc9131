//! Notices that a paused clock does not get on, because something in its runtime never comes to rest.
//!
//! It decides when tokio has been given time enough to move the clock by itself. It must never say so of a runtime that
//! is only slow: nothing is counted while the task that asks is not run.
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

/// A thread that wakes a task now and then in real time, which that task cannot tell by itself.
pub(super) struct Nudge {
    tick: Arc<Notify>,
    ended: Arc<AtomicBool>,
    /// None where there is no thread to be had: then nothing is noticed.
    thread: Option<Thread>,
    /// The clock at the last tick, and how often in a row it stood there.
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

    /// Ends when the paused clock has stood still for so long that it has to be moved by hand.
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

    /// Moves the clock by hand, in steps, by `left` or so far that others can be expected to have done something.
    pub(super) async fn push(&mut self, mut left: Duration) {
        for _ in 0..STEPS {
            if left.is_zero() {
                break;
            }
            let step = left.min(STEP);
            left = left.saturating_sub(step);
            tokio::time::advance(step).await;
            // What is due is woken when the runtime looks at its timers, and what follows from that takes a few turns.
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

/// How often the clock is looked at, in real time, and how often it must have stood still.
const EVERY: Duration = Duration::from_millis(20);
const PATIENCE: u32 = 10;

/// How far it is moved by hand at once, and how often for one look.
const STEP: Duration = Duration::from_millis(10);
const STEPS: u32 = 100;
const TURNS: u32 = 8;

//! How busy the machine is: what a test of times may blame on other load, and no more.
//!
//! It must never excuse what does not depend on time, and must not be run by what is measured.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// The processor time that all threads of this process have had until now.
pub fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let whole = u64::try_from(spent.tv_sec).expect("it is not negative");
    Duration::new(whole, u32::try_from(spent.tv_nsec).expect("it is below a second"))
}

/// How late a nearly idle thread wakes. It watches until it is dropped.
#[derive(Debug)]
pub struct Lateness {
    samples: Arc<Mutex<Vec<(Instant, Duration)>>>,
    over: Arc<AtomicBool>,
}

impl Lateness {
    /// Begins to watch, on a thread of its own.
    pub fn watch() -> Self {
        let this = Self { samples: Arc::default(), over: Arc::default() };
        let (samples, over) = (Arc::clone(&this.samples), Arc::clone(&this.over));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let due = Instant::now() + Duration::from_millis(1);
                thread::sleep(Duration::from_millis(1));
                let now = Instant::now();
                let late = now.saturating_duration_since(due);
                samples.lock().unwrap_or_else(PoisonError::into_inner).push((now, late));
            }
        });
        this
    }

    /// The longest delay of a wake-up in this time, or the whole time where there was none.
    pub fn longest(&self, from: Instant, to: Instant) -> Duration {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let within = samples.iter().filter(|(at, _)| (from..=to).contains(at));
        let longest = within.map(|(_, late)| *late).max();
        longest.unwrap_or_else(|| to.saturating_duration_since(from))
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

//! How busy the machine is: what a test of times may put down to others on it, and no more.
//!
//! It must never excuse what does not depend on time, and nothing on a machine that is free.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// The processor time of this process until now. It stands still while others have the processors.
pub fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let whole = u64::try_from(spent.tv_sec).expect("it is not negative");
    Duration::new(whole, u32::try_from(spent.tv_nsec).expect("it is below a second"))
}

/// How late the threads of tokio runtimes come to what is due.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Arc<Mutex<Vec<(Instant, Duration)>>>);

impl Lateness {
    /// Something to do every millisecond, for ever: spawn it in each runtime whose lateness is of interest.
    pub fn sample(&self) -> impl Future<Output = ()> + Send + 'static {
        let Self(samples) = self.clone();
        async move {
            loop {
                let due = Instant::now() + Duration::from_millis(1);
                tokio::time::sleep_until(due.into()).await;
                let now = Instant::now();
                let late = now.saturating_duration_since(due);
                samples.lock().unwrap_or_else(PoisonError::into_inner).push((now, late));
            }
        }
    }

    /// The longest of those that were noticed in this time.
    pub fn longest(&self, from: Instant, to: Instant) -> Duration {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = samples.iter().filter(|(at, _)| (from..=to).contains(at));
        within.map(|(_, late)| *late).max().unwrap_or_default()
    }
}

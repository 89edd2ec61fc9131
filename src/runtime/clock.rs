//! The clocks of this process: one that leases end by, one that quarantines end by, and the wall clock.
//!
//! It reads them; `wall` decides what counts as a jump. The first may err only by running ahead, the second only by
//! running behind. A thread that holds the clock's lock at a fork must not keep the child from reading the time.
#![allow(clippy::disallowed_methods, reason = "the list points to this folder")]

use std::{
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use super::{
    process::{Process, lock_here},
    wall::Wall,
};
use crate::protocol::Timestamp;

/// One clock for the whole process, so that timestamps of two engine threads can be compared.
static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::new);

/// The time of the system's clock, since its first use in this process.
pub(crate) fn system_now() -> Timestamp {
    CLOCK.now()
}

/// The time without the jumps of the wall clock, with the same origin.
pub(super) fn system_steady() -> Timestamp {
    Timestamp::from_origin(boot_time().saturating_sub(CLOCK.origin))
}

/// The process in which this crate was first used. A child forked since returns that process too.
pub(super) fn first_process() -> Process {
    CLOCK.process
}

/// A clock that counts suspended time: `CLOCK_BOOTTIME` where it exists, plus the wall clock's jumps ahead of it. It
/// can err only by running ahead, which ends leases early and never late.
struct Clock {
    /// The process that made it.
    process: Process,
    origin: Duration,
    wall: Mutex<Wall>,
    /// The sum of the jumps seen so far, in nanoseconds, for a child that cannot take the lock.
    ahead: AtomicU64,
}

impl Clock {
    fn new() -> Self {
        let origin = boot_time();
        let wall = Wall::new(origin, wall_time(), boot_time());
        Self {
            process: Process::current(),
            origin,
            wall: Mutex::new(wall),
            ahead: AtomicU64::new(0),
        }
    }

    fn now(&self) -> Timestamp {
        let Some(mut last) = lock_here(&self.wall, self.process) else {
            let ahead = Duration::from_nanos(self.ahead.load(Ordering::Acquire));
            return self.time(boot_time(), ahead);
        };
        // All under the lock, so that no thread sees the time of another thread go back.
        let (before, wall, after) = (boot_time(), wall_time(), boot_time());
        last.advance(before, wall, after);
        let ahead = u64::try_from(last.ahead.as_nanos()).unwrap_or(u64::MAX);
        self.ahead.store(ahead, Ordering::Release);
        self.time(last.boot, last.ahead)
    }

    fn time(&self, boot: Duration, ahead: Duration) -> Timestamp {
        Timestamp::from_origin(boot.saturating_sub(self.origin).saturating_add(ahead))
    }
}

/// The system's wall clock, in microseconds since 1970.
pub(crate) fn system_wall_us() -> u64 {
    u64::try_from(wall_time().as_micros()).unwrap_or(u64::MAX)
}

fn wall_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(unix)]
fn boot_time() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    // On Apple systems this clock goes on while the machine sleeps; elsewhere it is the best there is.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// Windows counts suspended time in the standard library's clock.
#[cfg(not(unix))]
fn boot_time() -> Duration {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let now = std::time::Instant::now();
    now.saturating_duration_since(*ORIGIN.get_or_init(|| now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_tells_the_time_though_its_parent_was_about_to() {
        let mut clock = Clock::new();
        clock.process = Process::other();
        clock.wall.lock().unwrap().ahead = Duration::from_secs(60);
        let earlier = clock.now();
        assert!(earlier >= Timestamp::from_origin(Duration::from_secs(60)));
        // Locked as if by a thread that the child does not have.
        let locked = clock.wall.lock().unwrap();
        assert!(clock.now() >= earlier);
        drop(locked);
    }
}

//! A process group: whether anybody is left in it, signals to all of it, and its end in time.
//!
//! It must never signal a group of which nobody was started here.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, killpg},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// How often it is looked whether a group is gone.
const LOOK: Duration = Duration::from_millis(5);

/// The time that both processes share, in microseconds. It counts while the machine sleeps where there is such a clock.
pub(crate) fn now() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    let Ok(time) = clock_gettime(CLOCK) else { return u64::MAX };
    let time = Duration::from(time);
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The time from now until then.
pub(crate) fn until(then: u64) -> Duration {
    Duration::from_micros(then.saturating_sub(now()))
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The processes that a command has started, as far as they have stayed in its group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Group(Pid);

impl Group {
    /// `None` for what can be no group of a command: its number would mean one's own, or all processes.
    pub(crate) fn of(leader: i32) -> Option<Self> {
        (leader > 1).then(|| Self(Pid::from_raw(leader)))
    }

    pub(crate) const fn number(self) -> i32 {
        self.0.as_raw()
    }

    pub(crate) fn signal(self, signal: Signal) {
        // Nobody is left, or it is nobody of this user any more.
        let _ = killpg(self.0, signal);
    }

    /// Whether there is nobody left in it, those that nobody has waited for among them.
    pub(crate) fn is_gone(self) -> bool {
        killpg(self.0, None) == Err(nix::errno::Errno::ESRCH)
    }

    /// SIGTERM, and SIGKILL where anybody is left at that time. When this returns, all have been killed.
    pub(crate) async fn end(self, kill_at: u64) {
        self.signal(Signal::SIGTERM);
        // One that is stopped hears of it only when it goes on.
        self.signal(Signal::SIGCONT);
        while !self.is_gone() && now() < kill_at {
            tokio::time::sleep(LOOK.min(until(kill_at))).await;
        }
        self.signal(Signal::SIGKILL);
    }

    /// Whether they are gone within that time, behind a SIGKILL.
    pub(crate) async fn is_gone_within(self, limit: Duration) -> bool {
        let end = now().saturating_add(micros(limit));
        while !self.is_gone() {
            if now() >= end {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }
}

//! What a process can say of itself: the time that all processes share, its processor time, its memory.

use std::{fs, time::Duration};

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every system has this clock");
    u64::try_from(Duration::from(now).as_nanos()).expect("less than 500 years")
}

/// How long until then.
pub(crate) fn until(then: u64) -> Duration {
    Duration::from_nanos(then.saturating_sub(now()))
}

/// Nanoseconds as microseconds.
#[allow(clippy::cast_precision_loss, reason = "spans of a benchmark, far below 2^52")]
pub(crate) fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// Resident bytes of this process, where the system tells.
pub(crate) fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

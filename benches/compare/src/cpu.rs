//! The processor time of this process: every thread of every contender, and no server.

use std::time::Duration;

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};

/// The processor time used so far, in user and in system mode.
pub(crate) fn used() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process can always ask for its own");
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

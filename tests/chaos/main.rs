//! Goal: at most one holder at a time, tokens that rise, nothing stale in a fenced register and nothing left
//! behind, while nodes suffer whatever a server can suffer and the clients' processes are stopped.
//!
//! Method: workers in several processes fight for one resource on real servers while a nemesis harms a minority at a
//! time, or has a majority forget; processes are stopped past the ttl of what they hold. Every lease is recorded with
//! its fencing token and the time in which its holder may act, every effect with what the register said, on one
//! clock for all processes, and the history is searched. That the search finds something is tested too: by planted
//! histories, and by workloads with a planted bug. `docs/rings.md` says how to let it run for longer.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod burst;
mod chains;
mod changes;
mod climb;
mod drops;
mod elections;
mod faults;
mod fleet;
mod grants;
mod holds;
mod late;
mod links;
mod locking_set;
mod majority;
mod many;
mod minority;
mod nemesis;
mod permits;
mod planted;
#[path = "../../src/node/redis/texts.rs"]
#[allow(dead_code, reason = "each test program uses some")]
mod texts;
mod verdict;
mod wall;
mod wants;
mod worker;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use quorlock::{Builder, Redlock};
use quorlock_harness::{
    history::{checker, record},
    register,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The ttl of every lease of the workload: long beside a round, short beside a fault.
const TTL: Duration = Duration::from_millis(800);
/// The same where nodes are quarantined for a little longer than the longest ttl.
const SHORT_TTL: Duration = Duration::from_millis(500);
const MAX_TTL: Duration = Duration::from_millis(600);
/// Longer than nodes are quarantined by this longest ttl and the settings below, which is 860 ms.
const QUARANTINE: Duration = Duration::from_millis(1000);
/// What most workers fight for.
const RESOURCE: &str = "chaos";
/// How many other resources there are.
const IDLE: usize = 40;

/// From here on whatever may happen must have happened.
const LONG_RUN: Duration = Duration::from_secs(120);

/// For how long to go on: `QUORLOCK_CHAOS_SECONDS`, or so many seconds.
fn run_time(seconds: u64) -> Duration {
    let text = std::env::var("QUORLOCK_CHAOS_SECONDS").ok();
    let given = text.map(|text| text.parse().expect("a number of seconds"));
    Duration::from_secs(given.unwrap_or(seconds))
}

fn settings() -> Builder {
    let builder = Redlock::builder().ttl(TTL).node_timeout(100 * MS);
    builder.connect_timeout(10 * SECOND).close_timeout(20 * SECOND)
}

/// Says that something is over, also when the thread panics that others wait for.
struct Defer<'a>(&'a AtomicBool);

impl Drop for Defer<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

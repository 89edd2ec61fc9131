//! Goal: a waiter gets the resource in turn, and soon, whatever happens to the waiters before it, to the holders, to
//! the nodes and to the connections.
//!
//! Method: five real servers, and waiters that are processes, which are killed and stopped; or many waiters in this one.
//! How late a grant is, is compared with hand-overs without a fault in the same run, or with the longest pause between two
//! polls; never with a speed. `QUORLOCK_WAITS_SECONDS` sets how long `mixed` and `shares` go on.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod cost;
mod crowd;
mod cut;
mod ends;
mod fair;
mod faults;
mod field;
mod lines;
mod linger;
mod mixed;
mod polls;
mod process;
mod queue;
mod readers;
mod rights;
mod semaphore;
mod shares;
mod stuck;
mod together;

use std::time::Duration;

use quorlock::{Builder, Redlock};
use quorlock_harness::Cluster;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

/// The longest pause between two polls of a waiter in line.
const POLL: Duration = Duration::from_millis(1500);
/// What a busy machine may add to a timer.
const ROOM: Duration = SECOND;
/// How long a waiter that is woken in vain delays those behind it.
const GRACE: Duration = Duration::from_millis(5);

/// What all of them want.
const RESOURCE: &str = "hot";

/// Settings with leases as long as `max_ttl` at most.
fn settings(urls: &[String], max_ttl: Duration) -> Builder {
    let builder = Redlock::builder().nodes(urls).ttl(max_ttl).max_ttl(max_ttl);
    let builder = builder.connect_timeout(10 * SECOND).close_timeout(20 * SECOND);
    builder.wait(60 * SECOND).node_timeout(SECOND / 2)
}

/// Five servers that have been admitted.
fn admitted(max_ttl: Duration) -> Cluster {
    let cluster = Cluster::start(5);
    quorlock_harness::admit(settings(&cluster.urls(), max_ttl));
    cluster
}

/// For how long a load goes on: `QUORLOCK_WAITS_SECONDS`, or so many seconds.
fn run_time(seconds: u64) -> Duration {
    let text = std::env::var("QUORLOCK_WAITS_SECONDS").ok();
    let given = text.map(|text| text.parse().expect("a number of seconds"));
    Duration::from_secs(given.unwrap_or(seconds))
}

/// The value in the middle.
fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2]
}

/// The value below which `share` of the sorted times lie.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Jain's index of shares: 1 where all are equal, 1/n where one has everything.
fn jain(shares: &[usize]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn the_index_of_fairness_is_one_for_equals_and_less_for_others() {
    assert!((jain(&[7, 7, 7, 7]) - 1.0).abs() < 1e-9);
    assert!((jain(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-9);
    assert!((jain(&[2, 1]) - 0.9).abs() < 1e-9);
}

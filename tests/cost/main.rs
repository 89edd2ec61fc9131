//! Goal: no operation costs more than it does today without a test that fails.
//!
//! Method: no clock. In memory and in virtual time allocations, polls, tasks and timers are counted, and are the same in
//! each run (`memory.rs`). Real servers count what they are sent (`servers.rs`). Processor time is compared with that of a
//! bare fan-out on the same thread, in turns (`processor.rs`), and the wake-ups of the engine's thread with those of a
//! thread beside it (`idle.rs`).
//!
//! A figure that has become smaller fails too, so that what was gained is not lost again: write the new one down.
#![cfg(all(feature = "redis", feature = "metrics", feature = "tracing", unix))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod counted;
#[cfg(target_os = "linux")]
mod idle;
mod memory;
mod processor;
mod servers;

use std::time::Duration;

use quorlock::{Builder, Redlock};
use quorlock_harness::{Cluster, admit};

const SECOND: Duration = Duration::from_secs(1);
const NODES: usize = 5;

/// Something that users do over and over; whatever it takes, it gives back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operation {
    Lease,
    Extended,
    Set,
    Permit,
    Read,
    /// A lease, and another client that is refused meanwhile.
    Refused,
}

impl Operation {
    async fn run(self, redlock: &Redlock, other: &Redlock) {
        match self {
            Self::Lease => lease(redlock).await,
            Self::Extended => {
                let lease = redlock.acquire("invoice:42").await.unwrap();
                lease.extend().await.unwrap();
                lease.release().await.unwrap();
            }
            Self::Set => {
                let set = redlock.acquire_all(["account:4", "account:7", "account:9"]);
                set.await.unwrap().release().await.unwrap();
            }
            Self::Permit => {
                let semaphore = redlock.semaphore("uploads", 10).unwrap();
                semaphore.acquire().await.unwrap().release().await.unwrap();
            }
            Self::Read => redlock.read("report").await.unwrap().release().await.unwrap(),
            Self::Refused => {
                let lease = other.acquire("invoice:42").await.unwrap();
                assert!(redlock.try_acquire("invoice:42").await.unwrap_err().is_contended());
                lease.release().await.unwrap();
            }
        }
    }
}

async fn lease(redlock: &Redlock) {
    redlock.acquire("invoice:42").await.unwrap().release().await.unwrap();
}

/// Time limits that no busy machine reaches: commands sent again because of one would be counted.
fn settings(cluster: &Cluster) -> Builder {
    let builder = Redlock::builder().nodes(cluster.urls()).connect_timeout(20 * SECOND);
    let builder = builder.node_timeout(10 * SECOND).close_timeout(60 * SECOND);
    builder.ttl(60 * SECOND).max_ttl(60 * SECOND)
}

/// Servers that have been admitted.
fn admitted() -> Cluster {
    let cluster = Cluster::start(NODES);
    admit(settings(&cluster));
    cluster
}

/// A figure beside the one that is written down here, of which it may be so many percent off.
struct Figure {
    name: &'static str,
    is: f64,
    written: f64,
    percent: f64,
}

/// Fails, with all of them, where one is off.
#[track_caller]
fn as_written(what: &str, figures: &[Figure]) {
    let shown: Vec<String> = figures
        .iter()
        .map(|Figure { name, is, written, .. }| format!("{name} {is:.2} ({written})"))
        .collect();
    println!("{what}: {}", shown.join(", "));
    for Figure { name, is, written, percent } in figures {
        let off = written * percent / 100.0;
        assert!(*is <= written + off, "{what} costs more: {name} {is:.2}, written down {written}");
        let less = "costs less, write that down";
        assert!(*is >= written - off, "{what} {less}: {name} {is:.2}, written down {written}");
    }
}

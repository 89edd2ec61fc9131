//! Leases over time, in virtual time: renewals, warnings and losses, with hostile holders and odd nodes.
//!
//! Goal: whatever a holder's waker, a subscriber, one node or the machine does, every other lease is kept, and
//! everybody is told. Method: nodes in memory on the simulation's runtime (`fixture.rs`), so that no test waits
//! and each runs the same way every time; what may deadlock runs under a watchdog.
#![cfg(feature = "tokio")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod adverse;
mod counters;
mod crowd;
mod detach;
mod downgrade;
mod election;
mod fixture;
mod gone;
mod handover;
mod holds;
mod hostile;
mod line;
mod linger;
mod lock_delay;
mod once;
mod own_clock;
mod own_way;
mod panicking_wakers;
mod panics;
mod ranges;
mod readers;
mod refused_tasks;
mod restored;
mod semaphore;
mod shutdown;
mod standing;
mod threads;
mod times;
mod together;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod told;
mod turns;
mod wakers;
mod woken;
mod work;

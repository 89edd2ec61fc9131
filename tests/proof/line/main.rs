//! Many clients that wait for one resource, in virtual time: the machines of the core as they are, with nodes, a network,
//! clocks and processes that fail.
//!
//! Goal: whatever the lines on the nodes say, there is one valid holder at most, and its token is larger than those
//! before (safety); every waiter gets the resource, and a failure costs what was promised (liveness); except after a
//! failure, no client is overtaken by a later one (order). Method: `Round`, `Acquisition`, `Waiter` and `WaitList`
//! of production as events come, one seed for each run. Faults that are planted must be found by the same checks. What is
//! measured is printed beside `figures::MODEL`, the same line written down a second time in another language.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests are free to"
)]

mod checker;
mod client;
mod faults;
mod figures;
mod liveness;
mod messages;
mod network;
mod node;
mod order;
mod planted;
mod rounds;
mod safety;
mod setup;
mod world;

/// The seeds that each kind of run is tried with.
fn seeds(quick: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|set| set.parse::<u64>().expect(name));
    match number("QUORLOCK_LINE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("QUORLOCK_LINE_SEEDS").unwrap_or(quick),
    }
}

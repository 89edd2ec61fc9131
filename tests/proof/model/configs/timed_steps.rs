//! Leases with a lock-delay, and nodes whose clocks step forward.
//!
//! Goal: steps by the lock-delay or less leave one holder; by a tick more they do not. Method: `tenures` with a lock-delay
//! of two ticks, and one step for each node.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits, search},
    tenures::{Setup, Tenures},
};

pub(crate) const CONFIG: Config = Config {
    name: "timed_steps",
    search: |limits| with(2, 1, limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a lease was lost in time", "a clock has stepped"],
};

/// The same with steps by so many ticks, and where so many nodes never answer.
pub(crate) fn with(step_ticks: u8, deaf: usize, limits: Limits) -> Found {
    let setup = Setup {
        clients: 2,
        ttl_ticks: 3,
        delay_ticks: 2,
        drift_per_mille: 0,
        rates: [1_000; 3],
        step_ticks,
        renews: false,
        count: 1,
        counters: [0; 3],
        hand_overs: 0,
        timeouts: 0,
        held: 0,
        wipes: 0,
        visits: 0,
        longest_ticks: 0,
        swift: false,
        deaf,
        until: 6,
    };
    search(&mut Tenures::new(setup), limits)
}

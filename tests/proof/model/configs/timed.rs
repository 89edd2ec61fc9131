//! Leases over time: two clients, one of whose clocks is as slow as the drift allows.
//!
//! Goal: exclusion, with the drift that is counted with, and not a tick less. Method: `tenures` with a ttl of four ticks of
//! which a quarter is drift, and a client whose clock runs at three quarters of its rate.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits, search},
    tenures::{Setup, Tenures},
};

pub(crate) const CONFIG: Config = Config {
    name: "timed",
    search: |limits| with(250, 1, limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a lease was lost in time"],
};

/// The same with another drift, and where so many nodes never answer.
pub(crate) fn with(drift_per_mille: u32, deaf: usize, limits: Limits) -> Found {
    let setup = Setup {
        clients: 2,
        ttl_ticks: 4,
        delay_ticks: 0,
        drift_per_mille,
        rates: [750, 1_000, 1_000],
        step_ticks: 0,
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

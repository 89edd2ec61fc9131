//! Leases over time: two clients, one of whose clocks is as slow as the drift allows.
//!
//! Goal: exclusion, with the drift that is counted with, and not a tick less. Method: `terms` with a ttl of four ticks of
//! which a quarter is drift, and a client whose clock runs at three quarters of its rate.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits},
    terms::Setup,
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
    let setup = Setup { drift_per_mille, rates: [750, 1_000, 1_000], deaf, ..Setup::default() };
    setup.search(limits)
}

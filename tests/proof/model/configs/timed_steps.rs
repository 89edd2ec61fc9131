//! Leases with a lock-delay, and nodes whose clocks step forward.
//!
//! Goal: steps by the lock-delay or less leave one holder; by a tick more they do not. Method: `terms` with a lock-delay
//! of two ticks, and one step for each node.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits},
    terms::Setup,
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
    let setup = Setup { ttl_ticks: 3, delay_ticks: 2, step_ticks, deaf, ..Setup::default() };
    setup.search(limits)
}

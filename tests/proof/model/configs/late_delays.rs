//! The same as `late_renewals` with a lock-delay: what was lost is nobody's for that long.
//!
//! Goal and method are the same; all clocks are right, so that the lock-delay is whole.

use super::{Config, Ends, late_renewals};
use crate::model::terms::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "late_delays",
    search: |limits| late_renewals::with(SETUP, limits),
    states: 5_000_000,
    long: 5_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "a lease was handed on",
        "a lease was lost in time",
        "commands were late by connection",
    ],
};

pub(crate) const SETUP: Setup = Setup {
    ttl_ticks: 3,
    later_ticks: 5,
    delay_ticks: 2,
    drift_per_mille: 0,
    until: 10,
    ..late_renewals::BASE
};

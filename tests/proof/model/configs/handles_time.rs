//! Two processes over time, whose leases are renewed.
//!
//! Goal: a loss is told in time, every waiter is served, and a timer is set again after each renewal. Method: `handles`
//! with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_time",
    search: |limits| SETUP.search(limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["a lease was handed on", "a lease was lost in time"],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE; 2], &[ALONE]],
    until: 4,
    renews: true,
    ttl_ticks: 3,
    ..Setup::PLAIN
};

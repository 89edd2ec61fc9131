//! Three who want one resource in one process, beside one in another, over time.
//!
//! Goal: waiters keep their order, and are served where any of them goes away. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_three",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 20_000_000,
    ends: Ends::Open,
    sometimes: &["a lease was handed on", "a lease was lost in time"],
};

const SETUP: Setup =
    Setup { requests: [&[ALONE; 3], &[ALONE]], until: 4, cancels: 1, ttl_ticks: 3, ..Setup::PLAIN };

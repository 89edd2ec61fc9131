//! Exclusive leases beside a connection that breaks, with all that is under way, and keys that vanish.
//!
//! Goal: what was not heard does not count, and what went astray is deleted. Method: `leases` with one such connection, and
//! a key that vanishes.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_cuts",
    search: |limits| {
        let budget = Budget { cuts: 1, vanish: 1, ..Budget::default() };
        let asks = Ask::two_writers();
        Setup { prompt: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 700_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["two have won", "a round was lost", "something is left to release"],
};

//! Exclusive leases with answers that are heard twice.
//!
//! Goal: nodes are counted, and not answers. Method: `leases` with two answers that come twice.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_echoes",
    search: |limits| {
        let budget = Budget { echoes: 2, ..Budget::default() };
        let asks = Ask::two_writers();
        Setup::of(asks, budget).search(limits)
    },
    states: 300_000,
    long: 5_000_000,
    ends: Ends::Late,
    sometimes: &["two have won", "a round was lost", "all is at rest"],
};

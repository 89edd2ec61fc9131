//! Exclusive leases, and nothing goes wrong but that messages are late, and overtake each other.
//!
//! Goal: a small configuration that comes to its end in a second. Method: `leases` without a budget.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_plain",
    search: |limits| {
        let budget = Budget::default();
        let asks = Ask::two_writers();
        Setup::of(asks, budget).search(limits)
    },
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost", "all is at rest"],
};

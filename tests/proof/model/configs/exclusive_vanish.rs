//! Exclusive leases whose keys vanish whenever they like.
//!
//! Goal: tokens rise, though no key can be relied on. Method: `leases` with two keys that vanish.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_vanish",
    search: |limits| {
        let budget = Budget { vanish: 2, ..Budget::default() };
        let asks = Ask::two_writers();
        Setup { prompt: true, tokens_only: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost", "two hold at once"],
};

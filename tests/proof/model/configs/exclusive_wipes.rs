//! Exclusive leases beside a node that forgets everything, and keys that vanish.
//!
//! Goal: a node that has forgotten lends its vote to nobody. Method: `leases` with a restart of a node without its memory,
//! after which it does not vote.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_wipes",
    search: |limits| {
        let budget = Budget { wipes: 1, vanish: 1, ..Budget::default() };
        let asks = Ask::two_writers();
        Setup { prompt: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 500_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["somebody holds", "a round was lost", "something is left to release"],
};

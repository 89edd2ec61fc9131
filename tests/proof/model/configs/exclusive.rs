//! Exclusive leases: two clients, three nodes whose counters differ, and everything that a network and a restart can do.
//!
//! Goal: one holder, rising tokens, nothing left behind. Method: `leases`, with a restart of a node, which breaks all connections to
//! it, and a command that arrives twice.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive",
    search: |limits| {
        let budget = Budget { restarts: 1, doubles: 1, ..Budget::default() };
        let asks = Ask::two_writers();
        Setup { prompt: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 1_000_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &[
        "two have won",
        "a round was lost",
        "something is left to release",
        "all is at rest",
    ],
};

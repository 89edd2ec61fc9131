//! Sets that share a resource, beside a node that restarts.
//!
//! Goal: all of a set or none, no two that share a resource at once, and rising tokens in each of them. Method: `leases` with
//! two clients, each of whom asks for two of three resources.

use super::{Config, Ends};
use crate::model::{
    leases::{Ask, Budget, Setup},
    search::{Found, Limits},
};

pub(crate) const CONFIG: Config = Config {
    name: "sets",
    search: |limits| {
        let budget = Budget { restarts: 1, ..Budget::default() };
        with(vec![Ask::set(0, 0b011), Ask::set(1, 0b110)], budget, limits)
    },
    states: 1_000_000,
    long: 1_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost", "all is at rest"],
};

/// With these attempts.
pub(crate) fn with(asks: Vec<Ask>, budget: Budget, limits: Limits) -> Found {
    Setup { prompt: true, ..Setup::of(asks, budget) }.search(limits)
}

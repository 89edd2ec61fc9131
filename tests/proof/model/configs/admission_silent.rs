//! The same as `admission_tokens`, where a node may give no answer to who sees to it.
//!
//! Goal: a client lets a node in only once a majority has said how far it is. Method: the same, with one answer less; a
//! first grant has been heard, and the nodes are asked one after the other.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup, steps::Step};

pub(crate) const CONFIG: Config = Config {
    name: "admission_silent",
    search: |limits| {
        let budget = Budget { wipes: 1, probes: 1, silent: 1, ..Budget::default() };
        let before = vec![Step::Begin(0), Step::Execute(0, 1), Step::Hear(0, 1)];
        let asks = Ask::two_writers();
        Setup {
            counters: [0, 4, 2],
            prompt: true,
            tokens_only: true,
            before,
            orderly: true,
            ..Setup::of(asks, budget)
        }
        .search(limits)
    },
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a node was let in again"],
};

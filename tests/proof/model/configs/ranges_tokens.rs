//! Two rounds that ask for one token and for three, whose keys vanish: tokens alone.
//!
//! Goal: the ranges are disjoint, and the later one is the larger where it began when the other had been won. Method: all
//! orders of what they send to nodes that are alike.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "ranges_tokens",
    search: |limits| {
        let budget = Budget { vanish: 3, ..Budget::default() };
        let asks = vec![Ask::write(0, 5), Ask { count: 3, ..Ask::write(1, 5) }];
        let counters = [0; 3];
        Setup { prompt: true, tokens_only: true, counters, ..Setup::of(asks, budget) }
            .search(limits)
    },
    states: 1_000_000,
    long: 1_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};

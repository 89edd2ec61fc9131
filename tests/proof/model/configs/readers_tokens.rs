//! A reader and a writer, whose keys vanish: tokens alone.
//!
//! Goal: a reader's token is no smaller than that of a writer before it, and smaller than that of one after it, and those of
//! writers are unique. Method: all orders of what they send to nodes whose counters differ.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "readers_tokens",
    search: |limits| {
        let budget = Budget { vanish: 3, ..Budget::default() };
        let asks = vec![Ask::write(0, 0), Ask::read(1, 0)];
        let counters = [1, 2, 1];
        Setup { prompt: true, tokens_only: true, counters, ..Setup::of(asks, budget) }
            .search(limits)
    },
    states: 1_000_000,
    long: 30_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};

//! Two clients that want the same set, and keys that vanish: tokens alone.
//!
//! Goal and method: as `sets_tokens`, with counters that differ between nodes.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "sets_both",
    search: |limits| {
        let budget = Budget { vanish: 2, ..Budget::default() };
        let asks = vec![Ask::set(0, 0b011), Ask::set(1, 0b011)];
        let counters = [2, 0, 1];
        let setup = Setup { prompt: true, tokens_only: true, ..Setup::of(asks, budget) };
        Setup { counters, ..setup }.search(limits)
    },
    states: 1_000_000,
    long: 1_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};

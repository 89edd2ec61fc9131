//! Two rounds, an acquire that arrives twice, and keys that vanish: tokens alone.
//!
//! Goal: the guard of a confirm, that the counter is no higher than the token, keeps tokens unique where a node has granted
//! twice. Method: all orders of what they send; hints are below all counters.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "doubles",
    search: |limits| {
        let budget = Budget { vanish: 2, doubles: 1, ..Budget::default() };
        let ask = |client| Ask { count: 3, ..Ask::write(client, 1) };
        let asks = vec![ask(0), ask(1)];
        let counters = [1, 0, 1];
        Setup { prompt: true, tokens_only: true, counters, ..Setup::of(asks, budget) }
            .search(limits)
    },
    states: 3_000_000,
    long: 10_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};

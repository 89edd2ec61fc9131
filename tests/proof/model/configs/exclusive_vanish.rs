//! Exclusive leases whose keys vanish whenever they like.
//!
//! Goal: tokens rise, though no key can be relied on. Method: `leases` with two keys that vanish.

use super::{Config, Ends};
use crate::model::{
    leases::{Ask, Budget, Leases, Setup},
    search::search,
};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_vanish",
    search: |limits| {
        let budget = Budget { vanish: 2, ..Budget::default() };
        let asks = vec![Ask::write(0, 1), Ask::write(1, 1)];
        search(
            &mut Leases::new(Setup {
                asks,
                counters: [5, 0, 7],
                budget,
                prompt: true,
                tokens_only: true,
                ..Setup::default()
            }),
            limits,
        )
    },
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost", "two hold at once"],
};

//! Three sets, each of which shares a resource with each other one, and a key that vanishes.
//!
//! Goal: where a part of a set is gone, tokens rise all the same, and what is left is deleted. Method: as `sets`, with three
//! clients.

use super::{Config, Ends, sets};
use crate::model::leases::{Ask, Budget};

pub(crate) const CONFIG: Config = Config {
    name: "sets_vanish",
    search: |limits| {
        let budget = Budget { vanish: 1, ..Budget::default() };
        let asks = vec![Ask::set(0, 0b011), Ask::set(1, 0b110), Ask::set(2, 0b101)];
        sets::with(asks, budget, limits)
    },
    states: 500_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["a round was lost"],
};

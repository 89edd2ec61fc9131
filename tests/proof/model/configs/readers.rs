//! Readers and writers: two who read and one who writes, at nodes whose counters differ.
//!
//! Goal: readers never share with a writer, and may see what was written before them and nothing later. Method: `leases`
//! with three attempts of three clients.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "readers",
    search: |limits| {
        let budget = Budget::default();
        let asks = vec![Ask::write(0, 1), Ask::read(1, 1), Ask::read(2, 1)];
        Setup { prompt: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 500_000,
    long: 50_000_000,
    ends: Ends::Late,
    sometimes: &["two have won", "two hold at once", "a round was lost", "all is at rest"],
};

//! One lease that loses a key, is extended without it, and gets it back.
//!
//! Goal: what a restore has set is deleted, and none is sent after the grant. Method: `leases` with one attempt, a key that
//! vanishes, an extension, two restores, a connection that breaks, and a validity that ends.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_restores",
    search: |limits| {
        let budget = Budget {
            cuts: 1,
            vanish: 1,
            extensions: 1,
            restores: 2,
            overs: 1,
            ..Budget::default()
        };
        let asks = vec![Ask::write(0, 1)];
        Setup { counters: [0; 3], prompt: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["an extension was confirmed", "something is left to release", "all is at rest"],
};

//! One client by itself, and everything that may keep its key from being deleted.
//!
//! Goal: whatever was set is deleted, and nothing is deleted too early. Method: `leases` with one attempt, and with as many
//! faults as leave few enough states: connections that break, scripts that are sent again, answers that come after the
//! deadline, keys that vanish, a caller that goes away, an extension, and a restore.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_undo",
    search: |limits| {
        let budget = Budget {
            cuts: 2,
            scripts: 1,
            late: 1,
            vanish: 1,
            abandons: 1,
            extensions: 1,
            restores: 2,
            overs: 1,
            ..Budget::default()
        };
        let asks = vec![Ask::write(0, 1)];
        Setup::of(asks, budget).search(limits)
    },
    states: 500_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["a round was lost", "something is left to release", "all is at rest"],
};

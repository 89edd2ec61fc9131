//! Exclusive leases that ask for several tokens, whose keys vanish whenever they like, and which are extended and restored.
//!
//! Goal: ranges are disjoint and rise with no key that can be relied on; a failed extension deletes nothing; what a restore
//! has set is deleted. Method: `leases` with keys that vanish, one extension and one restore, and an end of validity.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "exclusive_ranges",
    search: |limits| {
        let budget =
            Budget { vanish: 2, extensions: 1, restores: 1, overs: 1, ..Budget::default() };
        let ask = |client| Ask { count: 3, ..Ask::write(client, 4) };
        let asks = vec![ask(0), ask(1)];
        Setup { prompt: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 500_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["two have won", "an extension was confirmed", "two hold at once"],
};

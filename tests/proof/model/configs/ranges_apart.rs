//! Two rounds that ask for three tokens and for two, at nodes whose counters differ, whose keys vanish: tokens alone.
//!
//! Goal and method: as `ranges_tokens`, with hints between the counters and above them.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "ranges_apart",
    search: |limits| {
        let budget = Budget { vanish: 3, ..Budget::default() };
        let asks = vec![Ask { count: 3, ..Ask::write(0, 4) }, Ask { count: 2, ..Ask::write(1, 9) }];
        Setup { prompt: true, tokens_only: true, ..Setup::of(asks, budget) }.search(limits)
    },
    states: 1_000_000,
    long: 1_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};

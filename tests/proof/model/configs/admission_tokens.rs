//! A node that forgets everything and is let in again, without any wait, beside two clients whose rounds are under way.
//!
//! Goal: tokens rise though a node has forgotten, with no clock: the client that lets it in asks the others how far
//! they are, and seals them. Method: `leases` with a restart without memory, and a client that sees to the nodes.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup};

pub(crate) const CONFIG: Config = Config {
    name: "admission_tokens",
    search: |limits| {
        let budget = Budget { wipes: 1, probes: 1, ..Budget::default() };
        let asks = Ask::two_writers();
        Setup { counters: [0, 4, 2], prompt: true, tokens_only: true, ..Setup::of(asks, budget) }
            .search(limits)
    },
    states: 700_000,
    long: 5_000_000,
    ends: Ends::Late,
    sometimes: &["two have won", "a node was let in again"],
};

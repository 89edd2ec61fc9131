//! Permits: two slots, one of which is nearly won, and two clients who ask for whichever is free.
//!
//! Goal: never more permits than there are, each slot with rising tokens of its own. That nothing is left of what was picked and
//! not won is for `permits_two`. Method: `leases` with the production's `Round`, from the moment at which the first client has won on two nodes.
//! There were 119,999,295 states when another machine asked for slots, which were all looked at once, in eleven minutes; a long search looks at some of them.

use super::{Config, Ends};
use crate::model::{
    leases::{Ask, Budget, Setup, steps::Step},
    search::{Found, Limits},
};

pub(crate) const CONFIG: Config = Config {
    name: "permits",
    search: |limits| {
        let before = [0, 1].into_iter().flat_map(|at| [Step::Execute(0, at), Step::Hear(0, at)]);
        let before = std::iter::once(Step::Begin(0)).chain(before).collect();
        let asks = vec![Ask::any(0, 0), Ask::any(1, 0), Ask::any(2, 1)];
        with(asks, before, Budget::default(), limits)
    },
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Open,
    sometimes: &["two hold at once", "a round was lost"],
};

/// With these attempts, from some moment on.
pub(crate) fn with(asks: Vec<Ask>, before: Vec<Step>, budget: Budget, limits: Limits) -> Found {
    Setup { before, prompt: true, ..Setup::of(asks, budget) }.search(limits)
}

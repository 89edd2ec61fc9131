//! Two clients who wait in the lines on the nodes for what a third one holds.
//!
//! Goal: every waiter gets it in the end, in order, and leaves nothing behind. Method: `lines` from the moment at which
//! the first client has won, where what a node tells is not heard once.

use super::{Config, Ends};
use crate::model::{
    lines::{Budget, Lines, Setup},
    search::{Found, Limits, search},
};

pub(crate) const CONFIG: Config = Config {
    name: "lines",
    search: |limits| with(3, Budget { unheard: 1, ..Budget::default() }, limits),
    states: 900_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["two have won", "two wait"],
};

/// So many clients, the first of whom holds it.
pub(crate) fn with(clients: usize, budget: Budget, limits: Limits) -> Found {
    search(&mut Lines::new(setup(clients, budget)), limits)
}

pub(crate) fn setup(clients: usize, budget: Budget) -> Setup {
    Setup { clients, counters: [5, 0, 7], budget, held: true, stands: false, until: 2_000 }
}

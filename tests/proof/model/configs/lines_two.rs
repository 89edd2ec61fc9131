//! One who waits in the lines for what another one holds, and goes away at any moment.
//!
//! Goal: nothing is left of one who has gone, whatever it has under way. Method: `lines` with two clients, where what a node
//! tells is not heard once.

use super::{Config, Ends, lines};
use crate::model::lines::Budget;

pub(crate) const CONFIG: Config = Config {
    name: "lines_two",
    search: |limits| {
        lines::with(2, Budget { unheard: 1, leaves: 1, cancels: 1, ..Budget::default() }, limits)
    },
    states: 300_000,
    long: 20_000_000,
    ends: Ends::Late,
    sometimes: &["two have won"],
};

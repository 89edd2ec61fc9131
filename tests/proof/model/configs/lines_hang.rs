//! The same as `lines`, beside one who never asks again, and one who waits no more.
//!
//! Goal: nobody waits for a client that does not come, and nothing is left of one that has gone. Method: as there.

use super::{Config, Ends, lines};
use crate::model::lines::Budget;

pub(crate) const CONFIG: Config = Config {
    name: "lines_hang",
    search: |limits| lines::with(3, Budget { hangs: 1, leaves: 1, ..Budget::default() }, limits),
    states: 300_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["two have won", "one who waited has won behind one who hangs"],
};

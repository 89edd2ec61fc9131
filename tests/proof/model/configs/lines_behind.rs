//! The same as `lines`, from the moment at which the second client stands in line.
//!
//! Goal: no later client overtakes it. Method: as there.

use super::{Config, Ends, lines};
use crate::model::{
    lines::{Budget, Lines, Setup},
    search::search,
};

pub(crate) const CONFIG: Config = Config {
    name: "lines_behind",
    search: |limits| {
        let budget = Budget { unheard: 1, ..Budget::default() };
        let setup = Setup { stands: true, ..lines::setup(3, budget) };
        search(&mut Lines::new(setup), limits)
    },
    states: 300_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["two have won", "two wait"],
};

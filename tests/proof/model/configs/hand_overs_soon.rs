//! The same as `hand_overs` up to an earlier tick, with a second client whose messages take no time.
//!
//! Goal and method are the same; it is small enough for its end.

use super::{Config, Ends, hand_overs};
use crate::model::terms::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "hand_overs_soon",
    search: |limits| Setup { swift: true, until: 5, ..hand_overs::setup(1) }.search(limits),
    states: 5_000_000,
    long: 5_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "two have won",
        "a lease was handed on",
        "a lease was extended",
        "a lease was lost in time",
    ],
};

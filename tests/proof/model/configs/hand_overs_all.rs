//! The same as `hand_overs`, where all three nodes answer.
//!
//! Goal and method are the same; there are many more states.

use super::{Config, Ends, hand_overs};

pub(crate) const CONFIG: Config = Config {
    name: "hand_overs_all",
    search: |limits| hand_overs::with(0, limits),
    states: 100_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &[],
};

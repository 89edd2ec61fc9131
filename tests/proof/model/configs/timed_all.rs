//! The same as `timed`, with a slow clock, where all three nodes answer.
//!
//! Goal and method are the same; there are many more states.

use super::{Config, Ends, timed};

pub(crate) const CONFIG: Config = Config {
    name: "timed_all",
    search: |limits| timed::with(250, 0, limits),
    states: 100_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &[],
};

//! The same as `timed_steps`, with clocks that step, where all three nodes answer.
//!
//! Goal and method are the same; there are many more states.

use super::{Config, Ends, timed_steps};

pub(crate) const CONFIG: Config = Config {
    name: "timed_steps_all",
    search: |limits| timed_steps::with(2, 0, limits),
    states: 100_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &[],
};

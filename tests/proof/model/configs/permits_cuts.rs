//! Permits beside a connection that breaks, and a caller who goes away.
//!
//! Goal: whatever a node has picked is deleted, also where nobody knows which slot that was. Method: as `permits`, with two
//! clients from the beginning on.

use super::{Config, Ends, permits};
use crate::model::leases::{Ask, Budget};

pub(crate) const CONFIG: Config = Config {
    name: "permits_cuts",
    search: |limits| {
        let budget = Budget { cuts: 1, abandons: 1, ..Budget::default() };
        permits::with(vec![Ask::any(0, 0), Ask::any(1, 1)], Vec::new(), budget, limits)
    },
    states: 500_000,
    long: 20_000_000,
    ends: Ends::Late,
    sometimes: &["two have won", "a round was lost", "something is left to release"],
};

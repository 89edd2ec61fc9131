//! Two slots, and two clients who both look at the first one first.
//!
//! Goal: as `permits`; a client refused a slot has another one, and what was picked beside it is deleted. Method: as
//! there, from the beginning on.

use super::{Config, Ends, permits};
use crate::model::leases::{Ask, Budget};

pub(crate) const CONFIG: Config = Config {
    name: "permits_two",
    search: |limits| {
        let asks = vec![Ask::any(0, 0), Ask::any(1, 0)];
        permits::with(asks, Vec::new(), Budget::default(), limits)
    },
    states: 1_000_000,
    long: 1_000_000,
    ends: Ends::Soon,
    sometimes: &["two hold at once", "all is at rest"],
};

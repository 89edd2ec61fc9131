//! Two permits, of which one is on its way, and a connection that breaks.
//!
//! Goal: no slot has two holders and nothing is left of what was picked, also where an answer is lost or late. Method: all
//! orders from the moment on at which the first has been given a slot by one node, and the second by another one.

use super::{Config, Ends, permits};
use crate::model::leases::{Ask, Budget, steps::Step};

pub(crate) const CONFIG: Config = Config {
    name: "permits_lost",
    search: |limits| {
        let asks = vec![Ask::any(0, 0), Ask::any(1, 0)];
        let given =
            |number, at| [Step::Begin(number), Step::Execute(number, at), Step::Hear(number, at)];
        let before = [given(0, 0), given(1, 1)].concat();
        permits::with(asks, before, Budget { cuts: 1, ..Budget::default() }, limits)
    },
    states: 2_000_000,
    long: 2_000_000,
    ends: Ends::Soon,
    sometimes: &["two hold at once", "something is left to release"],
};

//! The same as `late_renewals` with a lease that is given back and keeps others out for a while.
//!
//! Goal and method are the same; where a quorum has heard of it, nobody has the resource before.

use super::{Config, Ends, late_renewals};
use crate::model::terms::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "late_holds",
    search: |limits| late_renewals::with(SETUP, limits),
    states: 5_000_000,
    long: 5_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "a lease was handed on",
        "a key was kept behind a release",
        "commands were late by connection",
    ],
};

pub(crate) const SETUP: Setup = Setup { hold_ticks: 6, until: 9, ..late_renewals::BASE };

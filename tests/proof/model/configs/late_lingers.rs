//! The same as `late_renewals` with a grant that is nobody's for a while before the next lease has it.
//!
//! Goal and method are the same.

use super::{Config, Ends, late_renewals};
use crate::model::terms::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "late_lingers",
    search: |limits| late_renewals::with(SETUP, limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "a lease was handed on",
        "a grant was nobody's",
        "commands were late by connection",
    ],
};

pub(crate) const SETUP: Setup = Setup { lingers: true, ..late_renewals::BASE };

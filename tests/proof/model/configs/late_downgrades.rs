//! The same as `late_renewals` with a holder who goes on as a reader.
//!
//! Goal and method are the same; extensions of the writer and of the reader arrive behind each other.

use super::{Config, Ends, late_renewals};
use crate::model::terms::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "late_downgrades",
    search: |limits| late_renewals::with(SETUP, limits),
    states: 500_000,
    long: 30_000_000,
    ends: Ends::Open,
    sometimes: &[
        "a lease was handed on",
        "a writer went on as a reader",
        "commands were late by connection",
    ],
};

pub(crate) const SETUP: Setup = Setup { downgrades: true, until: 7, ..late_renewals::BASE };

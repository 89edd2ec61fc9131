//! Two processes over time, in which some ask once, or wait for no longer than so.
//!
//! Goal: each is answered once, in time, and stands before nobody where it does not wait. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_once",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &["somebody waits", "a lease was handed on", "all is at rest"],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE, ALONE.once(), ALONE.within(2)], &[ALONE]],
    until: 3,
    ttl_ticks: 3,
    ..Setup::PLAIN
};

//! Two processes over time, in which a grant is dropped and nobody says that it is over.
//!
//! Goal: every waiter is served. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_drops",
    search: |limits| SETUP.search(limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["somebody waits", "all is at rest"],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE, ALONE, ALONE.within(1)], &[ALONE]],
    drops: 1,
    until: 2,
    ttl_ticks: 3,
    ..Setup::PLAIN
};

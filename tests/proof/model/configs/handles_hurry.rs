//! One process over time, which closes, in which a round may take too long for one of those who ask.
//!
//! Goal: a request that stands back is let in again, may leave, and is answered. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_hurry",
    search: |limits| SETUP.search(limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["somebody waits", "all is at rest"],
};

const SETUP: Setup = Setup {
    handles: 1,
    requests: [&[ALONE.hurried(), ALONE.once(), ALONE], &[]],
    rounds: 4,
    cancels: 1,
    closes: 1,
    until: 2,
    ttl_ticks: 3,
    ..Setup::PLAIN
};

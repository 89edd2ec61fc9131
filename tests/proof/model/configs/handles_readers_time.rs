//! Two processes over time, in one of which one wants to read and one to write, whose grant is kept as nobody's.
//!
//! Goal: what is kept is in no reader's way, a writer that reads on is renewed as a reader, and a loss is told in time. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{
    Setup,
    kind::{ALONE, READS},
};

pub(crate) const CONFIG: Config = Config {
    name: "handles_readers_time",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &[
        "one pauses while others read",
        "a writer reads on",
        "a grant was nobody's",
        "a lease was lost in time",
    ],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE, READS], &[READS]],
    until: 2,
    lingers: true,
    renews: true,
    downgrades: 1,
    ttl_ticks: 2,
    ..Setup::PLAIN
};

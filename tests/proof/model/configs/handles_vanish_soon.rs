//! The same as `handles_vanish` with one process, which asks once, where answers take no time.
//!
//! Goal: of a lease that is renewed beside a node that forgets, no state is left out. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_vanish_soon",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 3_000_000,
    ends: Ends::Late,
    sometimes: &["a lease was lost in time"],
};

const SETUP: Setup = Setup {
    nodes: 3,
    handles: 1,
    requests: [&[ALONE], &[]],
    rounds: 1,
    renews: true,
    vanishes: 1,
    until: 5,
    ttl_ticks: 3,
    prompt: true,
    ..Setup::PLAIN
};

//! Two processes, one of whose grants are kept as nobody's behind each lease.
//!
//! Goal: a kept grant is taken by a newcomer or given back in time, and nobody's meanwhile. Method: `handles` with this
//! setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_lingers",
    search: |limits| SETUP.search(limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["a lease was handed on", "all is at rest", "a grant was nobody's"],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE; 3], &[ALONE]],
    until: 3,
    lingers: true,
    ttl_ticks: 3,
    ..Setup::PLAIN
};

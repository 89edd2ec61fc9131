//! Two processes beside a node that forgets, over time.
//!
//! Goal: a lease whose quorum is gone is told lost in time, and the client goes on with the nodes that are left. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::ALONE};

pub(crate) const CONFIG: Config = Config {
    name: "handles_vanish",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 20_000_000,
    ends: Ends::Open,
    sometimes: &["a lease was lost in time"],
};

const SETUP: Setup = Setup {
    nodes: 3,
    requests: [&[ALONE]; 2],
    renews: true,
    vanishes: 1,
    until: 5,
    ttl_ticks: 3,
    ..Setup::PLAIN
};

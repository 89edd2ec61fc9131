//! Two processes over time that want any of two permits, which are renewed, for no longer than so.
//!
//! Goal: a loss is told in time, and a request that has waited for too long is answered. Method: `handles` with this
//! setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::permit};

pub(crate) const CONFIG: Config = Config {
    name: "handles_permits_time",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &["all permits are held", "somebody waits", "a lease was lost in time"],
};

const SETUP: Setup = Setup {
    requests: [&[permit(0), permit(0).within(2)], &[permit(1)]],
    until: 3,
    renews: true,
    ttl_ticks: 2,
    ..Setup::PLAIN
};

//! Renewals that arrive behind later ones, under leases of several ttls.
//!
//! Goal: nothing that was sent for an earlier lease or an earlier renewal lessens what a later one relies on. Method:
//! `terms` from the moment at which the first client has won on two nodes, and the third never answers. Its grant is handed
//! on, and the next lease asks for a longer ttl; an extension is given up; the client connects
//! anew to all nodes, and what was under way arrives at any later time. The second client asks at any time; its messages take none, and
//! with its answer the search ends: what it is told shows whether the first may rely on what it counts with.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits},
    terms::Setup,
};

pub(crate) const CONFIG: Config = Config {
    name: "late_renewals",
    search: |limits| with(BASE, limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "two have won",
        "a lease was handed on",
        "a lease was extended",
        "commands were late by connection",
    ],
};

/// A first lease of four ticks, and later ones of seven.
pub(crate) const BASE: Setup = Setup {
    later_ticks: 7,
    drift_per_mille: 250,
    renews: true,
    count: 3,
    hand_overs: 1,
    timeouts: 1,
    cuts: 1,
    held: 2,
    asks: true,
    swift: true,
    deaf: 1,
    until: 8,
    ..Setup::PLAIN
};

pub(crate) fn with(setup: Setup, limits: Limits) -> Found {
    setup.search(limits)
}

//! Leases that are renewed and handed on inside a process, beside another process.
//!
//! Goal: every lease of a grant has a token of its own, which rises, and none is handed on that is about to be lost. Method:
//! `terms` with rounds that ask for three tokens, two hand-overs to leases with a longer ttl, renewals, and an extension that nobody hears;
//! one of the three nodes never answers.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits},
    terms::Setup,
};

pub(crate) const CONFIG: Config = Config {
    name: "hand_overs",
    search: |limits| with(1, limits),
    states: 700_000,
    long: 30_000_000,
    ends: Ends::Open,
    sometimes: &["two have won", "a lease was handed on", "a lease was extended"],
};

/// The same where so many nodes never answer.
pub(crate) fn with(deaf: usize, limits: Limits) -> Found {
    setup(deaf).search(limits)
}

pub(crate) fn setup(deaf: usize) -> Setup {
    Setup {
        drift_per_mille: 250,
        renews: true,
        count: 3,
        later_ticks: 5,
        hand_overs: 2,
        timeouts: 1,
        deaf,
        ..Setup::default()
    }
}

//! A lease that is held on three nodes and renewed, and another client that asks for it.
//!
//! Goal: an extension that is late, or that too few nodes have heard of, never makes a client believe that it holds.
//! Method: `terms` from the moment at which the first client has won, with an extension that nobody hears; the second
//! client's messages take no time, so that it is enough to ask when it asks.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits},
    terms::Setup,
};

pub(crate) const CONFIG: Config = Config {
    name: "renewals",
    search: |limits| with(0, 1_000, 6, limits),
    states: 500_000,
    long: 5_000_000,
    ends: Ends::Open,
    sometimes: &["a lease was lost in time", "a lease was extended"],
};

/// The same where so many nodes never answer, with a holder whose clock does so many milliseconds in a tick, up to this tick.
pub(crate) fn with(deaf: usize, slow: u64, until: u8, limits: Limits) -> Found {
    let setup = Setup {
        drift_per_mille: 250,
        rates: [slow, 1_000, 1_000],
        renews: true,
        timeouts: 1,
        held: 3 - deaf,
        swift: true,
        deaf,
        until,
        ..Setup::default()
    };
    setup.search(limits)
}

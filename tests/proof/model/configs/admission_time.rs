//! A node that forgets a lease, the quarantine, and somebody who asks again and again.
//!
//! Goal: a node let in after the quarantine has forgotten nothing that still holds, also where the clock of the waiting
//! client is as fast as is allowed for; and a quarantine that is a tick shorter does not do. Method: `terms` from the
//! moment at which the first client has won on two nodes, one of which restarts with nothing; the client that sees to
//! it has a clock that is a tenth too fast. How long a round may last is no part of it here, so that nothing is to
//! spare.

use super::{Config, Ends};
use crate::model::{
    search::{Found, Limits},
    terms::Setup,
};

pub(crate) const CONFIG: Config = Config {
    name: "admission_time",
    search: |limits| with(11, limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a node was let in again", "a lease was lost in time"],
};

/// The same with a quarantine for leases of so many ticks; they last for eleven.
pub(crate) fn with(longest_ticks: u8, limits: Limits) -> Found {
    let setup = Setup {
        ttl_ticks: 11,
        rates: [1_000, 1_000, 1_100],
        held: 2,
        wipes: 1,
        probes: 2,
        longest_ticks,
        swift: true,
        until: 12,
        ..Setup::default()
    };
    setup.search(limits)
}

//! What a holder asked for beyond the default, and since when that counts.
//!
//! Kept apart so that default leases are small. It decides nothing.

use alloc::boxed::Box;

use super::RenewalPolicy;
use crate::time::Timestamp;

/// The policy of a lease, if not the default.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Asked {
    pub(super) renewal: RenewalPolicy,
    pub(super) granted: Timestamp,
    pub(super) last_heartbeat: Timestamp,
}

impl Asked {
    /// From `now` on. The default has no limit, so that it needs no time.
    pub(super) fn at(now: Timestamp, renewal: RenewalPolicy) -> Option<Box<Self>> {
        let asked = || Box::new(Self { renewal, granted: now, last_heartbeat: now });
        (renewal != RenewalPolicy::default()).then(asked)
    }
}

//! What a holder asked for that is not what most do, and since when that counts.
//!
//! It is kept apart, so that leases without it are small. It decides nothing.

use alloc::boxed::Box;

use super::RenewalPolicy;
use crate::time::Timestamp;

/// The policy of a lease, where it is not the default.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Asked {
    pub(super) renewal: RenewalPolicy,
    pub(super) granted: Timestamp,
    pub(super) last_heartbeat: Timestamp,
}

impl Asked {
    /// At `now`. Without a limit it need not be known since when.
    pub(super) fn at(now: Timestamp, renewal: RenewalPolicy) -> Option<Box<Self>> {
        let asked = || Box::new(Self { renewal, granted: now, last_heartbeat: now });
        (renewal != RenewalPolicy::default()).then(asked)
    }
}

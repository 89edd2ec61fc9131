//! What is said of times that are longer than `max_ttl`, alike where the builder and where a request asks for them.

use std::{fmt, time::Duration};

/// What is said of a ttl above `max_ttl`, and what raising that costs.
pub(crate) struct TooLong {
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the ttl of {:?} is longer than max_ttl, which is {:?}; leases are renewed while they are held, so that a longer \
             ttl is seldom needed; where it is, raise max_ttl alike in every process of the fleet, which makes a node that may \
             have forgotten leases wait a tenth longer than max_ttl before it votes",
            self.ttl, self.max_ttl
        )
    }
}

/// What is said of a ttl and a lock-delay that are longer than `max_ttl` together.
pub(crate) struct LockDelayTooLong {
    pub(crate) lock_delay: Duration,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
}

impl fmt::Display for LockDelayTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the ttl of {:?} and the lock_delay of {:?} are longer together than max_ttl, which is {:?}; a key stands for \
             both, and a node that may have forgotten it is kept from voting for little more than max_ttl; ask for less, or \
             raise max_ttl alike in every process of the fleet",
            self.ttl, self.lock_delay, self.max_ttl
        )
    }
}

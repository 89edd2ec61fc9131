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
            "the ttl of {:?} is longer than max_ttl, which is {:?}; leases are renewed while held, so a longer ttl is \
             seldom needed; if it is needed, raise max_ttl alike in every process of the fleet; a node that may \
             have forgotten leases then waits the new max_ttl, a tenth of it and two node timeouts before it votes",
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
            "the ttl of {:?} plus the lock_delay of {:?} is longer than max_ttl, which is {:?}; one key stands for \
             both, and no key may outlive max_ttl; ask for less, or raise max_ttl alike in every process of the fleet",
            self.ttl, self.lock_delay, self.max_ttl
        )
    }
}

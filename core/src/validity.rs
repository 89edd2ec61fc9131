//! How long a grant may be relied on: validity = ttl - elapsed - drift.
//!
//! This is the only place with that arithmetic. Every rounding goes against the holder: the drift is
//! rounded up, what is left is rounded down, and the lifetime sent to a node is rounded up. All of it
//! saturates; an unsigned underflow here has granted expired locks elsewhere (redlock-rs issue 20).

use core::time::Duration;

use super::time::{Nanos, Timestamp};

/// The allowance for clocks that run at different *rates*: a share of the ttl and a fixed part.
///
/// > "MIN_VALIDITY = TTL - (T2 - T1) - CLOCK_DRIFT" (the Redis page on distributed locks)
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::Drift;
///
/// let drift = Drift::default();
/// assert_eq!(drift.of(Duration::from_secs(10)), Duration::from_millis(102));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Drift {
    per_mille: u32,
    fixed: Nanos,
}

impl Drift {
    /// The largest share that is accepted, in thousandths of the ttl.
    pub const MAX_PER_MILLE: u32 = 500;

    /// A drift of `per_mille` thousandths of the ttl plus `fixed`; the share is cut to
    /// [`Drift::MAX_PER_MILLE`].
    pub const fn new(per_mille: u32, fixed: Duration) -> Self {
        let per_mille =
            if per_mille > Self::MAX_PER_MILLE { Self::MAX_PER_MILLE } else { per_mille };
        Self { per_mille, fixed: Nanos::new(fixed) }
    }

    /// The allowance for a lease of `ttl`, rounded up.
    pub fn of(self, ttl: Duration) -> Duration {
        // No product of a ttl overflows 128 bits, and most fit in 64, whose division is faster. A share too long for
        // nanoseconds takes the whole ttl.
        let product = ttl.as_nanos().saturating_mul(u128::from(self.per_mille));
        let nanos = u64::try_from(product)
            .map_or_else(|_| product.div_ceil(1000), |product| product.div_ceil(1000).into());
        let share = u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos);
        share.saturating_add(self.fixed())
    }

    /// A fixed part that is too long for nanoseconds takes the whole ttl.
    fn fixed(self) -> Duration {
        if self.fixed == Nanos::new(Duration::MAX) { Duration::MAX } else { self.fixed.get() }
    }
}

impl Drift {
    /// The shortest ttl whose validity is `promised` if its round takes no time.
    ///
    /// ```
    /// use core::time::Duration;
    /// use quorlock_core::Drift;
    ///
    /// let drift = Drift::default();
    /// let ttl = drift.ttl_for(Duration::from_secs(10));
    /// assert!(ttl - drift.of(ttl) >= Duration::from_secs(10));
    /// assert!(ttl < Duration::from_millis(10_104));
    /// ```
    pub fn ttl_for(self, promised: Duration) -> Duration {
        // Solved for the ttl: promised + fixed = ttl * (1000 - per_mille) / 1000, of which at least half is left.
        let kept = 1000_u128.saturating_sub(u128::from(self.per_mille)).max(1);
        let nanos = promised.saturating_add(self.fixed()).as_nanos().saturating_mul(1000);
        // The drift is rounded up, so that the ttl may be one nanosecond short.
        let nanos = nanos.div_ceil(kept).saturating_add(1);
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }
}

impl Default for Drift {
    /// 1 % of the ttl and 2 ms, as the reference implementations of Redlock use.
    fn default() -> Self {
        Self::new(10, Duration::from_millis(2))
    }
}

/// The point up to which a grant may be relied on, when its round `started` before the first send.
pub fn deadline(started: Timestamp, ttl: Duration, drift: Drift) -> Timestamp {
    started.saturating_add(ttl.saturating_sub(drift.of(ttl)))
}

/// How long a node keeps the key of a lease of `ttl`: longer than its holder believes, by the lock-delay. No deadline
/// counts with that.
pub const fn key_life(ttl: Duration, lock_delay: Duration) -> Duration {
    ttl.saturating_add(lock_delay)
}

/// What is left at `now` of a grant that ends at `deadline`.
pub fn left(deadline: Timestamp, now: Timestamp) -> Duration {
    deadline.saturating_since(now)
}

/// How long a node is to keep a key that others must find there for `left` by our clock: the node's clock may run fast.
pub fn kept_for(left: Duration, drift: Drift) -> Duration {
    left.saturating_add(drift.of(left))
}

/// The lifetime to send to a node, in milliseconds, rounded up and never zero.
pub fn wire_millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

/// A wait in whole milliseconds, rounded down: no node is told of more than has passed.
pub fn whole_millis(waited: Duration) -> u64 {
    u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)
}

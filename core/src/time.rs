//! Points in time, as the core sees them: a distance from an origin that the runtime chose.
//!
//! The core is handed every timestamp. It never reads a clock, and it never compares timestamps of
//! two different runtimes, whose origins differ.

use core::{fmt, num::NonZeroU64, time::Duration};

/// A compact length of time: whole nanoseconds, 584 years at most. It takes eight bytes, and so does an `Option` of it.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::Nanos;
///
/// let second = Nanos::new(Duration::from_secs(1));
/// assert_eq!(second.get(), Duration::from_secs(1));
/// assert!(Nanos::new(Duration::MAX) > second);
/// assert_eq!(size_of::<Option<Nanos>>(), 8);
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Nanos(
    /// The nanoseconds plus one.
    NonZeroU64,
);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// This time, or the longest that can be expressed.
    pub const fn new(time: Duration) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos(time)))
    }

    /// The length of time.
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

const fn nanos(time: Duration) -> u64 {
    let seconds = time.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(time.subsec_nanos() as u64)
}

/// A point on the clock of one `Runtime`, in nanoseconds since that runtime's origin.
///
/// All arithmetic saturates, after 584 years: nothing here panics or wraps.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::Timestamp;
///
/// let start = Timestamp::from_origin(Duration::from_secs(1));
/// let later = start.saturating_add(Duration::from_millis(5));
/// assert_eq!(later.saturating_since(start), Duration::from_millis(5));
/// assert_eq!(start.saturating_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(Nanos);

impl Timestamp {
    /// The latest point.
    pub(crate) const NEVER: Self = Self(Nanos::new(Duration::MAX));

    /// The origin of the clock.
    pub const ORIGIN: Self = Self(Nanos::ZERO);

    /// The point that lies `distance` after the origin.
    pub const fn from_origin(distance: Duration) -> Self {
        Self(Nanos::new(distance))
    }

    /// The distance from the origin.
    pub const fn since_origin(self) -> Duration {
        self.0.get()
    }

    /// The point `distance` later, or the last one that can be expressed.
    pub const fn saturating_add(self, distance: Duration) -> Self {
        Self(Nanos(self.0.0.saturating_add(nanos(distance))))
    }

    /// How long after `earlier` this point lies; zero if it lies before.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.0.get().saturating_sub(earlier.0.0.get()))
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::ORIGIN
    }
}

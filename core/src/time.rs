//! Points in time, as the core sees them: a distance from an origin that the runtime chose.
//!
//! The core is handed every timestamp. It never reads a clock, and it never compares timestamps of
//! two different runtimes, whose origins differ.

use core::time::Duration;

/// A point on the clock of one `Runtime`, in nanoseconds since that
/// runtime's origin.
///
/// All arithmetic saturates: nothing here panics or wraps.
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
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(Duration);

impl Timestamp {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The point that lies `distance` after the origin.
    pub const fn from_origin(distance: Duration) -> Self {
        Self(distance)
    }

    /// The distance from the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The point `distance` later, or the last one that can be expressed.
    pub const fn saturating_add(self, distance: Duration) -> Self {
        Self(self.0.saturating_add(distance))
    }

    /// How long after `earlier` this point lies; zero where it does not.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

//! How fast the nodes are, and so how long to pause between rounds.
//!
//! It decides pauses from numbers that it is given. It never sleeps, and never draws a random number.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::config::Config;

/// A smoothed round trip: each new sample counts for an eighth, as in TCP (RFC 6298).
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// In nanoseconds; zero until the first sample.
    smoothed: AtomicU64,
}

impl Pace {
    /// Takes one sample. Two at once may lose one, which does no harm.
    pub(crate) fn sample(&self, elapsed: Duration) {
        let sample = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.smoothed.load(Ordering::Relaxed);
        let new = if old == 0 { sample } else { old - old / 8 + sample / 8 };
        self.smoothed.store(new.max(1), Ordering::Relaxed);
    }

    /// The smoothed value, once there is one.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        match self.smoothed.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// The pause after the `lost`-th lost round in a row, counted from one.
    ///
    /// > "it should try again after a random delay in order to try to desynchronize multiple clients" (the
    /// > Redis page)
    ///
    /// The scale is the round trip, doubled with each loss, within the configured bounds; the pause is
    /// uniform between a quarter of that and all of it, by the fraction `random` of 255.
    pub(crate) fn pause(&self, lost: u32, random: u8, config: &Config) -> Duration {
        let scale = self.round_trip().unwrap_or(config.retry_min);
        let factor = 1u32.checked_shl(lost.min(20)).unwrap_or(u32::MAX);
        let ceiling = scale.saturating_mul(factor).clamp(config.retry_min, config.retry_max);
        ceiling.mul_f64(f64::from(random).mul_add(0.75 / 255.0, 0.25))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_start_at_the_round_trip_and_stay_within_bounds() {
        let config = Config::default();
        let pace = Pace::default();
        pace.sample(2 * MS);
        assert_eq!(pace.pause(1, 255, &config), 4 * MS);
        assert_eq!(pace.pause(1, 0, &config), MS);
        assert_eq!(pace.pause(60, 255, &config), config.retry_max);
        assert_eq!(Pace::default().pause(1, 0, &config), config.retry_min / 2);
    }

    #[test]
    fn samples_are_smoothed() {
        let pace = Pace::default();
        assert_eq!(pace.round_trip(), None);
        pace.sample(8 * MS);
        pace.sample(16 * MS);
        assert_eq!(pace.round_trip(), Some(9 * MS));
        pace.sample(Duration::MAX);
        assert!(pace.round_trip().is_some());
    }
}

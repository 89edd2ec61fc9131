//! How fast the nodes are, and so how long to pause between rounds.
//!
//! It decides pauses from numbers that it is given. It never sleeps, and never draws a random number.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A smoothed round trip: each new sample counts for an eighth, as in TCP (RFC 6298).
#[derive(Debug, Default)]
pub struct RttEstimator {
    /// In nanoseconds; zero until the first sample.
    smoothed: AtomicU64,
}

impl RttEstimator {
    /// Takes one sample. Two at once may lose one, which does no harm.
    pub fn sample(&self, elapsed: Duration) {
        let sample = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.smoothed.load(Ordering::Relaxed);
        // Divided before they are added, so that no sum overflows.
        let new = if old == 0 { sample } else { old - old / 8 + sample / 8 };
        self.smoothed.store(new.max(1), Ordering::Relaxed);
    }

    /// The smoothed value, once there is one.
    pub fn round_trip(&self) -> Option<Duration> {
        match self.smoothed.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

/// The round trip without load: the smallest recent one, as far as rounds alone show it.
///
/// Beyond it, a round waits for others: for rounds of this process, or for other processes on its machine. A pause that
/// must be long beside a round trip, and for which others wait, is derived from this one. The smoothed round trip
/// begins with the first rounds, while all clients connect, and a client that asks seldom keeps that for long.
#[derive(Debug, Default)]
pub struct UnloadedTrip {
    /// In nanoseconds; zero until the first sample.
    least: AtomicU64,
}

impl UnloadedTrip {
    /// Takes one sample: a smaller one counts at once, a larger one raises the value by a sixty-fourth at most. So a
    /// slower network is learnt in a few hundred rounds, and a machine that is busy for a while is not taken for one.
    /// Two at once may lose one, which does no harm.
    pub fn sample(&self, elapsed: Duration) {
        let sample = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.least.load(Ordering::Relaxed);
        let risen = old.saturating_add(old / 64).saturating_add(1);
        self.least.store(if old == 0 { sample } else { sample.min(risen) }, Ordering::Relaxed);
    }

    /// The smallest recent round trip, once there is one.
    pub fn round_trip(&self) -> Option<Duration> {
        match self.least.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

/// The bounds of the pauses between rounds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Backoff {
    /// The shortest scale of a pause; the pause itself is a quarter of it at least.
    pub min: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Backoff {
    /// The pause after the `lost`-th lost round in a row, counted from one.
    ///
    /// > "it should try again after a random delay in order to try to desynchronize multiple clients" (the
    /// > Redis page)
    ///
    /// The scale is the round trip, doubled with each loss, within the bounds; the pause is uniform between a
    /// quarter of that and all of it, by the fraction `random` of 255.
    pub fn pause(self, lost: u32, round_trip: Option<Duration>, random: u8) -> Duration {
        let scale = round_trip.unwrap_or(self.min);
        // So that the shift does not overflow; a million round trips are as good as no limit.
        let factor = 1u32.checked_shl(lost.min(20)).unwrap_or(u32::MAX);
        let ceiling = scale.saturating_mul(factor).max(self.min).min(self.max);
        let quarter = ceiling / 4;
        quarter.saturating_add(quarter.saturating_mul(3 * u32::from(random)) / 255)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const BACKOFF: Backoff =
        Backoff { min: Duration::from_millis(2), max: Duration::from_millis(250) };

    #[test]
    fn pauses_start_at_the_round_trip_and_stay_within_bounds() {
        let pause = |lost, random| BACKOFF.pause(lost, Some(2 * MS), random);
        assert_eq!(pause(1, 255), 4 * MS);
        assert_eq!(pause(1, 0), MS);
        assert_eq!(pause(60, 255), BACKOFF.max);
        assert_eq!(BACKOFF.pause(1, None, 0), BACKOFF.min / 2);
    }

    #[test]
    fn samples_are_smoothed() {
        let estimator = RttEstimator::default();
        assert_eq!(estimator.round_trip(), None);
        estimator.sample(8 * MS);
        estimator.sample(16 * MS);
        assert_eq!(estimator.round_trip(), Some(9 * MS));
        estimator.sample(Duration::MAX);
        assert!(estimator.round_trip().is_some());
    }

    #[test]
    fn the_trip_without_load_is_the_smallest_of_late() {
        let unloaded = UnloadedTrip::default();
        assert_eq!(unloaded.round_trip(), None);
        // While all clients connect.
        unloaded.sample(10 * MS);
        unloaded.sample(30 * MS);
        assert!((10 * MS..11 * MS).contains(&unloaded.round_trip().unwrap()));
        unloaded.sample(MS / 4);
        assert_eq!(unloaded.round_trip(), Some(MS / 4), "one is enough");
        // One round of sixteen is not held up.
        for round in 0..1_000 {
            unloaded.sample(if round % 16 == 0 { MS / 4 } else { 5 * MS });
            assert!(unloaded.round_trip().unwrap() < MS / 3);
        }
        // The network has become slow.
        let rounds = (0..).take_while(|_| {
            unloaded.sample(50 * MS);
            unloaded.round_trip() < Some(50 * MS)
        });
        assert!((300..400).contains(&rounds.count()));
        unloaded.sample(Duration::MAX);
        unloaded.sample(Duration::ZERO);
        assert!(unloaded.round_trip() < Some(MS));
    }
}

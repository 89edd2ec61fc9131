//! What looks at a node's clock say: how long replies took, how its clock stands to ours, and at which rate it runs.
//!
//! It decides from readings that it is given. A reading says no more than that the node's clock was read between the moment
//! in which the command was sent and that in which its reply arrived; nothing is assumed of the way there or back.

use std::time::Duration;

use crate::node::{ClockOffset, ClockSample};

/// Less than this between two looks says nothing of a rate.
const APART: Duration = Duration::from_millis(200);

/// How long replies of a node took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RoundTrips {
    /// The shortest.
    pub least: Duration,
    /// A quarter were shorter than this.
    pub quarter: Duration,
    /// As many were longer as were shorter.
    pub median: Duration,
    /// The longest.
    pub worst: Duration,
    /// How many replies there were.
    pub count: usize,
}

impl RoundTrips {
    /// Of these looks; `None` without any.
    pub(super) fn of(samples: &[ClockSample]) -> Option<Self> {
        let mut trips: Vec<Duration> = samples.iter().map(ClockSample::round_trip).collect();
        trips.sort_unstable();
        let (quarter, median) = (*trips.get(trips.len() / 4)?, *trips.get(trips.len() / 2)?);
        let (least, worst) = (*trips.first()?, *trips.last()?);
        Some(Self { least, quarter, median, worst, count: trips.len() })
    }
}

/// How late this process was woken before these looks, but for the worst tenth of them.
pub(super) fn woken_late<'a>(samples: impl Iterator<Item = &'a ClockSample>) -> Duration {
    let mut late: Vec<Duration> = samples.map(|sample| sample.woken_late).collect();
    late.sort_unstable();
    late.get(late.len() * 9 / 10).copied().unwrap_or_default()
}

/// How a node's clock stands to ours, and how it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClockFacts {
    /// How it stands to the wall clock of this process, by the look whose reply came soonest.
    pub offset: ClockOffset,
    /// By how much that may be wrong.
    pub uncertainty: Duration,
    /// How it runs; `None` where it was looked at for too short a time.
    pub rate: Option<ClockRate>,
}

/// At which rate a node's clock runs beside the steady clock of this process, in millionths: at 0 they run alike, at 1000 it
/// gains a millisecond each second.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClockRate {
    /// It runs no slower than this.
    pub least: f64,
    /// And no faster than this. Where it is less than `least`, the clock has jumped meanwhile, or does not run evenly.
    pub most: f64,
}

impl ClockRate {
    /// The rate that is surely reached, of the sign that it has: 0 where it may be exact. `None` where the clock does not run
    /// evenly.
    #[must_use]
    pub const fn sure(&self) -> Option<f64> {
        if self.least > self.most + UNEVEN {
            None
        } else if self.least > 0.0 && self.most > 0.0 {
            Some(self.least.min(self.most))
        } else if self.most < 0.0 && self.least < 0.0 {
            Some(self.most.max(self.least))
        } else {
            Some(0.0)
        }
    }

    /// The middle of what it may be.
    #[must_use]
    pub const fn middle(&self) -> f64 {
        f64::midpoint(self.least, self.most)
    }
}

/// Clocks that are slewed change their rate meanwhile: so much is no jump.
const UNEVEN: f64 = 1000.0;

impl ClockFacts {
    /// Of these looks; `None` where none of them has read the node's clock.
    pub(super) fn of(samples: &[ClockSample]) -> Option<Self> {
        let read: Vec<(&ClockSample, u64)> =
            samples.iter().filter_map(|sample| Some((sample, sample.node_us?))).collect();
        let (best, node_us) = read.iter().min_by_key(|(sample, _)| sample.round_trip())?;
        let half = best.round_trip() / 2;
        let ours = best.wall_us.saturating_add(u64::try_from(half.as_micros()).unwrap_or(u64::MAX));
        let offset = ClockOffset::between(*node_us, ours);
        Some(Self { offset, uncertainty: half, rate: rate(&read) })
    }
}

/// What every look of the first third and every one of the last third together allow.
fn rate(read: &[(&ClockSample, u64)]) -> Option<ClockRate> {
    let third = read.len().div_ceil(3);
    let (early, late) = (read.iter().take(third), read.iter().rev().take(third));
    let pairs = early.flat_map(|early| late.clone().map(move |late| (early, late)));
    let bounds = pairs.filter_map(|((early, early_us), (late, late_us))| {
        let passed = late.sent.checked_sub(early.sent).filter(|passed| *passed >= APART)?;
        // The node's clock minus ours lay between these two, in microseconds.
        let [least, most] = [
            reading(*late_us, late.arrived) - reading(*early_us, early.sent),
            reading(*late_us, late.sent) - reading(*early_us, early.arrived),
        ];
        Some((least / passed.as_secs_f64(), most / passed.as_secs_f64()))
    });
    bounds.fold(None, |rate: Option<ClockRate>, (least, most)| {
        Some(rate.map_or(ClockRate { least, most }, |rate| ClockRate {
            least: rate.least.max(least),
            most: rate.most.min(most),
        }))
    })
}

/// What the node's clock shows beyond ours, in microseconds.
#[allow(clippy::cast_precision_loss, reason = "it is exact for two centuries more")]
fn reading(node_us: u64, ours: Duration) -> f64 {
    let ours = i128::try_from(ours.as_micros()).unwrap_or(i128::MAX / 4);
    (i128::from(node_us) - ours) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const EPOCH: u64 = 1_795_000_000_000_000;

    /// Looks every 100 ms with round trips that vary, at a clock that is ahead and gains.
    fn looks(count: u32, ahead_us: i64, ppm: i64) -> Vec<ClockSample> {
        let look = |number: u32| {
            let sent = 100 * MS * number;
            let trip = MS + MS / 4 * (number * 7 % 5);
            // The way there takes a third of the trip.
            let read = i64::try_from((sent + trip / 3).as_micros()).unwrap();
            let gained = read * ppm / 1_000_000;
            let node = EPOCH.checked_add_signed(read + gained + ahead_us).unwrap();
            let wall = EPOCH + u64::try_from(sent.as_micros()).unwrap();
            ClockSample::new(sent, sent + trip, wall, Some(node))
        };
        (0..count).map(look).collect()
    }

    #[test]
    fn a_clock_that_runs_as_ours_is_seen_so() {
        let facts = ClockFacts::of(&looks(30, 0, 0)).unwrap();
        let (ClockOffset::Ahead(off) | ClockOffset::Behind(off)) = facts.offset;
        assert!(off <= facts.uncertainty, "{facts:?}");
        let rate = facts.rate.unwrap();
        assert_eq!(rate.sure(), Some(0.0), "{rate:?}");
        assert!(rate.least > -1000.0 && rate.most < 1000.0, "{rate:?}");
    }

    #[test]
    fn a_clock_that_is_off_and_drifts_is_measured() {
        for (ahead, ppm) in [(5_000_000, 20_000), (-5_000_000, -20_000)] {
            let facts = ClockFacts::of(&looks(30, ahead, ppm)).unwrap();
            let off = match facts.offset {
                ClockOffset::Ahead(off) => i64::try_from(off.as_micros()).unwrap(),
                ClockOffset::Behind(off) => -i64::try_from(off.as_micros()).unwrap(),
            };
            assert!((off - ahead).abs() < 100_000, "{off}");
            let sure = facts.rate.unwrap().sure().unwrap();
            assert!(sure.abs() > 18_000.0 && sure.abs() <= 20_001.0, "{sure}");
            assert_eq!(sure > 0.0, ppm > 0, "{sure}");
        }
    }

    #[test]
    fn a_clock_that_jumped_has_no_rate() {
        let mut samples = looks(30, 0, 0);
        for sample in samples.iter_mut().skip(25) {
            sample.node_us = sample.node_us.map(|us| us + 500_000);
        }
        let rate = ClockFacts::of(&samples).unwrap().rate.unwrap();
        assert_eq!(rate.sure(), None, "{rate:?}");
    }

    #[test]
    fn too_few_looks_say_nothing_of_a_rate_and_none_say_nothing() {
        assert_eq!(ClockFacts::of(&looks(2, 0, 0)).unwrap().rate, None);
        assert_eq!(ClockFacts::of(&[]), None);
        assert_eq!(RoundTrips::of(&[]), None);
        let untold = [ClockSample::new(Duration::ZERO, 2 * MS, EPOCH, None)];
        assert_eq!(ClockFacts::of(&untold), None);
        assert_eq!(RoundTrips::of(&untold).unwrap().median, 2 * MS);
    }

    #[test]
    fn round_trips_have_a_middle_and_two_ends() {
        let trips = RoundTrips::of(&looks(5, 0, 0)).unwrap();
        assert_eq!((trips.least, trips.median, trips.worst), (MS, MS + MS / 2, 2 * MS));
        assert_eq!(trips.count, 5);
    }
}

//! Samples and what is said of them: percentiles by nearest rank, medians, and rates.

use std::time::Duration;

use crate::contenders::{Kind, Outcome};

/// What one contender did in one phase of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    pub(crate) acquire: Vec<Duration>,
    pub(crate) pair: Vec<Duration>,
    /// The processor time per pair of each turn, in microseconds.
    pub(crate) cpu: Vec<f64>,
    /// The scripts per pair that each server was sent in each turn, where they were counted.
    pub(crate) scripts: Vec<f64>,
    pub(crate) errors: usize,
    pub(crate) first_error: Option<String>,
    /// The time in which the pairs were done, where many tasks did them at once.
    pub(crate) elapsed: Duration,
    /// Why there is nothing here.
    pub(crate) skipped: Option<&'static str>,
}

/// Whether all nodes were well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Healthy,
    Faulty,
}

impl Row {
    pub(crate) const fn new(kind: Kind, phase: Phase) -> Self {
        Self {
            kind,
            phase,
            acquire: Vec::new(),
            pair: Vec::new(),
            cpu: Vec::new(),
            scripts: Vec::new(),
            errors: 0,
            first_error: None,
            elapsed: Duration::ZERO,
            skipped: None,
        }
    }

    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Ok(pair) => {
                self.acquire.push(pair.acquire);
                self.pair.push(pair.whole);
            }
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }

    /// Adds the processor time of a turn in which `pairs` succeeded.
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub(crate) fn bill(&mut self, used: Duration, pairs: usize) {
        if pairs > 0 {
            self.cpu.push(used.as_secs_f64() * 1e6 / pairs as f64);
        }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.acquire.extend(other.acquire);
        self.pair.extend(other.pair);
        self.cpu.extend(other.cpu);
        self.scripts.extend(other.scripts);
        self.errors += other.errors;
        self.elapsed += other.elapsed;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// The numbers of this row; `None` where nothing succeeded.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let (acquire, pair) = (sorted(&self.acquire), sorted(&self.pair));
        Some(Summary {
            acquire_p50: percentile(&acquire, 50)?,
            acquire_p99: percentile(&acquire, 99)?,
            pair_p50: percentile(&pair, 50)?,
            pair_p99: percentile(&pair, 99)?,
            cpu: median(self.cpu.iter().copied())?,
            scripts: median(self.scripts.iter().copied()).unwrap_or_default(),
            #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            per_second: self.pair.len() as f64 / self.elapsed.as_secs_f64(),
        })
    }
}

/// Percentiles and processor time in microseconds, and pairs per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) acquire_p50: f64,
    pub(crate) acquire_p99: f64,
    pub(crate) pair_p50: f64,
    pub(crate) pair_p99: f64,
    /// Per pair; the median of the turns, so that a single disturbed turn changes nothing.
    pub(crate) cpu: f64,
    pub(crate) per_second: f64,
    /// Per pair and server.
    pub(crate) scripts: f64,
}

fn sorted(samples: &[Duration]) -> Vec<Duration> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted
}

/// The smallest sample that `percent` of all do not exceed, in microseconds.
fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|sample| sample.as_secs_f64() * 1e6)
}

/// The one in the middle, or what lies half way between the two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample_by_nearest_rank() {
        let samples: Vec<_> = (1..=200).map(Duration::from_micros).collect();
        let at = |percent| percentile(&samples, percent).map(f64::round);
        assert_eq!((at(50), at(99), at(100)), (Some(100.0), Some(198.0), Some(200.0)));
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&samples[..1], 50).map(f64::round), Some(1.0));
    }

    #[test]
    fn a_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(median([]), None);
        assert_eq!(median([5.0]), Some(5.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn processor_time_is_that_of_the_turn_in_the_middle_and_a_turn_without_pairs_has_none() {
        let mut row = Row::new(Kind::Rslock, Phase::Healthy);
        for (micros, pairs) in [(400, 10), (9000, 10), (300, 10), (7000, 0)] {
            row.bill(Duration::from_micros(micros), pairs);
        }
        assert_eq!(median(row.cpu).map(f64::round), Some(40.0));
    }
}

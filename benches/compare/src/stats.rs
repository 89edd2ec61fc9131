//! Samples and what is said of them: percentiles by nearest rank, rates, and ratios.

use std::time::Duration;

use crate::contenders::{Kind, Outcome};

/// What one contender did in one phase of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    pub(crate) acquire: Vec<Duration>,
    pub(crate) pair: Vec<Duration>,
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

    pub(crate) fn extend(&mut self, other: Self) {
        self.acquire.extend(other.acquire);
        self.pair.extend(other.pair);
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
            #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            per_second: self.pair.len() as f64 / self.elapsed.as_secs_f64(),
        })
    }
}

/// Percentiles in microseconds, and pairs per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) acquire_p50: f64,
    pub(crate) acquire_p99: f64,
    pub(crate) pair_p50: f64,
    pub(crate) pair_p99: f64,
    pub(crate) per_second: f64,
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
}

//! What grants say of waiting: how many, how long each was waited for, how soon after a release, how evenly.

/// Samples, and percentiles by nearest rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    samples: Vec<f64>,
    sorted: bool,
}

impl Spread {
    pub(crate) fn push(&mut self, sample: f64) {
        self.samples.push(sample);
        self.sorted = false;
    }

    /// Takes over those of another.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.samples.append(&mut other.samples);
        self.sorted = false;
    }

    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub(crate) const fn len(&self) -> f64 {
        self.samples.len() as f64
    }

    /// The smallest sample that so many percent do not exceed.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank between 0 and the count"
    )]
    pub(crate) fn at(&mut self, percent: f64) -> Option<f64> {
        if !self.sorted {
            self.samples.sort_unstable_by(f64::total_cmp);
            self.sorted = true;
        }
        let rank = (self.len() * percent / 100.0).ceil().max(1.0) as usize;
        self.samples.get(rank - 1).copied()
    }

    /// The curve of the distribution: what each half percent of the samples does not exceed.
    pub(crate) fn curve(&mut self) -> Vec<f64> {
        (0..=200).filter_map(|half| self.at(f64::from(half) / 2.0)).collect()
    }
}

/// One lease. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) process: usize,
    pub(crate) task: usize,
    pub(crate) resource: usize,
    pub(crate) asked: u64,
    pub(crate) got: u64,
    /// When `release` was called.
    pub(crate) called: u64,
}

/// How often each of them was granted, from then up to then.
pub(crate) fn counts(
    grants: &[Grant],
    (from, until): (u64, u64),
    who: usize,
    number: impl Fn(&Grant) -> usize,
) -> Vec<f64> {
    let mut counts = vec![0.0; who];
    for grant in grants.iter().filter(|grant| (from..until).contains(&grant.got)) {
        counts[number(grant)] += 1.0;
    }
    counts
}

/// Jain's index: 1 where all have the same, 1/n where one has everything.
pub(crate) fn jain(counts: &[f64]) -> Option<f64> {
    let (sum, squares): (f64, f64) =
        (counts.iter().sum(), counts.iter().map(|count| count * count).sum());
    let n = Spread { samples: counts.to_vec(), sorted: false }.len();
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// From each release to the next lease of the same resource, in microseconds, and how often there were two holders.
pub(crate) fn hand_overs(grants: &[Grant], (from, until): (u64, u64)) -> (Spread, usize) {
    let mut ordered = grants.to_vec();
    ordered.sort_unstable_by_key(|grant| (grant.resource, grant.got));
    let (mut spread, mut overlaps) = (Spread::default(), 0);
    for pair in ordered.windows(2) {
        let [before, after] = pair else { continue };
        if before.resource != after.resource || !(from..until).contains(&before.called) {
            continue;
        }
        if after.got < before.called {
            overlaps += 1;
        } else {
            spread.push(super::own::micros(after.got - before.called));
        }
    }
    (spread, overlaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(task: usize, resource: usize, got: u64, called: u64) -> Grant {
        Grant { process: 0, task, resource, asked: 0, got, called }
    }

    #[test]
    fn jains_index_is_one_for_equals_and_the_part_of_one_for_a_monopoly() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_hand_over_is_from_a_release_to_the_next_lease_of_the_same_resource() {
        let grants = [
            grant(0, 0, 0, 2000),
            grant(0, 1, 2500, 2600),
            grant(1, 0, 5000, 9000),
            grant(1, 1, 2550, 9000),
        ];
        let (mut spread, overlaps) = hand_overs(&grants, (0, 8000));
        assert_eq!((spread.len(), spread.at(100.0)), (1.0, Some(3.0)));
        assert_eq!(overlaps, 1, "one got it at 2550 that was held up to 2600");
    }

    #[test]
    fn who_was_granted_nothing_counts_too() {
        let grants = [grant(0, 0, 5, 6), grant(2, 0, 7, 8), grant(2, 0, 99, 100)];
        assert_eq!(counts(&grants, (0, 50), 3, |grant| grant.task), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn a_percentile_is_a_sample_by_nearest_rank() {
        let mut spread = Spread::default();
        assert_eq!(spread.at(50.0), None);
        (1..=200).rev().for_each(|sample| spread.push(f64::from(sample)));
        assert_eq!([50.0, 99.0, 100.0].map(|p| spread.at(p)), [100.0, 198.0, 200.0].map(Some));
        assert_eq!(spread.curve().len(), 201);
    }
}

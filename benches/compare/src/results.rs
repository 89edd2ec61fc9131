//! What is kept of a scenario when it has ended, and the numbers and ratios of several runs of it.
//!
//! A ratio is always one within a run; of several runs it is the median of theirs, and never a ratio of medians.

use crate::{
    contenders::Kind,
    options::Scenario,
    stats::{Phase, Row, Summary, median},
};

/// One of the numbers of a row.
pub(crate) type Pick = fn(&Summary) -> f64;

/// A contender in a phase: what identifies a row.
pub(crate) type Entry = (Kind, Phase);

/// The outcome of one scenario in one run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) scenario: Scenario,
    pub(crate) lines: Vec<Line>,
    /// How many keys of each contender were still there after all releases had time to end.
    pub(crate) left: Vec<(Kind, usize)>,
    /// How many turns began though an earlier one may not have been over.
    pub(crate) unsettled: usize,
}

/// A row without its samples.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) entry: Entry,
    pub(crate) pairs: usize,
    pub(crate) errors: usize,
    pub(crate) first_error: Option<String>,
    /// Why there is nothing here.
    pub(crate) skipped: Option<&'static str>,
    /// `None` where nothing succeeded.
    pub(crate) summary: Option<Summary>,
}

impl From<Row> for Line {
    fn from(row: Row) -> Self {
        Self {
            entry: (row.kind, row.phase),
            pairs: row.pair.len(),
            errors: row.errors,
            summary: row.summary(),
            first_error: row.first_error,
            skipped: row.skipped,
        }
    }
}

impl Measured {
    pub(crate) fn line(&self, entry: Entry) -> Option<&Line> {
        self.lines.iter().find(|line| line.entry == entry)
    }

    fn value(&self, entry: Entry, pick: Pick) -> Option<f64> {
        self.line(entry)?.summary.as_ref().map(pick)
    }

    fn ratio(&self, above: Entry, below: Entry, pick: Pick) -> Option<f64> {
        Some(self.value(above, pick)? / self.value(below, pick)?)
    }
}

/// The median of a number over several runs of a scenario.
pub(crate) fn value(runs: &[&Measured], entry: Entry, pick: Pick) -> Option<f64> {
    median(runs.iter().filter_map(|measured| measured.value(entry, pick)))
}

/// The median of a ratio over several runs of a scenario.
pub(crate) fn ratio(runs: &[&Measured], above: Entry, below: Entry, pick: Pick) -> Option<f64> {
    median(runs.iter().filter_map(|measured| measured.ratio(above, below, pick)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OURS: Entry = (Kind::Quorlock, Phase::Healthy);
    const THEIRS: Entry = (Kind::Rslock, Phase::Healthy);

    fn run(ours: u32, theirs: u32) -> Measured {
        let lines = [(OURS, ours), (THEIRS, theirs)].map(|(entry, micros)| {
            let mut row = Row::new(entry.0, entry.1);
            row.acquire.push(Duration::from_micros(1));
            row.pair.push(Duration::from_micros(1));
            row.bill(Duration::from_micros(micros.into()), 1);
            row.into()
        });
        let (scenario, lines) = (Scenario::Tasks, lines.to_vec());
        Measured { scenario, lines, left: Vec::new(), unsettled: 0 }
    }

    #[test]
    fn a_ratio_of_several_runs_is_the_median_of_theirs() {
        let runs = [run(20, 10), run(90, 30), run(50, 50)];
        let runs: Vec<_> = runs.iter().collect();
        assert_eq!(ratio(&runs, OURS, THEIRS, |s| s.cpu), Some(2.0), "and not 50 / 30");
        assert_eq!(value(&runs, OURS, |s| s.cpu).map(f64::round), Some(50.0));
        assert_eq!(ratio(&runs, OURS, (Kind::Classic, Phase::Healthy), |s| s.cpu), None);
    }
}

//! What was measured of each line: how long its operations took, how many there were, and what went wrong.
//!
//! It judges nothing. A percentile is a time that was seen, to three digits, and the longest one is never hidden.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::lines::Line;

/// The least number of operations whose median counts.
const ENOUGH: u64 = 10;

/// Of one line.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) line: Line,
    /// In nanoseconds.
    times: Histogram<u64>,
    pub(super) errors: u64,
    /// Why there is less than there should be.
    pub(super) why: Option<String>,
    /// For how long it was measured in all.
    pub(super) lasted: Duration,
    /// The median of each turn.
    medians: Vec<f64>,
}

impl Figures {
    pub(super) fn new(line: Line) -> Option<Self> {
        // It grows by itself.
        let times = Histogram::new(3).ok()?;
        Some(Self {
            line,
            times,
            errors: 0,
            why: None,
            lasted: Duration::ZERO,
            medians: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // It fails only where it must not grow, and it may.
        let _ = self.times.record(nanos);
    }

    pub(super) fn failed(&mut self, why: impl ToString) {
        self.errors += 1;
        self.why.get_or_insert_with(|| why.to_string());
    }

    /// Joins what others did at the same time.
    pub(super) fn join(&mut self, other: &Self) {
        // It cannot fail: both have the same settings.
        let _ = self.times.add(&other.times);
        self.errors += other.errors;
        self.why = self.why.take().or_else(|| other.why.clone());
    }

    /// Joins what was measured in one turn.
    pub(super) fn turn(&mut self, turn: &Self) {
        // A few operations say nothing of a machine.
        if turn.count() >= ENOUGH {
            self.medians.extend(turn.at(50.0));
        }
        self.join(turn);
        self.lasted += turn.lasted;
    }

    /// The least and the largest median of a turn: their distance is the noise of the machine and the network.
    pub(super) fn turns(&self) -> Option<(f64, f64)> {
        let least = self.medians.iter().copied().reduce(f64::min)?;
        self.medians.iter().copied().reduce(f64::max).map(|largest| (least, largest))
    }

    /// The ratio of the largest to the least.
    pub(super) fn noise(&self) -> f64 {
        self.turns().map_or(1.0, |(least, largest)| largest / least.max(1.0))
    }

    pub(super) fn count(&self) -> u64 {
        self.times.len()
    }

    /// A percentile in nanoseconds; none where there is nothing.
    pub(super) fn at(&self, percent: f64) -> Option<f64> {
        // The library gives the upper end of a bucket, which may lie above the longest of all.
        let at = self.times.value_at_percentile(percent).min(self.times.max());
        (self.count() > 0).then(|| nanos(at))
    }

    /// The longest in nanoseconds.
    pub(super) fn longest(&self) -> Option<f64> {
        (self.count() > 0).then(|| nanos(self.times.max()))
    }

    /// How many in a second.
    pub(super) fn rate(&self) -> f64 {
        let seconds = self.lasted.as_secs_f64();
        if seconds > 0.0 { nanos(self.count()) / seconds } else { 0.0 }
    }

    pub(super) fn json(&self) -> Value {
        let micros = |nanos: Option<f64>| nanos.map(|nanos| (nanos / 100.0).round() / 10.0);
        json!({
            "line": self.line.id(),
            "count": self.count(),
            "errors": self.errors,
            "why": self.why,
            "p10_us": micros(self.at(10.0)),
            "p50_us": micros(self.at(50.0)),
            "p90_us": micros(self.at(90.0)),
            "p99_us": micros(self.at(99.0)),
            "max_us": micros(self.longest()),
            "turns_p50_us": self.turns().map(|(least, largest)| [least, largest].map(|at| micros(Some(at)))),
            "per_second": (self.rate() * 10.0).round() / 10.0,
        })
    }
}

#[allow(clippy::cast_precision_loss, reason = "times and counts far below 2^52")]
const fn nanos(number: u64) -> f64 {
    number as f64
}

/// A time with three digits, as people write it.
pub(super) fn span(nanos: f64) -> String {
    let (number, unit) = match nanos {
        ..999_500.0 => (nanos / 1e3, "us"),
        ..999_500_000.0 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    match number {
        ..9.995 => format!("{number:.2} {unit}"),
        ..99.95 => format!("{number:.1} {unit}"),
        _ => format!("{number:.0} {unit}"),
    }
}

/// A whole number with commas.
pub(super) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_order_and_none_is_above_the_longest() {
        let mut figures = Figures::new(Line::Lease).unwrap();
        assert_eq!(figures.at(50.0), None);
        (1..=200).map(Duration::from_micros).for_each(|took| figures.add(took));
        figures.add(Duration::from_secs(3));
        let at = [10.0, 50.0, 90.0, 99.0, 100.0].map(|percent| figures.at(percent).unwrap());
        assert!(at.is_sorted() && at[4] <= figures.longest().unwrap(), "{at:?}");
        assert!((at[1] - 101_000.0).abs() < 200.0, "{at:?}");
        assert!(figures.longest().unwrap() >= 3e9);
    }

    #[test]
    fn times_and_numbers_as_people_write_them() {
        let told = [950.0, 61_700.0, 999_600.0, 12_340_000.0, 1.5e9].map(span);
        assert_eq!(told, ["0.95 us", "61.7 us", "1.00 ms", "12.3 ms", "1.50 s"]);
        assert_eq!([7.0, 999.6, 1_234_567.0].map(thousands), ["7", "1,000", "1,234,567"]);
    }
}

//! The three kinds of panels: ranges on a scale of times, bars, and curves of waits.
//!
//! A panel begins at a height and says where it ends.

use super::svg::{Anchor, Svg, WIDTH};
use crate::waiting::Who;

const ROW: f64 = 22.0;
const LEFT: f64 = 150.0;

/// Times in microseconds on a logarithmic scale, from one end of the drawing to the other.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
}

impl Scale {
    /// Whole decades around these times.
    pub(super) fn around(times: impl Iterator<Item = f64> + Clone, left: f64, right: f64) -> Self {
        let low = times.clone().fold(f64::INFINITY, f64::min).max(0.1);
        let high = times.fold(1.0, f64::max);
        Self { low: low.log10().floor(), high: high.log10().ceil(), left, right }
    }

    fn at(self, time: f64) -> f64 {
        let part = (time.max(0.01).log10() - self.low) / (self.high - self.low);
        part.clamp(0.0, 1.0).mul_add(self.right - self.left, self.left)
    }

    fn decades(self) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(self.low), |power| Some(power + 1.0))
            .take_while(move |power| *power <= self.high)
            .map(|power| 10_f64.powf(power))
    }

    fn grid(self, svg: &mut Svg, top: f64, bottom: f64) {
        for decade in self.decades() {
            let x = self.at(decade);
            svg.grid((x, top), (x, bottom));
            svg.text((x, bottom + 15.0), "soft", Anchor::Middle, &time(decade));
        }
    }
}

/// A time as people write it.
pub(super) fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        ..1000.0 => (micros, "µs"),
        ..1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    if value < 9.95 && value.fract() > 0.04 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// For each contender a dot at the median and a line up to p99.
pub(super) fn ranges(
    svg: &mut Svg,
    top: f64,
    title: &str,
    rows: &[(Who, f64, f64)],
    times: impl Iterator<Item = f64> + Clone,
) -> f64 {
    let scale = Scale::around(times, LEFT, WIDTH - 140.0);
    svg.text((16.0, top + 16.0), "title", Anchor::Start, title);
    svg.text((WIDTH - 16.0, top + 16.0), "soft", Anchor::End, "median · p99");
    let (mut y, first) = (top + 40.0, top + 26.0);
    scale.grid(svg, first, ROW.mul_add(count(rows), first));
    for (who, p50, p99) in rows {
        svg.text((LEFT - 12.0, y + 4.0), "", Anchor::End, who.name());
        svg.range(*who, (scale.at(*p50), scale.at(*p99)), y);
        let text = format!("{} · {}", time(*p50), time(*p99));
        svg.text((WIDTH - 16.0, y + 4.0), "soft", Anchor::End, &text);
        y += ROW;
    }
    y + 18.0
}

/// For each contender one bar in each column; a column has a head, its largest value, and decimals.
pub(super) fn bars(
    svg: &mut Svg,
    top: f64,
    title: &str,
    columns: &[(&str, f64, usize)],
    rows: &[(Who, Vec<Option<f64>>)],
) -> f64 {
    svg.text((16.0, top + 16.0), "title", Anchor::Start, title);
    let wide = (WIDTH - LEFT - 16.0) / count(columns);
    let mut left = LEFT;
    for (column, (head, largest, decimals)) in columns.iter().enumerate() {
        svg.text((left, top + 34.0), "soft", Anchor::Start, head);
        for (number, (_, values)) in rows.iter().enumerate() {
            let Some(Some(value)) = values.get(column) else { continue };
            let y = ROW.mul_add(count(&rows[..number]), top + 42.0);
            let length = (wide - 70.0) * (value / largest).clamp(0.0, 1.0);
            svg.bar(rows[number].0, (left, y), (length, ROW - 8.0));
            let text = format!("{value:.decimals$}");
            svg.text((left + length + 6.0, y + 11.0), "soft", Anchor::Start, &text);
        }
        left += wide;
    }
    for (number, (who, _)) in rows.iter().enumerate() {
        let y = ROW.mul_add(count(&rows[..number]), top + 53.0);
        svg.text((LEFT - 12.0, y), "", Anchor::End, who.name());
    }
    ROW.mul_add(count(rows), top + 52.0)
}

/// For each contender the part of its waits that took no longer, by time.
pub(super) fn curves(
    svg: &mut Svg,
    top: f64,
    title: &str,
    rows: &[(Who, Vec<f64>)],
    times: impl Iterator<Item = f64> + Clone,
) -> f64 {
    const HIGH: f64 = 190.0;
    let scale = Scale::around(times, 56.0, WIDTH - 160.0);
    svg.text((16.0, top + 16.0), "title", Anchor::Start, title);
    let first = top + 30.0;
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let y = HIGH.mul_add(1.0 - percent / 100.0, first);
        svg.grid((scale.left, y), (scale.right, y));
        svg.text((scale.left - 8.0, y + 4.0), "soft", Anchor::End, &format!("{percent:.0} %"));
    }
    scale.grid(svg, first, first + HIGH);
    for (number, (who, curve)) in rows.iter().enumerate() {
        let whole = count(curve) - 1.0;
        let height = |at: usize| HIGH.mul_add(1.0 - count(&curve[..at]) / whole, first);
        let points = curve.iter().enumerate().step_by(2);
        svg.curve(*who, points.map(|(at, wait)| (scale.at(*wait), height(at))));
        let y = ROW.mul_add(count(&rows[..number]), first + 8.0);
        svg.bar(*who, (scale.right + 14.0, y - 4.0), (12.0, 8.0));
        svg.text((scale.right + 32.0, y + 4.0), "", Anchor::Start, who.name());
    }
    first + HIGH + 34.0
}

#[allow(clippy::cast_precision_loss, reason = "a handful")]
const fn count<T>(rows: &[T]) -> f64 {
    rows.len() as f64
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn a_time_has_the_unit_that_it_is_said_in() {
        let said = [0.7, 12.0, 254.3, 1000.0, 1787.9, 102_837.3, 1e6].map(time);
        assert_eq!(said, ["0.7 µs", "12 µs", "254 µs", "1 ms", "1.8 ms", "103 ms", "1 s"]);
    }
}

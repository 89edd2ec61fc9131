//! The tables and the closing summary, as aligned text.

use std::fmt::Write as _;

use crate::{
    contenders::Kind,
    scenarios::{Measured, Scenario},
    stats::{Phase, Row, Summary},
};

const YARDSTICKS: [Kind; 3] = [Kind::FloorCaller, Kind::FloorThread, Kind::Rslock];

/// The table of one scenario.
pub(crate) fn table(measured: &Measured) -> String {
    let tasks = measured.scenario == Scenario::Tasks;
    let mut head = vec!["contender", "nodes", "n", "acquire p50", "p99", "pair p50", "p99"];
    head.extend(tasks.then_some("pairs/s"));
    head.extend(["errors", "/ caller", "/ thread", "/ rslock"]);
    let mut lines = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    let mut notes = String::new();
    for row in &measured.rows {
        let nodes = match row.phase {
            Phase::Healthy => "5 well",
            Phase::Faulty => "4 of 5",
        };
        let mut line = vec![row.kind.name().to_owned(), nodes.to_owned()];
        if let Some(reason) = row.skipped {
            line.push(reason.to_owned());
            lines.push(line);
            continue;
        }
        line.push(row.pair.len().to_string());
        let summary = row.summary();
        let mut number = |pick: fn(&Summary) -> f64| {
            line.push(summary.as_ref().map_or("-".to_owned(), |s| format!("{:.0}", pick(s))));
        };
        number(|s| s.acquire_p50);
        number(|s| s.acquire_p99);
        number(|s| s.pair_p50);
        number(|s| s.pair_p99);
        if tasks {
            number(|s| s.per_second);
        }
        line.push(row.errors.to_string());
        for other in YARDSTICKS {
            let ratio = ratio(measured, (row.kind, row.phase), (other, row.phase), main(tasks));
            line.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        lines.push(line);
        if let Some(error) = &row.first_error {
            let _ = writeln!(notes, "  first error of {}, {nodes}: {error}", row.kind.name());
        }
    }
    for (kind, count) in &measured.left {
        let _ = writeln!(notes, "  {} left {count} keys on the servers that answer", kind.name());
    }
    if measured.left.is_empty() {
        notes.push_str("  nobody left a key on the servers that answer\n");
    }
    let ratios = if tasks { "pairs/s" } else { "pair p50" };
    format!(
        "\n{}: times in microseconds, ratios of {ratios}\n{}{notes}",
        measured.scenario.title(),
        aligned(&lines)
    )
}

/// What a scenario is judged by.
fn main(tasks: bool) -> fn(&Summary) -> f64 {
    if tasks { |s| s.per_second } else { |s| s.pair_p50 }
}

/// The closing summary: each target with the value measured.
pub(crate) fn summary(results: &[Measured]) -> String {
    use Phase::{Faulty, Healthy};
    let of = |scenario, above, below, pick: fn(&Summary) -> f64| {
        let measured = results.iter().find(|measured| measured.scenario == scenario)?;
        ratio(measured, above, below, pick)
    };
    let us = |phase| (Kind::Classic, phase);
    let sequential = |kind| of(Scenario::Sequential, us(Healthy), (kind, Healthy), |s| s.pair_p50);
    let fenced = |kind| {
        let ours = (Kind::Quorlock, Healthy);
        of(Scenario::Sequential, ours, (kind, Healthy), |s| s.pair_p50)
    };
    let fault = |scenario| of(scenario, us(Faulty), us(Healthy), |s| s.pair_p99);
    let lines = [
        (
            "1  acquire+release p50 / floor in the caller's runtime",
            Target::Below(1.00),
            sequential(Kind::FloorCaller),
        ),
        (
            "2  acquire+release p50 / floor through an I/O thread",
            Target::AtMost(1.15),
            sequential(Kind::FloorThread),
        ),
        ("3  acquire+release p50 / rslock", Target::AtMost(0.85), sequential(Kind::Rslock)),
        (
            "3f with tokens: acquire+release p50 / floor in the caller's runtime",
            Target::AtMost(1.35),
            fenced(Kind::FloorCaller),
        ),
        (
            "3g with tokens: acquire+release p50 / rslock",
            Target::AtMost(1.00),
            fenced(Kind::Rslock),
        ),
        (
            "4a one node hung: acquire+release p99 / its own with all well",
            Target::AtMost(1.5),
            fault(Scenario::Hung),
        ),
        (
            "4b one node dead: acquire+release p99 / its own with all well",
            Target::AtMost(1.5),
            fault(Scenario::Dead),
        ),
        (
            "5  256 tasks: pairs per second / rslock",
            Target::AtLeast(1.3),
            of(Scenario::Tasks, us(Healthy), (Kind::Rslock, Healthy), |s| s.per_second),
        ),
    ];
    let head = ["quorlock in classic mode against its targets", "measured", "target", ""]
        .map(str::to_owned);
    let mut table = vec![head.to_vec()];
    for (what, target, value) in lines {
        let (measured, verdict) = match value {
            Some(value) => {
                (format!("{value:.2}"), if target.met(value) { "met" } else { "missed" })
            }
            None => ("-".to_owned(), "not measured"),
        };
        table.push(vec![what.to_owned(), measured, target.text(), verdict.to_owned()]);
    }
    format!("\n{}", aligned(&table))
}

#[derive(Clone, Copy)]
enum Target {
    Below(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn met(self, value: f64) -> bool {
        match self {
            Self::Below(limit) => value < limit,
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Below(limit) => format!("<  {limit:.2}"),
            Self::AtMost(limit) => format!("<= {limit:.2}"),
            Self::AtLeast(limit) => format!(">= {limit:.2}"),
        }
    }
}

fn ratio(
    measured: &Measured,
    above: (Kind, Phase),
    below: (Kind, Phase),
    pick: fn(&Summary) -> f64,
) -> Option<f64> {
    let value = |wanted: (Kind, Phase)| {
        let row = measured.rows.iter().find(|row: &&Row| (row.kind, row.phase) == wanted)?;
        row.summary().map(|summary| pick(&summary))
    };
    Some(value(above)? / value(below)?)
}

/// The first two columns to the left and numbers to the right; a line that ends early keeps its last
/// cell as it is.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let whole = lines.iter().filter(|line| line.len() == columns);
        whole.filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let left = column == 0 || cell.parse::<f64>().is_err() && columns == 4;
            let left = left || column == 1 && columns != 4 || line.len() != columns;
            let _ = if left {
                write!(row, "  {cell:<width$}")
            } else {
                write!(row, "  {cell:>width$}")
            };
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

//! The pictures of `docs/performance.md`, out of the results of waiting.

mod panel;
mod svg;

use std::{fs, io, path::Path};

use self::{
    panel::{bars, curves, ranges},
    svg::Svg,
};
use crate::waiting::{Case, Rows, Who};

const HOT: [(Case, &str); 3] = [
    (Case::HotTasks, "16 tasks of one process"),
    (Case::HotClients, "16 sets of connections"),
    (Case::HotProcesses, "8 processes with 4 tasks each"),
];

/// Writes all pictures for which there are results into a directory, and says which.
pub(crate) fn draw(rows: &Rows, directory: &Path) -> io::Result<Vec<String>> {
    fs::create_dir_all(directory)?;
    let pictures = [
        ("handover.svg", hand_over(rows)),
        ("waits.svg", waits(rows)),
        ("fairness.svg", fairness(rows)),
        ("commands.svg", commands(rows)),
        ("linger.svg", linger(rows)),
    ];
    let mut drawn = Vec::new();
    for (name, picture) in pictures {
        if let Some(picture) = picture {
            fs::write(directory.join(name), picture)?;
            drawn.push(name.to_owned());
        }
    }
    Ok(drawn)
}

/// A contender's median and p99.
type Span = (Who, f64, f64);

/// Median and p99 of everybody who has them.
fn spans(rows: &Rows, case: Case, (p50, p99): (&str, &str)) -> Vec<Span> {
    let span = |who| Some((who, rows.number(case, who, p50)?, rows.number(case, who, p99)?));
    Who::ALL.into_iter().filter_map(span).collect()
}

/// Panels of ranges, all on one scale.
fn stacked(panels: &[(&str, Vec<Span>)], what: &str) -> Option<String> {
    let times = panels.iter().flat_map(|(_, rows)| rows).flat_map(|(_, p50, p99)| [*p50, *p99]);
    let (mut svg, mut top) = (Svg::default(), 8.0);
    for (title, rows) in panels.iter().filter(|(_, rows)| !rows.is_empty()) {
        top = ranges(&mut svg, top, title, rows, times.clone());
    }
    (top > 8.0).then(|| svg.finish(top + 8.0, what))
}

fn hand_over(rows: &Rows) -> Option<String> {
    let cases = [
        (Case::OverTasks, "Two tasks of one process"),
        (Case::OverClients, "Two sets of connections of one process"),
        (Case::OverProcesses, "Two processes"),
    ];
    let panel = |(case, title)| {
        let mut spans = spans(rows, case, ("over_p50", "over_p99"));
        spans.extend(self::spans(rows, case, ("acquire_p50", "acquire_p99")));
        (title, spans)
    };
    let what = "From the call of release to the lease of the one that waits: median (dot) and p99";
    stacked(&cases.map(panel), what)
}

fn linger(rows: &Rows) -> Option<String> {
    let of = |names| spans(rows, Case::Linger, names);
    let panels = [
        ("Acquire and release of one resource over and over", of(("pair_p50", "pair_p99"))),
        ("Another process asks after the release", of(("other_p50", "other_p99"))),
        ("Another process asks while the first goes on", of(("busy_p50", "busy_p99"))),
    ];
    stacked(&panels, "One process uses one resource over and over: median (dot) and p99")
}

fn waits(rows: &Rows) -> Option<String> {
    let curves_of = |case| {
        let of = |who: Who| (who, rows.curve(case, who));
        let waits = |(who, curve): &(Who, Vec<f64>)| *who != Who::Floor && curve.len() > 1;
        Who::ALL.into_iter().map(of).filter(waits).collect::<Vec<_>>()
    };
    let panels = HOT.map(|(case, title)| (title, curves_of(case)));
    // The first percents are of tasks that came when it was free.
    let times = panels
        .iter()
        .flat_map(|(_, rows)| rows)
        .flat_map(|(_, curve)| [curve[curve.len() / 100].max(10.0), curve[curve.len() - 1]]);
    let (mut svg, mut top) = (Svg::default(), 8.0);
    for (title, rows) in panels.iter().filter(|(_, rows)| !rows.is_empty()) {
        top = curves(&mut svg, top, title, rows, times.clone());
    }
    let what =
        "A resource that is held 2 ms each time: which part of the waits is no longer than that";
    (top > 8.0).then(|| svg.finish(top + 8.0, what))
}

/// A column of bars: the number, its head, its largest value where that is fixed, decimals.
type Column<'a> = (&'a str, &'a str, Option<f64>, usize);

/// Panels of bars for several scenarios, each column on one scale.
fn tables(
    rows: &Rows,
    cases: &[(Case, &str)],
    columns: &[Column<'_>],
    shown: impl Fn(Who) -> bool,
    what: &str,
) -> Option<String> {
    let value = |case, who, name: &str| rows.number(case, who, name);
    let largest = |name: &str, fixed: Option<f64>| {
        let all = cases
            .iter()
            .flat_map(|(case, _)| Who::ALL.into_iter().filter_map(|who| value(*case, who, name)));
        fixed.unwrap_or_else(|| all.fold(0.0, f64::max))
    };
    let heads: Vec<_> = columns
        .iter()
        .map(|(name, head, fixed, decimals)| (*head, largest(name, *fixed), *decimals))
        .collect();
    let (mut svg, mut top) = (Svg::default(), 8.0);
    for (case, title) in cases {
        let of = |who: Who| {
            let values: Vec<_> = columns.iter().map(|(name, ..)| value(*case, who, name)).collect();
            (who, values)
        };
        let all: Vec<_> = Who::ALL.into_iter().filter(|who| shown(*who)).map(of).collect();
        let filled: Vec<_> =
            all.into_iter().filter(|(_, values)| values.iter().any(Option::is_some)).collect();
        if !filled.is_empty() {
            top = bars(&mut svg, top, title, &heads, &filled) + 8.0;
        }
    }
    (top > 8.0).then(|| svg.finish(top + 8.0, what))
}

fn fairness(rows: &Rows) -> Option<String> {
    let columns = [
        ("grants_s", "grants per second", None, 0),
        ("jain", "Jain's index over tasks", Some(1.0), 3),
    ];
    let what =
        "A resource that is held 2 ms each time: grants per second, and how evenly they are dealt";
    tables(rows, &HOT, &columns, |_| true, what)
}

fn commands(rows: &Rows) -> Option<String> {
    let columns = [
        ("commands", "commands per grant and node", None, 2),
        ("cpu", "processor time of the clients per grant, µs", None, 0),
    ];
    let what = "A resource that is held 2 ms each time: commands and processor time per grant";
    tables(rows, &HOT, &columns, |_| true, what)
}

//! The table of a waiting scenario, of one run or with medians of several.

use std::fmt::Write as _;

use super::{case::Case, rows::Rows, who::Who};
use crate::columns::aligned;

/// A number of the rows, the head of its column, and how many decimals it is shown with.
type Column = (&'static str, &'static str, usize);

const OVER: &[Column] = &[
    ("hand_overs", "n", 0),
    ("over_p50", "hand-over p50", 1),
    ("over_p99", "p99", 0),
    ("over_max", "max", 0),
    ("acquire_p50", "acquire p50", 0),
    ("acquire_p99", "p99", 0),
];

const HOT: &[Column] = &[
    ("grants", "n", 0),
    ("grants_s", "grants/s", 1),
    ("wait_p50", "wait p50", 0),
    ("wait_p99", "p99", 0),
    ("wait_max", "max", 0),
    ("over_p50", "hand-over p50", 0),
    ("over_p99", "p99", 0),
    ("jain", "Jain", 3),
    ("jain_processes", "processes", 3),
    ("commands", "commands", 2),
    ("pushes", "pushes", 2),
    ("cpu", "CPU us", 0),
    ("rounds", "rounds", 2),
    ("split", "split %", 1),
    ("starved", "starved", 0),
];

const QUEUE: &[Column] = &[
    ("served", "served", 0),
    ("out_of_order", "overtaken", 0),
    ("each", "us each", 1),
    ("bytes", "bytes/waiter", 0),
];

const BEHIND: &[Column] = &[
    ("commands_1", "1 waiter", 2),
    ("commands_1_worst", "worst node", 2),
    ("commands_10", "10 waiters", 2),
    ("commands_10_worst", "worst node", 2),
    ("commands_holder", "holder alone", 2),
];

const LINGER: &[Column] = &[
    ("pairs", "n", 0),
    ("acquire_p50", "acquire p50", 1),
    ("acquire_p99", "p99", 0),
    ("pair_p50", "pair p50", 1),
    ("pair_p99", "p99", 0),
    ("pairs_s", "pairs/s", 0),
    ("commands", "commands", 3),
    ("cpu", "CPU us", 1),
    ("other_p50", "other's wait p50", 0),
    ("other_p99", "p99", 0),
    ("busy_p50", "while busy p50", 0),
    ("busy_p99", "p99", 0),
];

const fn columns(case: Case) -> (&'static [Column], &'static str) {
    match case {
        Case::OverTasks | Case::OverClients | Case::OverProcesses => (OVER, "microseconds"),
        Case::HotTasks | Case::HotClients | Case::HotProcesses | Case::Spread | Case::Waking => (
            HOT,
            "microseconds; commands and pushes by the grant and node, CPU of the clients by the grant",
        ),
        Case::Queue => (QUEUE, "who was served after a later one was overtaken"),
        Case::Behind => (BEHIND, "commands per node and second"),
        Case::Linger => (LINGER, "microseconds; commands by the pair and node"),
    }
}

/// The table; columns without any number are left out.
pub(crate) fn table(rows: &Rows, case: Case, runs: usize) -> String {
    let (columns, units) = columns(case);
    let present: Vec<_> =
        Who::ALL.into_iter().filter(|who| rows.of(case, *who).next().is_some()).collect();
    let filled =
        |(name, ..): &&Column| present.iter().any(|who| rows.number(case, *who, name).is_some());
    let columns: Vec<_> = columns.iter().filter(filled).collect();
    let mut lines = vec![vec!["contender".to_owned()]];
    lines[0].extend(columns.iter().map(|(_, head, _)| (*head).to_owned()));
    let mut notes = String::new();
    for who in present {
        let number = |(name, _, decimals): &&Column| {
            let value = rows.number(case, who, name);
            value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let mut cells = vec![who.name().to_owned()];
        cells.extend(columns.iter().map(number));
        lines.push(cells);
        if let Some(note) = rows.of(case, who).find_map(|row| row.note.as_ref()) {
            let _ = writeln!(notes, "  {}: {note}", who.name());
        }
    }
    let of = if runs > 1 { format!(", medians of {runs} runs") } else { String::new() };
    format!("\n{}{of}: {units}\n{}{notes}", case.title(), aligned(&lines, |column| column > 0))
}

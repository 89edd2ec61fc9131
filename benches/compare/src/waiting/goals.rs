//! The closing summary of waiting: each goal with the value measured. One that is missed is a word in a table.

use Goal::{AtLeast, AtMost};

use super::{case::Case, rows::Rows, who::Who};
use crate::columns::aligned;

enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// A number, or its ratio to one of another contender in the same run.
type Of = (Case, Who, &'static str, Option<(Who, &'static str)>);

const QUORLOCK: Who = Who::Quorlock;

const GOALS: [(&str, Of, Goal); 21] = [
    ("two tasks: hand-over p50, us", (Case::OverTasks, QUORLOCK, "over_p50", None), AtMost(20.0)),
    ("two tasks: hand-over p99, us", (Case::OverTasks, QUORLOCK, "over_p99", None), AtMost(1000.0)),
    (
        "two processes: hand-over p50 / acquire of the fan-out",
        (Case::OverProcesses, QUORLOCK, "over_p50", Some((Who::Floor, "acquire_p50"))),
        AtMost(2.5),
    ),
    (
        "two processes: hand-over p99, us",
        (Case::OverProcesses, QUORLOCK, "over_p99", None),
        AtMost(5000.0),
    ),
    (
        "two processes: hand-over p50, rslock / quorlock",
        (Case::OverProcesses, Who::Rslock, "over_p50", Some((QUORLOCK, "over_p50"))),
        AtLeast(50.0),
    ),
    (
        "16 tasks: grants/s / local mutex",
        (Case::HotTasks, QUORLOCK, "grants_s", Some((Who::Local, "grants_s"))),
        AtLeast(0.98),
    ),
    ("16 tasks: Jain's index", (Case::HotTasks, QUORLOCK, "jain", None), AtLeast(0.99)),
    (
        "16 tasks: wait p99 / local mutex",
        (Case::HotTasks, QUORLOCK, "wait_p99", Some((Who::Local, "wait_p99"))),
        AtMost(1.2),
    ),
    (
        "16 tasks: commands per grant and node",
        (Case::HotTasks, QUORLOCK, "commands", None),
        AtMost(0.2),
    ),
    (
        "16 clients: grants/s / local mutex",
        (Case::HotClients, QUORLOCK, "grants_s", Some((Who::Local, "grants_s"))),
        AtLeast(0.85),
    ),
    ("16 clients: Jain's index", (Case::HotClients, QUORLOCK, "jain", None), AtLeast(0.97)),
    (
        "8 processes: Jain's index over processes",
        (Case::HotProcesses, QUORLOCK, "jain_processes", None),
        AtLeast(0.95),
    ),
    (
        "8 processes: Jain's index over tasks",
        (Case::HotProcesses, QUORLOCK, "jain", None),
        AtLeast(0.9),
    ),
    ("50 clients: rounds lost with votes, %", (Case::Waking, QUORLOCK, "split", None), AtMost(1.0)),
    ("1,000 waiters: overtaken", (Case::Queue, QUORLOCK, "out_of_order", None), AtMost(0.0)),
    ("1,000 waiters: served", (Case::Queue, QUORLOCK, "served", None), AtLeast(1000.0)),
    (
        "a waiter: commands per second at the worst node",
        (Case::Behind, QUORLOCK, "commands_1_worst", None),
        AtMost(1.0),
    ),
    (
        "linger: acquire and release p50, us",
        (Case::Linger, Who::Linger, "pair_p50", None),
        AtMost(10.0),
    ),
    (
        "linger: another's wait p50 / acquire of the fan-out",
        (Case::Linger, Who::Linger, "other_p50", Some((Who::Floor, "acquire_p50"))),
        AtMost(3.0),
    ),
    (
        "linger: another's wait p99, us",
        (Case::Linger, Who::Linger, "other_p99", None),
        AtMost(10_000.0),
    ),
    (
        "linger: another's wait while busy p99, us",
        (Case::Linger, Who::Linger, "busy_p99", None),
        AtMost(10_000.0),
    ),
];

/// All goals of the scenarios that were run, with the medians of the runs.
pub(crate) fn summary(rows: &Rows) -> String {
    let head = ["waiting against its goals", "measured", "goal", ""].map(str::to_owned);
    let mut table = vec![head.to_vec()];
    for (what, (case, who, name, other), goal) in GOALS {
        let value = match other {
            Some(other) => rows.ratio(case, ((who, name), other)),
            None => rows.number(case, who, name),
        };
        let Some(value) = value else { continue };
        let (limit, met) = match goal {
            AtMost(limit) => (format!("<= {limit}"), value <= limit),
            AtLeast(limit) => (format!(">= {limit}"), value >= limit),
        };
        let verdict = if met { "met" } else { "missed" };
        table.push(vec![what.to_owned(), format!("{value:.2}"), limit, verdict.to_owned()]);
    }
    if table.len() == 1 {
        return String::new();
    }
    format!("\n{}", aligned(&table, |column| column == 1))
}

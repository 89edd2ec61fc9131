//! The closing summary: each target with the value measured. A target missed is a word in a table, and no failure.

use Limit::{AtLeast, AtMost, Below};
use Scenario::{Dead, Hung, Kinds, Sequential, Tasks};

use crate::{
    columns::aligned,
    contenders::Kind,
    options::Scenario,
    results::{Entry, Measured, Pick, ratio},
    stats::Phase::{Faulty, Healthy},
};

const CALLER: Entry = (Kind::FloorCaller, Healthy);
const THREAD: Entry = (Kind::FloorThread, Healthy);
const RSLOCK: Entry = (Kind::Rslock, Healthy);
const CLASSIC: Entry = (Kind::Classic, Healthy);
const CLASSIC_OF_FOUR: Entry = (Kind::Classic, Faulty);
/// As by default: with fencing tokens and admission.
const FENCED: Entry = (Kind::Quorlock, Healthy);
const SET: Entry = (Kind::Set, Healthy);
const PERMIT: Entry = (Kind::Permit, Healthy);
const READ: Entry = (Kind::Read, Healthy);

const PAIR: Pick = |s| s.pair_p50;
const PAIR_P99: Pick = |s| s.pair_p99;
const RATE: Pick = |s| s.per_second;
const CPU: Pick = |s| s.cpu;

const TARGETS: [Target; 14] = [
    Target {
        what: "1  classic: acquire+release p50 / floor in the caller's runtime",
        ratio: (Sequential, PAIR, CLASSIC, CALLER),
        limit: Below(1.0),
    },
    Target {
        what: "2  classic: acquire+release p50 / floor through an I/O thread",
        ratio: (Sequential, PAIR, CLASSIC, THREAD),
        limit: AtMost(1.15),
    },
    Target {
        what: "3  classic: acquire+release p50 / rslock",
        ratio: (Sequential, PAIR, CLASSIC, RSLOCK),
        limit: AtMost(0.85),
    },
    Target {
        what: "3f default: acquire+release p50 / floor in the caller's runtime",
        ratio: (Sequential, PAIR, FENCED, CALLER),
        limit: AtMost(1.35),
    },
    Target {
        what: "3g default: acquire+release p50 / rslock",
        ratio: (Sequential, PAIR, FENCED, RSLOCK),
        limit: AtMost(0.95),
    },
    Target {
        what: "4a classic: one node hung: acquire+release p99 / its own with all well",
        ratio: (Hung, PAIR_P99, CLASSIC_OF_FOUR, CLASSIC),
        limit: AtMost(1.5),
    },
    Target {
        what: "4b classic: one node dead: acquire+release p99 / its own with all well",
        ratio: (Dead, PAIR_P99, CLASSIC_OF_FOUR, CLASSIC),
        limit: AtMost(1.5),
    },
    Target {
        what: "5  classic: 256 tasks: pairs per second / rslock",
        ratio: (Tasks, RATE, CLASSIC, RSLOCK),
        limit: AtLeast(1.5),
    },
    Target {
        what: "5f default: 256 tasks: pairs per second / rslock",
        ratio: (Tasks, RATE, FENCED, RSLOCK),
        limit: AtLeast(1.0),
    },
    Target {
        what: "6  classic: 256 tasks: CPU per pair / floor through an I/O thread",
        ratio: (Tasks, CPU, CLASSIC, THREAD),
        limit: AtMost(1.2),
    },
    Target {
        what: "6f default: 256 tasks: CPU per pair / floor through an I/O thread",
        ratio: (Tasks, CPU, FENCED, THREAD),
        limit: AtMost(1.45),
    },
    Target {
        what: "7a default: acquire+release p50 of a set of three / of a lease",
        ratio: (Kinds, PAIR, SET, FENCED),
        limit: AtMost(1.3),
    },
    Target {
        what: "7b default: acquire+release p50 of a permit of ten / of a lease",
        ratio: (Kinds, PAIR, PERMIT, FENCED),
        limit: AtMost(1.3),
    },
    Target {
        what: "7c default: acquire+release p50 of a read lease / of a lease",
        ratio: (Kinds, PAIR, READ, FENCED),
        limit: AtMost(1.5),
    },
];

/// A ratio that should be on one side of a limit.
struct Target {
    what: &'static str,
    /// Where, of which number, and of whom to whom.
    ratio: (Scenario, Pick, Entry, Entry),
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Limit {
    Below(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn met(self, value: f64) -> bool {
        match self {
            Below(limit) => value < limit,
            AtMost(limit) => value <= limit,
            AtLeast(limit) => value >= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Below(limit) => format!("<  {limit:.2}"),
            AtMost(limit) => format!("<= {limit:.2}"),
            AtLeast(limit) => format!(">= {limit:.2}"),
        }
    }
}

/// All targets, with the medians of the runs.
pub(crate) fn summary(results: &[Measured]) -> String {
    let head = ["quorlock against its targets", "measured", "target", ""].map(str::to_owned);
    let mut table = vec![head.to_vec()];
    for Target { what, ratio: (scenario, pick, above, below), limit } in TARGETS {
        let runs: Vec<_> = results.iter().filter(|run| run.scenario == scenario).collect();
        let (measured, verdict) = match ratio(&runs, above, below, pick) {
            Some(value) => (format!("{value:.2}"), if limit.met(value) { "met" } else { "missed" }),
            None => ("-".to_owned(), "not measured"),
        };
        table.push(vec![what.to_owned(), measured, limit.text(), verdict.to_owned()]);
    }
    format!("\n{}", aligned(&table, |column| column == 1))
}

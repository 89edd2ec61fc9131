//! The table of a scenario, of one run or of several.

use std::fmt::Write as _;

use crate::{
    columns::aligned,
    contenders::Kind,
    options::Scenario,
    results::{self, Line, Measured, Pick},
    stats::Phase,
};

const YARDSTICKS: [Kind; 3] = [Kind::FloorCaller, Kind::FloorThread, Kind::Rslock];
/// Where kinds of leases stand beside each other.
const OF_KINDS: [Kind; 3] = [Kind::Quorlock, Kind::NodeRedlock, Kind::NodeRedlockSet];

/// The table of one scenario. Of several runs it has sums of the counts and medians of the rest.
pub(crate) fn table(runs: &[&Measured]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let shape = Shape::of(first.scenario);
    let mut lines = vec![shape.head()];
    let mut notes = String::new();
    for line in &first.lines {
        lines.push(shape.cells(runs, line));
        let error = |measured: &&Measured| measured.line(line.entry)?.first_error.clone();
        if let Some(error) = runs.iter().find_map(error) {
            let (name, nodes) = (line.entry.0.name(), nodes(line.entry.1));
            let _ = writeln!(notes, "  first error of {name}, {nodes}: {error}");
        }
    }
    notes.push_str(&notes_on_order(runs));
    let of =
        if runs.len() > 1 { format!(", medians of {} runs", runs.len()) } else { String::new() };
    format!(
        "\n{}{of}: times in microseconds, ratios of {}\n{}{notes}",
        first.scenario.title(),
        shape.judged_by(),
        aligned(&lines, |column| column > 1),
    )
}

/// What was left behind, and which turns may be billed for the work of others.
fn notes_on_order(runs: &[&Measured]) -> String {
    let mut notes = String::new();
    let left: Vec<_> = runs.iter().flat_map(|measured| &measured.left).collect();
    for (kind, count) in &left {
        let _ = writeln!(notes, "  {} left {count} keys on the servers that answer", kind.name());
    }
    if left.is_empty() {
        notes.push_str("  nobody left a key on the servers that answer\n");
    }
    let unsettled: usize = runs.iter().map(|measured| measured.unsettled).sum();
    if unsettled > 0 {
        let _ = writeln!(notes, "  {unsettled} turns began while the process was not idle");
    }
    notes
}

/// Which columns a scenario has.
struct Shape {
    /// Many tasks at once: judged by pairs per second, else by the median pair.
    tasks: bool,
    /// Kinds of leases, with the scripts that servers were sent.
    kinds: bool,
    /// Processor time. Beside a node that is hung or dead it says little: rslock waits for seconds there, and is billed
    /// for what the others do about that node in the meantime.
    cpu: bool,
}

impl Shape {
    fn of(scenario: Scenario) -> Self {
        Self {
            tasks: matches!(scenario, Scenario::Tasks | Scenario::OneTasks),
            // The others have processes of their own among kinds.
            cpu: !matches!(scenario, Scenario::Hung | Scenario::Dead | Scenario::Kinds),
            kinds: scenario == Scenario::Kinds,
        }
    }

    const fn judged_by(&self) -> &'static str {
        match (self.tasks, self.cpu) {
            (true, _) => "pairs/s, in the last column of CPU",
            (false, true) => "pair p50, in the last column of CPU",
            (false, false) => "pair p50",
        }
    }

    fn judge(&self) -> Pick {
        if self.tasks { |s| s.per_second } else { |s| s.pair_p50 }
    }

    fn head(&self) -> Vec<String> {
        let mut head = vec!["contender", "nodes", "n", "acquire p50", "p99", "pair p50", "p99"];
        head.extend(self.tasks.then_some("pairs/s"));
        head.extend(self.cpu.then_some("CPU us/pair"));
        head.extend(self.kinds.then_some("scripts"));
        head.push("errors");
        head.extend(if self.kinds {
            ["/ lease", "/ node-redlock", "/ its three"]
        } else {
            ["/ caller", "/ thread", "/ rslock"]
        });
        head.extend(self.cpu.then_some("CPU / thread"));
        head.into_iter().map(str::to_owned).collect()
    }

    fn cells(&self, runs: &[&Measured], line: &Line) -> Vec<String> {
        let (kind, phase) = line.entry;
        let mut cells = vec![kind.name().to_owned(), nodes(phase).to_owned()];
        if let Some(reason) = line.skipped {
            cells.push(reason.to_owned());
            return cells;
        }
        let sum = |count: fn(&Line) -> usize| {
            let of = |measured: &&Measured| measured.line(line.entry).map_or(0, count);
            runs.iter().map(of).sum::<usize>().to_string()
        };
        let number = |pick: Pick, decimals| text(results::value(runs, line.entry, pick), decimals);
        let ratio = |other, pick| text(results::ratio(runs, line.entry, (other, phase), pick), 2);
        cells.push(sum(|line| line.pairs));
        let times: [Pick; 4] =
            [|s| s.acquire_p50, |s| s.acquire_p99, |s| s.pair_p50, |s| s.pair_p99];
        cells.extend(times.map(|pick| number(pick, 0)));
        cells.extend(self.tasks.then(|| number(|s| s.per_second, 0)));
        cells.extend(self.cpu.then(|| number(|s| s.cpu, 1)));
        cells.extend(self.kinds.then(|| number(|s| s.scripts, 2)));
        cells.push(sum(|line| line.errors));
        let yardsticks = if self.kinds { OF_KINDS } else { YARDSTICKS };
        cells.extend(yardsticks.map(|other| ratio(other, self.judge())));
        cells.extend(self.cpu.then(|| ratio(Kind::FloorThread, |s| s.cpu)));
        cells
    }
}

const fn nodes(phase: Phase) -> &'static str {
    match phase {
        Phase::Healthy => "all well",
        Phase::Faulty => "4 of 5",
    }
}

fn text(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

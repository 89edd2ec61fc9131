//! Tasks that all want the same: each holds for a while and comes again at once.

use std::time::Duration;

use super::{
    case::Case,
    figures::{Grant, Spread, counts, hand_overs, jain},
    orders::{Hot, Order},
    own::micros,
    process::Report,
    rows::Row,
    servers::Calls,
    stage::{PATIENCE, Stage, window},
    who::Who,
};

/// How long each holds, in microseconds.
const HOLD: u64 = 2000;

/// What the turns of a contender have given so far.
#[derive(Default)]
pub(super) struct Seen {
    waits: Spread,
    hand_overs: Spread,
    seconds: f64,
    grants: f64,
    sent: f64,
    pushed: f64,
    run: f64,
    cpu: f64,
    rounds: [f64; 3],
    by_task: Vec<f64>,
    by_process: Vec<f64>,
    starved: f64,
    overlaps: usize,
}

impl Stage {
    /// One turn.
    pub(super) fn hot(&self, who: Who, row: &mut Row, seen: &mut Seen) -> Result<(), String> {
        let layout = self.case.layout(who);
        let mut workers = self.workers(who)?;
        let long = Duration::from_millis(if self.quick { 2000 } else { 4000 });
        let (from, until) = window(Duration::from_millis(300), long);
        let order = Order::Hot(Hot {
            tasks: layout.tasks,
            resources: layout.resources,
            hold: HOLD,
            prefix: self.resource(who),
            from,
            until,
        });
        for worker in &mut workers {
            worker.order(&order)?;
        }
        let calls = self.calls(from, until);
        let mut reports = Vec::new();
        for (process, worker) in workers.iter_mut().enumerate() {
            reports.push(worker.report(process, layout.resources, PATIENCE)?);
        }
        if let Some(failure) = reports.iter().flat_map(|report| &report.failures).next() {
            row.note.get_or_insert_with(|| failure.clone());
        }
        let tasks = (layout.processes, layout.tasks);
        seen.add(who, &reports, (from, until), tasks, &calls);
        Ok(())
    }
}

impl Seen {
    fn add(
        &mut self,
        who: Who,
        reports: &[Report],
        window: (u64, u64),
        (processes, tasks): (usize, usize),
        (before, after): &(Calls, Calls),
    ) {
        let grants: Vec<Grant> = reports.iter().flat_map(|report| report.grants.clone()).collect();
        let (from, until) = window;
        self.seconds += micros(until - from) / 1e6;
        // A task that asked before the end counts, though it may have got it later: those are the longest waits.
        for grant in grants.iter().filter(|grant| (from..until).contains(&grant.asked)) {
            self.waits.push(micros(grant.got - grant.asked));
        }
        let (mut overs, overlaps) = hand_overs(&grants, window);
        self.hand_overs.append(&mut overs);
        self.overlaps += overlaps;
        let by_task =
            counts(&grants, window, processes * tasks, |grant| grant.process * tasks + grant.task);
        let by_process = counts(&grants, window, processes, |grant| grant.process);
        self.grants += by_process.iter().sum::<f64>();
        add(&mut self.by_task, by_task);
        add(&mut self.by_process, by_process);
        self.sent += after.sent(before, who).iter().sum::<f64>();
        self.pushed += after.pushed(before);
        self.run += after.run(before);
        for (name, value) in reports.iter().flat_map(|report| &report.numbers) {
            match name.as_str() {
                "cpu" => self.cpu += value,
                "rounds_won" => self.rounds[0] += value,
                "rounds_split" => self.rounds[1] += value,
                "rounds_denied" => self.rounds[2] += value,
                "starved" => {
                    self.starved += 1.0;
                    self.waits.push(*value);
                }
                _ => {}
            }
        }
    }

    /// What the table says of all turns.
    pub(super) fn tell(mut self, stage: &Stage, row: &mut Row) {
        let grants = (self.grants > 0.0).then_some(self.grants);
        row.put("grants", grants);
        row.put("grants_s", grants.map(|grants| grants / self.seconds));
        for (name, percent) in [("wait_p50", 50.0), ("wait_p99", 99.0), ("wait_max", 100.0)] {
            row.put(name, self.waits.at(percent));
        }
        if self.by_task.len() > 1 {
            row.put("over_p50", self.hand_overs.at(50.0));
            row.put("over_p99", self.hand_overs.at(99.0));
            row.put("jain", jain(&self.by_task));
        }
        if self.by_process.len() > 1 {
            row.put("jain_processes", jain(&self.by_process));
        }
        if row.who != Who::Local {
            let each = |count: f64| grants.map(|grants| stage.per_node(count) / grants);
            row.put("commands", each(self.sent));
            row.put("pushes", each(self.pushed));
            row.put("run_on_node", each(self.run));
        }
        row.put("cpu", grants.map(|grants| self.cpu / grants));
        let [won, split, denied] = self.rounds;
        if stage.case == Case::Waking && won > 0.0 {
            row.put("rounds", Some((won + split + denied) / won));
            row.put("split", Some(100.0 * split / (won + split)));
        }
        row.put("starved", (self.starved > 0.0).then_some(self.starved));
        if self.overlaps > 0 {
            row.note = Some(format!("{} times two held it at once", self.overlaps));
        }
        row.curve = self.waits.curve();
    }
}

/// Adds number by number.
fn add(sums: &mut Vec<f64>, more: Vec<f64>) {
    sums.resize(more.len(), 0.0);
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

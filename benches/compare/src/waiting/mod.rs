//! Waiting, side by side: hand-over, hot resources, long lines, lingering.
//!
//! Every contender has worker processes of its own, new ones for each turn, and all have the same servers in a scenario.
//! So processor time and memory are its own, and nothing of one turn goes on in the next. This process starts them, tells
//! them what to do, counts on the servers, and never fails because of a number.

mod behind;
mod case;
mod child;
mod figures;
mod goals;
mod hot;
mod linger;
mod locker;
mod orders;
mod over;
mod own;
mod process;
mod queue;
mod rows;
mod servers;
mod stage;
mod table;
mod who;

pub(crate) use self::{
    case::Case, child::serve, goals::summary, own::resident, process::modules, rows::Rows,
    servers::Calls, table::table, who::Who,
};
use self::{figures::Spread, rows::Row, stage::Stage};

/// Whether this process is a worker, and what it was told then.
pub(crate) fn part(args: &[String]) -> Option<&[String]> {
    args.split_first().filter(|(first, _)| *first == child::ARGUMENT).map(|(_, rest)| rest)
}

/// Runs a scenario from the start of its servers to their end: all contenders, and again.
pub(crate) fn run(case: Case, contenders: &[Who], quick: bool, number: usize) -> Vec<Row> {
    let stage = Stage::new(case, quick);
    let takes_part = |who: &&Who| who.takes_part(case);
    let new = |who: &Who| Entrant {
        row: Row::new(number, case, *who),
        seen: hot::Seen::default(),
        spread: Spread::default(),
    };
    let mut entrants: Vec<_> = contenders.iter().filter(takes_part).map(new).collect();
    let turns = match case {
        // They have few long turns anyway.
        Case::Queue | Case::Behind | Case::Linger => 1,
        _ if quick => 1,
        _ => 2,
    };
    for _ in 0..turns {
        for entrant in &mut entrants {
            entrant.take_turn(&stage);
        }
    }
    entrants.into_iter().map(|entrant| entrant.end(&stage)).collect()
}

/// One contender in a scenario.
struct Entrant {
    row: Row,
    seen: hot::Seen,
    spread: Spread,
}

impl Entrant {
    fn take_turn(&mut self, stage: &Stage) {
        let Self { row, seen, spread } = self;
        let who = row.who;
        let outcome = match stage.case {
            Case::OverTasks | Case::OverClients | Case::OverProcesses => {
                stage.over(who, row, spread)
            }
            Case::HotTasks
            | Case::HotClients
            | Case::HotProcesses
            | Case::Spread
            | Case::Waking => stage.hot(who, row, seen),
            Case::Queue => stage.queue(who, row),
            Case::Behind => stage.behind(who, row),
            Case::Linger => stage.linger(who, row),
        };
        if let Err(error) = outcome {
            row.note.get_or_insert(error);
        }
    }

    fn end(self, stage: &Stage) -> Row {
        let Self { mut row, seen, mut spread } = self;
        match stage.case {
            Case::OverTasks | Case::OverClients | Case::OverProcesses => {
                row.put("over_p50", spread.at(50.0));
                row.put("over_p99", spread.at(99.0));
                row.put("over_max", spread.at(100.0));
                row.put("hand_overs", Some(spread.len()).filter(|count| *count > 0.0));
                row.curve = spread.curve();
            }
            Case::HotTasks
            | Case::HotClients
            | Case::HotProcesses
            | Case::Spread
            | Case::Waking => {
                seen.tell(stage, &mut row);
            }
            Case::Queue | Case::Behind | Case::Linger => {}
        }
        row
    }
}

//! What to run and for how long: the scenarios, the arguments, and the counts that follow from them.

use std::{path::PathBuf, str::FromStr, time::Duration};

use crate::{
    contenders::Kind,
    waiting::{Case, Who},
};

const USAGE: &str = "\
usage: cargo run --release -p quorlock-compare -- [--quick] [--runs N] [--only SCENARIO,..]
         [--contenders NAME,..] [--json FILE] [--plots DIRECTORY] [--from FILE]
       cargo run --release -p quorlock-compare -- baseline [FILE]
       cargo run --release -p quorlock-compare -- held [COUNT]
       cargo run --release -p quorlock-compare -- lost [--runs N] [--seconds N] [--only LOCK,..]
  held        holds so many leases, and says what each costs in memory, and all in renewals
  lost        the faults of `quorlock chaos` on other locks, and what each loses
  --quick     shorter turns and fewer of them
  --runs      all of it N times, and in the end the median of the runs for each number and each ratio
  --only      these scenarios; `waiting` is all of the second line, `pairs` all of the first
  --json      writes what was measured of waiting to this file
  --plots     draws it into this directory, as SVG
  --from      measures nothing, and draws what --json has written
  scenarios:  sequential, current, tasks, hung, dead, one, one-tasks, kinds
              over-tasks, over-clients, over-processes, hot-tasks, hot-clients, hot-processes, spread, waking, queue,
              behind, linger
  contenders: floor-caller, floor-thread, quorlock, classic, quorlock-current, classic-current, rslock, redlock, rlock,
              set, permit, read, node-redlock, node-redlock-set, redis-semaphore
              local, floor, quorlock, linger, classic, rslock, redlock, node-redlock";

/// The scenarios by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scenario {
    Sequential,
    Current,
    Tasks,
    Hung,
    Dead,
    One,
    OneTasks,
    Kinds,
}

impl Scenario {
    pub(crate) const ALL: [Self; 8] = [
        Self::Sequential,
        Self::Current,
        Self::Tasks,
        Self::Hung,
        Self::Dead,
        Self::One,
        Self::OneTasks,
        Self::Kinds,
    ];

    /// How many servers it has.
    pub(crate) const fn nodes(self) -> usize {
        if matches!(self, Self::One | Self::OneTasks) { 1 } else { 5 }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Sequential => "sequential, five nodes well",
            Self::Current => "sequential, caller and contender in one current-thread runtime",
            Self::Tasks => "256 tasks on 256 resources",
            Self::Hung => "one of five nodes hung (SIGSTOP)",
            Self::Dead => "one of five nodes dead (SIGKILL)",
            Self::One => "one server",
            Self::OneTasks => "one server, 256 tasks on 256 resources",
            Self::Kinds => "kinds of leases, sequential, five nodes well",
        }
    }

    /// The name on the command line.
    const fn id(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Current => "current",
            Self::Tasks => "tasks",
            Self::Hung => "hung",
            Self::Dead => "dead",
            Self::One => "one",
            Self::OneTasks => "one-tasks",
            Self::Kinds => "kinds",
        }
    }
}

impl FromStr for Scenario {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|scenario| scenario.id() == name).ok_or(())
    }
}

/// The arguments, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    /// How often all of it is done, at least once.
    pub(crate) runs: usize,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) contenders: Vec<Kind>,
    /// The scenarios of waiting, and who takes part in those.
    pub(crate) waits: Vec<Case>,
    pub(crate) waiters: Vec<Who>,
    /// Where the results of waiting go.
    pub(crate) json: Option<PathBuf>,
    /// Where they are drawn.
    pub(crate) plots: Option<PathBuf>,
    /// Where they are taken from, instead of a measurement.
    pub(crate) from: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            quick: false,
            runs: 1,
            scenarios: Scenario::ALL.to_vec(),
            contenders: Kind::ALL.to_vec(),
            waits: Case::ALL.to_vec(),
            waiters: Who::ALL.to_vec(),
            json: None,
            plots: None,
            from: None,
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--runs" => options.runs = count(args.next())?,
                "--only" => {
                    let names = args.next();
                    (options.scenarios, options.waits) = match names.as_deref() {
                        Some("pairs") => (Scenario::ALL.to_vec(), Vec::new()),
                        Some("waiting") => (Vec::new(), Case::ALL.to_vec()),
                        _ => lists(names)?,
                    };
                }
                "--contenders" => (options.contenders, options.waiters) = lists(args.next())?,
                "--json" => options.json = Some(args.next().ok_or(USAGE)?.into()),
                "--plots" => options.plots = Some(args.next().ok_or(USAGE)?.into()),
                "--from" => options.from = Some(args.next().ok_or(USAGE)?.into()),
                "--help" | "-h" => return Err(USAGE.to_owned()),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(options)
    }

    /// How often the contenders take turns, and how many pairs each does in one turn.
    pub(crate) const fn sequential(&self) -> Turns {
        if self.quick { Turns { rounds: 6, pairs: 200 } } else { Turns { rounds: 40, pairs: 200 } }
    }

    /// The same, once while all nodes are well and once while one is not.
    pub(crate) const fn faulty(&self) -> Turns {
        if self.quick { Turns { rounds: 3, pairs: 300 } } else { Turns { rounds: 10, pairs: 400 } }
    }

    /// How long each contender runs before the first measurement.
    pub(crate) const fn warming(&self) -> Duration {
        Duration::from_millis(if self.quick { 50 } else { 300 })
    }

    /// How long each contender runs between the fault and the measurement.
    pub(crate) const fn settling(&self) -> Duration {
        Duration::from_millis(if self.quick { 300 } else { 1000 })
    }

    /// How often the contenders take turns with many tasks, and how long one turn is.
    pub(crate) const fn tasks(&self) -> (usize, Duration) {
        if self.quick { (2, Duration::from_millis(400)) } else { (6, Duration::from_millis(800)) }
    }
}

/// A number of turns of some pairs each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    pub(crate) rounds: usize,
    pub(crate) pairs: usize,
}

fn count(value: Option<String>) -> Result<usize, String> {
    let value = value.ok_or(USAGE)?;
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{value} is not a number of runs\n{USAGE}"))
}

/// Names of two kinds; one may be of both.
fn lists<A: FromStr, B: FromStr>(value: Option<String>) -> Result<(Vec<A>, Vec<B>), String> {
    let value = value.ok_or(USAGE)?;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for name in value.split(',') {
        let (a, b) = (name.parse(), name.parse());
        if a.is_err() && b.is_err() {
            return Err(format!("unknown name {name}\n{USAGE}"));
        }
        first.extend(a.ok());
        second.extend(b.ok());
    }
    Ok((first, second))
}

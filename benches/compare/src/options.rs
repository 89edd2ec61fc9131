//! What to run and for how long: the arguments, and the counts that follow from them.

use std::{str::FromStr, time::Duration};

use crate::{contenders::Kind, scenarios::Scenario};

const USAGE: &str = "\
usage: cargo run --release -p quorlock-compare -- [--quick] [--only SCENARIO,..] [--contenders NAME,..]
  scenarios:  sequential, hung, dead, tasks
  contenders: floor-caller, floor-thread, quorlock, classic, rslock, redlock";

/// The arguments, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) contenders: Vec<Kind>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            quick: false,
            scenarios: Scenario::ALL.to_vec(),
            contenders: Kind::ALL.to_vec(),
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--only" => options.scenarios = list(args.next())?,
                "--contenders" => options.contenders = list(args.next())?,
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

fn list<T: FromStr>(value: Option<String>) -> Result<Vec<T>, String> {
    let value = value.ok_or(USAGE)?;
    value
        .split(',')
        .map(|name| name.parse().map_err(|_| format!("unknown name {name}\n{USAGE}")))
        .collect()
}

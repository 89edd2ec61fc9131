//! Whose workers they are, and what each is told when it is started.
//!
//! What it is told stands in its environment: addresses may contain passwords, and arguments are seen by everybody. No name of it
//! begins with `QUORLOCK_`: there this crate takes its settings, and refuses others.

use std::{process::Command, time::Duration};

use crate::exit::{Failure, Status};

/// Whose workers they are.
#[derive(Clone, Debug)]
pub(crate) enum Whose {
    Ours {
        own: bool,
        classic: bool,
    },
    /// A command of the user's.
    Theirs(String),
}

/// What they are told.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    pub(crate) whose: Whose,
    pub(crate) count: usize,
    pub(crate) nodes: Vec<String>,
    pub(crate) resource: String,
    pub(crate) ttl: Duration,
    pub(crate) seed: u64,
}

impl Crew {
    pub(crate) const fn is_theirs(&self) -> bool {
        matches!(self.whose, Whose::Theirs(_))
    }

    /// Of its own dice, and of the pauses that it is made to take.
    pub(crate) const fn seed(&self, worker: usize) -> u64 {
        self.seed.wrapping_mul(1_000).wrapping_add(worker as u64)
    }

    pub(crate) fn command(&self, worker: usize) -> Result<Command, Failure> {
        let mut command = match &self.whose {
            Whose::Theirs(line) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", line]);
                shell
            }
            Whose::Ours { own, classic } => {
                let program = std::env::current_exe();
                let program = program.map_err(|error| Failure::new(Status::Failed, error))?;
                let mut command = Command::new(program);
                command.arg("chaos-worker");
                command.args(own.then_some("--own")).args(classic.then_some("--classic"));
                command
            }
        };
        command.env("CHAOS_NODES", self.nodes.join(","));
        command.env("CHAOS_RESOURCE", &self.resource);
        command.env("CHAOS_TTL_MS", self.ttl.as_millis().to_string());
        command.env("CHAOS_WORKER", (worker + 1).to_string());
        command.env("CHAOS_SEED", self.seed(worker).to_string());
        Ok(command)
    }
}

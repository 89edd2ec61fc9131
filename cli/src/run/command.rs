//! The command: how it is started, and that it ends with the process that watches it.
//!
//! A step in between becomes the command: it asks to be killed where its parent ends, which survives that it becomes another
//! program, and cannot be asked for from outside.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use clap::Args;

use super::{Run, told::Granted};
use crate::{
    exit::{Failure, Status},
    output::say,
};

/// Becomes the command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Become {
    /// The process that has started this one
    #[arg(long)]
    parent: i32,
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

impl Become {
    /// Does not return where that works.
    pub(crate) fn start(self) -> ExitCode {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let asked = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            if let Err(error) = asked {
                say(&format!("the command cannot be made to end with this process: {error}"));
                return Status::Failed.into();
            }
        }
        // It may have ended before that was asked for.
        if nix::unistd::getppid().as_raw() != self.parent {
            return Status::Lost.into();
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return Status::Usage.into();
        };
        let error = Command::new(program).args(arguments).exec();
        let status = match error.kind() {
            std::io::ErrorKind::NotFound => Status::NotFound,
            _ => Status::CannotRun,
        };
        say(&format!("{}: {error}", program.to_string_lossy()));
        status.into()
    }
}

impl Run {
    /// The command in a group of its own, not started yet.
    pub(crate) fn command(&self, granted: &Granted) -> Result<tokio::process::Command, Failure> {
        let mut command = tokio::process::Command::new(this_program()?);
        command.arg("become").arg("--parent").arg(std::process::id().to_string());
        command.arg("--").args(&self.command);
        command.env("QUORLOCK_RESOURCE", &granted.resource).env("QUORLOCK_OWNER", &granted.owner);
        let optional = [
            ("QUORLOCK_TOKEN", granted.token.clone()),
            ("QUORLOCK_SLOT", granted.slot.map(|slot| slot.to_string())),
        ];
        for (name, value) in optional {
            match value {
                Some(value) => command.env(name, value),
                // That of a command in which this one runs is of another lease.
                None => command.env_remove(name),
            };
        }
        command.process_group(0);
        Ok(command)
    }
}

pub(crate) fn this_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::new(Status::Failed, error))
}

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

use super::{Run, group::now, told::Granted};
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
    /// The time, of the clock that both share, from which on nothing is started any more
    #[arg(long)]
    before: u64,
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
        // It may have been stopped, and this step with it.
        if now() >= self.before {
            say("the lease is lost, and the command is not started");
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
    /// The command in a group of its own, not started yet; and not to be started from then on.
    pub(crate) fn command(
        &self,
        granted: &Granted,
        before: u64,
    ) -> Result<tokio::process::Command, Failure> {
        let mut command = this_program()?;
        command.arg("become").arg("--parent").arg(std::process::id().to_string());
        command.arg("--before").arg(before.to_string());
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

/// Another process of this program, also where an upgrade has replaced its file meanwhile.
pub(crate) fn this_program() -> Result<tokio::process::Command, Failure> {
    let is_linux = cfg!(any(target_os = "linux", target_os = "android"));
    let mut command = match is_linux && std::path::Path::new(SELF).exists() {
        true => tokio::process::Command::new(SELF),
        false => {
            let program = std::env::current_exe();
            let program = program.map_err(|error| Failure::new(Status::Failed, error))?;
            tokio::process::Command::new(program)
        }
    };
    command.arg0("quorlock");
    Ok(command)
}

/// What runs in whoever asks, as the kernel has it.
const SELF: &str = "/proc/self/exe";

//! The command: how it is started, and that it ends with the process that watches it.
//!
//! A process in between becomes the command. It asks the kernel to kill it when its parent ends: that survives `exec`,
//! and no other process can ask for it. It must not become the command before the holder has been told of its group,
//! which its parent says by a signal: otherwise processes that the command starts could be known to nobody.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use tokio::process::Child;

use super::{
    Run,
    group::{Group, now},
    notes::say,
    signals::blocked,
    told::Granted,
};
use crate::exit::{Failure, Status};

/// Becomes the command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Become {
    /// The process that has started this one
    #[arg(long)]
    parent: i32,
    /// The time, of the clock that both share, from which on nothing is started any more
    #[arg(long)]
    before: u64,
    /// The signal by which that is allowed is blocked in the command too, as it was before
    #[arg(long)]
    keep: bool,
    /// What it says is JSON
    #[arg(long)]
    json: bool,
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
}

impl Become {
    /// Does not return where that works.
    pub(crate) fn start(&self) -> ExitCode {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let asked = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
            if let Err(error) = asked {
                let why = format!("the command cannot be made to end with this process: {error}");
                return self.failed(Status::Failed, why);
            }
        }
        // The parent may have ended before that was asked for.
        if nix::unistd::getppid().as_raw() != self.parent {
            return Status::Lost.into();
        }
        if WAITS {
            let go = SigSet::from(GO);
            // The parent's end ends this process too, so the wait is not for ever.
            if let Err(error) = go.wait() {
                let why = format!("the command cannot wait for its start: {error}");
                return self.failed(Status::Failed, why);
            }
            if !self.keep {
                let _ = go.thread_unblock();
            }
        }
        // The parent may have been stopped, and this process with it.
        if now() >= self.before {
            let why = "the lease is lost, and the command is not started".to_owned();
            return self.failed(Status::Lost, why);
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return Status::Usage.into();
        };
        let error = Command::new(program).args(arguments).exec();
        let status = match error.kind() {
            std::io::ErrorKind::NotFound => Status::NotFound,
            _ => Status::CannotRun,
        };
        self.failed(status, format!("{}: {error}", program.to_string_lossy()))
    }

    fn failed(&self, status: Status, text: String) -> ExitCode {
        let resource = std::env::var(RESOURCE).unwrap_or_default();
        say(&Failure { status, text }.into(), &resource, self.json);
        status.into()
    }
}

impl Run {
    /// Starts the command in a group of its own, where it waits for [`go`]. From `before` on it ends instead.
    pub(crate) fn start(&self, granted: &Granted, before: u64) -> Result<Child, Failure> {
        let is_blocked = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(GO));
        let mut command = this_program()?;
        command.arg("become").arg("--parent").arg(std::process::id().to_string());
        command.arg("--before").arg(before.to_string());
        command.args(self.json.then_some("--json"));
        command.args(is_blocked.then_some("--keep")).arg("--").args(&self.command);
        command.env(RESOURCE, &granted.resource).env("QUORLOCK_OWNER", &granted.owner);
        let optional = [
            ("QUORLOCK_TOKEN", granted.token.clone()),
            ("QUORLOCK_SLOT", granted.slot.map(|slot| slot.to_string())),
            ("QUORLOCK_TERM", granted.token.clone().filter(|_| self.want.elect)),
        ];
        for (name, value) in optional {
            match value {
                Some(value) => command.env(name, value),
                // A value inherited from an outer `run` is of another lease.
                None => command.env_remove(name),
            };
        }
        command.process_group(0);
        let kept = if WAITS { SigSet::from(GO) } else { SigSet::empty() };
        blocked(kept, || command.spawn()).map_err(|error| {
            Failure::new(Status::CannotRun, format!("the command cannot be started: {error}"))
        })
    }
}

const RESOURCE: &str = "QUORLOCK_RESOURCE";

/// Whether the process in between waits for [`go`]: elsewhere it would wait for ever once its parent is gone.
pub(crate) const WAITS: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// The signal to go. It does nothing to a command that has started.
const GO: Signal = Signal::SIGCONT;

/// Lets this group become the command, once the holder has been told of it.
pub(crate) fn go(group: Group) {
    if WAITS {
        group.signal(GO);
    }
}

/// Another process of this program, also where an upgrade has replaced its file meanwhile.
pub(crate) fn this_program() -> Result<tokio::process::Command, Failure> {
    let is_linux = cfg!(any(target_os = "linux", target_os = "android"));
    let mut command = match is_linux && std::path::Path::new(SELF).exists() {
        true => tokio::process::Command::new(SELF),
        false => tokio::process::Command::new(file()?),
    };
    command.arg0("quorlock");
    Ok(command)
}

/// Its file. Where the system does not tell, the name that started this process, looked for as a shell does.
fn file() -> Result<OsString, Failure> {
    let told = match std::env::current_exe() {
        Ok(file) => return Ok(file.into()),
        Err(error) => error,
    };
    std::env::args_os().next().ok_or_else(|| Failure::new(Status::Failed, told))
}

/// The program of the process that opens it, as the kernel has it.
const SELF: &str = "/proc/self/exe";

//! The terminal: the command reads from it and is stopped by it, as if it had been started by the shell itself.
//!
//! Where there is none it does nothing. It must never take the terminal from a group to which the shell has given it.

use std::io::{IsTerminal as _, stdin, stdout};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::{getpgrp, getpid, tcgetpgrp, tcsetpgrp},
};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::{group::Group, signals::blocked};

/// Whether the command is to have it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Terminal {
    is_there: bool,
    /// Behind a pipe on stdout another program may read from it too, so the command gets it only when it reads.
    at_once: bool,
}

impl Terminal {
    pub(crate) fn of_stdin() -> Self {
        let is_there = stdin().is_terminal() && tcgetpgrp(stdin()).is_ok();
        Self { is_there, at_once: is_there && stdout().is_terminal() }
    }

    /// The command has been started.
    pub(crate) fn started(self, group: Group) {
        if self.at_once {
            self.give(group);
        }
    }

    /// The command has ended.
    pub(crate) fn take_back(self, group: Group) {
        if self.is_there && tcgetpgrp(stdin()) == Ok(group.leader()) {
            // SIGTTOU stops a background process that takes the terminal, unless it is blocked.
            let _ = without_stop(|| tcsetpgrp(stdin(), getpgrp()));
        }
    }

    /// A child of this process has ended, or was stopped. Where the command was stopped by the terminal, this process stops too,
    /// so that the shell goes on; and with it the command. The lease is renewed meanwhile.
    pub(crate) fn see(self, group: Group) {
        if !self.is_there {
            return;
        }
        let Some(signal) = stopped_by(group) else { return };
        let wants_it = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if !(wants_it && is_ours()) {
            self.take_back(group);
            // Not SIGSTOP: where no shell could let it go on, the kernel ignores SIGTSTP, and the command goes on.
            let _ = kill(getpid(), Signal::SIGTSTP);
        }
        self.go_on(group);
    }

    /// This process goes on after a stop, in the background or in the foreground.
    pub(crate) fn go_on(self, group: Group) {
        if self.is_there {
            self.give(group);
            group.signal(Signal::SIGCONT);
        }
    }

    fn give(self, group: Group) {
        if self.is_there && is_ours() {
            let _ = tcsetpgrp(stdin(), group.leader());
            // The command may have read before, and was stopped.
            group.signal(Signal::SIGCONT);
        }
    }
}

/// The signal by which the leader of this group was stopped, since this was asked last.
fn stopped_by(group: Group) -> Option<Signal> {
    let leader = Pid::from_raw(group.leader().as_raw())?;
    let stops = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(leader), stops).ok()??;
    Signal::try_from(status.stopping_signal()?).ok()
}

/// Whether this process is in the foreground.
fn is_ours() -> bool {
    tcgetpgrp(stdin()) == Ok(getpgrp())
}

/// Blocks SIGTTOU, which stops a process that uses the terminal from the background. No longer: a command inherits it.
pub(crate) fn without_stop<T>(what: impl FnOnce() -> T) -> T {
    blocked(SigSet::from(Signal::SIGTTOU), what)
}

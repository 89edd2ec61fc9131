//! The terminal: the command reads from it and is stopped by it, as if it had been started by the shell itself.
//!
//! Where there is none, or this process is in the background, it does nothing.

use std::io::{IsTerminal as _, stdin};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{Pid, getpgrp, getpid, tcgetpgrp, tcsetpgrp},
};

use super::group::Group;

/// Whether the command is to have it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Terminal {
    is_ours: bool,
}

impl Terminal {
    pub(crate) fn of_stdin() -> Self {
        let is_ours = stdin().is_terminal() && tcgetpgrp(stdin()) == Ok(getpgrp());
        if is_ours {
            // Who takes a terminal back from behind is stopped by it, unless that is blocked.
            let mut blocked = SigSet::empty();
            blocked.add(Signal::SIGTTOU);
            let _ = blocked.thread_block();
        }
        Self { is_ours }
    }

    pub(crate) fn give(self, group: Group) {
        if self.is_ours {
            let _ = tcsetpgrp(stdin(), Pid::from_raw(group.number()));
            // It may have read before, and was stopped.
            group.signal(Signal::SIGCONT);
        }
    }

    pub(crate) fn take_back(self) {
        if self.is_ours {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
    }

    /// Where the command was stopped by the terminal, this process stops too, so that the shell goes on; and with it the
    /// command. The lease is renewed meanwhile.
    pub(crate) fn see(self, group: Group) {
        if !self.is_ours {
            return;
        }
        let leader = Pid::from_raw(group.number());
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        if matches!(waitid(Id::Pid(leader), flags), Ok(WaitStatus::Stopped(..))) {
            self.take_back();
            let _ = kill(getpid(), Signal::SIGSTOP);
            self.give(group);
        }
    }
}

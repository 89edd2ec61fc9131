//! Whoever has started `hold`: the lines that it writes, and whether it is still there.
//!
//! It is gone where the input ends, where nobody can read the output any more, and where the process is gone that
//! `--caller` names. The first of these counts. An input that is read slowly must never keep the others from being seen.

use std::{
    io::{ErrorKind, Read as _, stdin, stdout},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread::Builder,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{Pid, getppid},
};
use tokio::sync::{
    Notify,
    mpsc::{Receiver, Sender, channel},
};

use super::lines::{Asked, Lines, Refused};
use crate::run::Signals;

type Line = Result<Asked, Refused>;

/// So many lines are read ahead.
const AHEAD: usize = 64;
/// Where the kernel does not tell of the end of another process, it is looked for so often, in milliseconds.
const LOOK: u16 = 100;

pub(super) struct Caller {
    lines: Receiver<Line>,
    signals: Option<Signals>,
    gone: Arc<Notify>,
    is_gone: bool,
}

impl Caller {
    /// `gone` is notified when the output cannot be written. Signals are listened to where there are some.
    pub(super) fn listen(
        process: Option<i32>,
        signals: Option<Signals>,
        gone: Arc<Notify>,
    ) -> std::io::Result<Self> {
        let (say, lines) = channel(AHEAD);
        Builder::new().name("lines".to_owned()).spawn(move || read_all(&say))?;
        let (process, says) = (process.map(Process::of), Arc::clone(&gone));
        let watch = move || {
            until_gone(process.as_ref());
            says.notify_one();
        };
        Builder::new().name("caller".to_owned()).spawn(watch)?;
        Ok(Self { lines, signals, gone, is_gone: false })
    }

    /// The next line; `None` where it is gone, or a signal asks for the end.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; no line is lost.
    pub(super) async fn next(&mut self) -> Option<Line> {
        if self.is_gone {
            return None;
        }
        let Self { lines, signals, gone, .. } = self;
        let signal = async {
            match signals {
                Some(signals) => drop(signals.end().await),
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            line = lines.recv() => line,
            () = gone.notified() => None,
            () = signal => None,
        };
        self.is_gone = next.is_none();
        next
    }
}

/// Reads the input to its end, whatever it is.
fn read_all(say: &Sender<Line>) {
    let (mut lines, mut chunk) = (Lines::default(), [0; 4096]);
    let mut input = stdin().lock();
    loop {
        let count = match input.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Another process may have made it one that does not block.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let input = stdin();
                let _ =
                    poll(&mut [PollFd::new(input.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
                continue;
            }
            Err(_) => return,
        };
        for line in chunk.iter().take(count).filter_map(|byte| lines.take(*byte)) {
            if say.blocking_send(line).is_err() {
                return;
            }
        }
    }
}

/// The process that is named as the caller.
enum Process {
    /// Readable when it has ended.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), expect(dead_code))]
    Watched(OwnedFd),
    /// To be looked for.
    Known(Pid),
    Gone,
}

impl Process {
    fn of(process: i32) -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(pid) = rustix::process::Pid::from_raw(process) {
            match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
                Ok(process) => return Self::Watched(process),
                Err(rustix::io::Errno::SRCH) => return Self::Gone,
                // An old kernel, or one that does not let us.
                Err(_) => {}
            }
        }
        let process = Self::Known(Pid::from_raw(process));
        if process.is_there() { process } else { Self::Gone }
    }

    fn is_there(&self) -> bool {
        match self {
            Self::Watched(_) => true,
            // What belongs to another user is there too.
            Self::Known(process) => nix::sys::signal::kill(*process, None) != Err(Errno::ESRCH),
            Self::Gone => false,
        }
    }
}

/// Waits until nobody has the other end of the output open, or the process has ended.
fn until_gone(process: Option<&Process>) {
    let out = stdout();
    loop {
        // Nothing is asked for, and the kernel tells of the end all the same.
        let mut all = vec![PollFd::new(out.as_fd(), PollFlags::empty())];
        let within = match process {
            None => PollTimeout::NONE,
            Some(Process::Watched(process)) => {
                all.push(PollFd::new(process.as_fd(), PollFlags::POLLIN));
                PollTimeout::NONE
            }
            Some(Process::Known(_)) => PollTimeout::from(LOOK),
            Some(Process::Gone) => return,
        };
        match poll(&mut all, within) {
            Ok(count) if count > 0 => return,
            Ok(_) | Err(Errno::EINTR) => {}
            // Without it the end of the input still says so.
            Err(_) => std::thread::park(),
        }
        if process.is_some_and(|process| !process.is_there()) {
            return;
        }
    }
}

/// The label by which others find who holds it: the caller and its name.
pub(super) fn label(process: Option<i32>) -> Vec<u8> {
    let process = process.unwrap_or_else(|| getppid().as_raw());
    let name = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    crate::want::label(process, name.trim_ascii())
}

//! One child process: finding the program of a server, spawning, signalling, burying.
//!
//! A watchdog shell waits on a pipe that only this process holds open; when the test process dies
//! in whatever way, the pipe closes and the shell kills the child. The watchdog is buried before
//! the child is, so that it must never signal a process id that belongs to somebody else by then.
//! Signals go to the child's group: it may be a shell, and what it runs is harmed with it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::eventually;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Child,
    paused: bool,
}

impl Process {
    /// Starts the server with these arguments, and these variables beside those of this process.
    pub(crate) fn spawn(args: &[OsString], env: &[(String, OsString)]) -> Self {
        let program = server_program().unwrap_or_else(|| {
            panic!(
                "no redis-server and no valkey-server on PATH: run `tests/run`, which installs one, \
                 or set REDIS_SERVER_BIN"
            )
        });
        let mut command = Command::new(program);
        command.args(args).envs(env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self::start(command)
    }

    /// Starts any command, and its watchdog.
    pub(crate) fn start(mut command: Command) -> Self {
        // A key pressed at the terminal is for this process, which ends its children itself.
        command.process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("cannot start {}: {error}", command.get_program().display())
        });
        // `read` returns at the end of the pipe, since nothing is ever written to it.
        let watchdog = Command::new("/bin/sh")
            .args(["-c", "read -r _; kill -9 \"-$1\"", "quorlock-watchdog"])
            .arg(child.id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match watchdog {
            Ok(watchdog) => Self { child, watchdog, paused: false },
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("cannot start the watchdog shell: {error}")
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output, where it is piped.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its input, where it is piped.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn paused(&self) -> bool {
        self.paused
    }

    /// The exit status in words, once the process is gone.
    pub(crate) fn exited(&mut self) -> Option<String> {
        self.child.try_wait().expect("the status of an own child").map(|status| status.to_string())
    }

    /// SIGSTOP, and waits until the process has really stopped: the signal alone is asynchronous.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        if !self.paused {
            eventually("a process stops after SIGSTOP", Duration::from_secs(10), || {
                self.has_stopped()
            });
        }
        self.paused = true;
    }

    fn has_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let state = waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        state.expect("the state of an own child").is_some()
    }

    /// The same for a child that may end by itself at any moment: false where it has ended.
    pub(crate) fn pause_unless_gone(&mut self) -> bool {
        if self.exited().is_some() {
            return false;
        }
        self.send(Signal::STOP);
        let mut gone = false;
        eventually("a process stops after SIGSTOP, or ends", Duration::from_secs(10), || {
            // A status that is not there to be waited for is that of a child that has ended.
            gone = self.exited().is_some();
            gone || self.has_stopped()
        });
        self.paused = !gone;
        !gone
    }

    /// SIGCONT. The process answers whatever has arrived meanwhile.
    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    fn signal(&mut self, signal: Signal) {
        // A child that was waited for has no process id any more.
        if let Some(status) = self.exited() {
            panic!("the process has already exited with {status}");
        }
        self.send(signal);
    }

    /// To a child that has not been waited for, so that the number of its group is nobody else's.
    fn send(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).expect("signal to an own child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        // SIGKILL also ends a stopped process.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The program of a server: `REDIS_SERVER_BIN`, or else the first of redis-server and valkey-server on PATH; none where
/// there is no such program.
///
/// A wrapper script has to `exec` the server, since the signals go to the process started here.
pub fn server_program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("REDIS_SERVER_BIN").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in ["redis-server", "valkey-server"] {
        if let Some(found) =
            std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
        {
            return Some(found);
        }
    }
    None
}

//! A host: servers that have been admitted, a directory of its own, and `quorlock run` in an environment that nobody else
//! has changed.
//!
//! It must never leave a process behind, also where a test fails while some of them are stopped.

use std::{
    ffi::OsStr,
    fs::{File, read_to_string},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use quorlock::{Builder, Redlock};
use quorlock_harness::{Cluster, eventually};
use tempfile::TempDir;

/// For what certainly happens, on however busy a machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Host {
    pub(crate) fleet: Cluster,
    dir: TempDir,
    started: AtomicUsize,
    /// How long its commands give a node to answer when they connect, where it is not the default.
    connects_within: Option<Duration>,
    /// The same for their rounds: in a test that is not about silent nodes, a slow one must not count as silent.
    answers_within: Option<Duration>,
}

impl Host {
    /// With three servers.
    pub(crate) fn new() -> Self {
        Self::with(3)
    }

    pub(crate) fn with(servers: usize) -> Self {
        let host = Self::admitted(servers, |builder| builder);
        Self { answers_within: Some(2 * SECOND), ..host }
    }

    /// The same for a test in which no living node may be taken for a dead one.
    pub(crate) fn patient() -> Self {
        Self { connects_within: Some(SOON), ..Self::new() }
    }

    /// The same for a test in which nodes do not answer, by the timeout that users have.
    pub(crate) fn hasty() -> Self {
        Self { answers_within: None, ..Self::new() }
    }

    /// With nodes that vote for clients with these settings.
    pub(crate) fn admitted(servers: usize, settings: impl FnOnce(Builder) -> Builder) -> Self {
        let fleet = Cluster::start(servers);
        quorlock_harness::admit(settings(Redlock::builder().nodes(fleet.urls())));
        Self {
            fleet,
            dir: tempfile::tempdir().unwrap(),
            started: AtomicUsize::new(0),
            connects_within: None,
            answers_within: None,
        }
    }

    /// A file of this host, there or not.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Waits until there is something in it.
    #[track_caller]
    pub(crate) fn written(&self, name: &str) -> String {
        eventually(&format!("{name} is written"), SOON, || self.read(name).ends_with('\n'));
        self.read(name)
    }

    /// `quorlock run` and these arguments, with the nodes in the environment; not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
        command.arg("run").args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUORLOCK_") {
                command.env_remove(name);
            }
        }
        command.env("QUORLOCK_NODES", self.fleet.urls().join(","));
        if let Some(within) = self.answers_within {
            command.env("QUORLOCK_NODE_TIMEOUT", format!("{}s", within.as_secs()));
        }
        if let Some(within) = self.connects_within {
            command.env("QUORLOCK_CONNECT_TIMEOUT", format!("{}s", within.as_secs()));
        }
        command
    }

    /// What it says goes to files, so that nobody has to read it.
    pub(crate) fn start(&self, mut command: Command) -> Running {
        let number = self.started.fetch_add(1, Relaxed);
        let (out, err) = (self.file(&format!("out.{number}")), self.file(&format!("err.{number}")));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        Running { child: command.spawn().unwrap(), out, err }
    }

    /// A shell as the command, behind these arguments.
    pub(crate) fn shell(&self, args: &str, script: &str) -> Running {
        let args = args.split_whitespace().chain(["--", "sh", "-c", script]);
        self.start(self.command(args))
    }

    /// The same to its end.
    #[track_caller]
    pub(crate) fn run(&self, args: &str, script: &str) -> Ended {
        self.shell(args, script).ended()
    }

    /// The lock on this resource is given back, or has expired.
    #[track_caller]
    pub(crate) fn is_free(&self, resource: &str) {
        let ended = self.run(&format!("{resource} --try"), "true");
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
}

/// A `quorlock run` with all of its processes.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Ended {
    /// As of a shell: 128 and the signal that ended it.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    /// The process that was started.
    pub(crate) fn supervisor(&self) -> Process {
        Process(i32::try_from(self.child.id()).unwrap())
    }

    /// The one that holds the lease.
    #[track_caller]
    pub(crate) fn holder(&self) -> Process {
        self.child_that(|process| process.line().contains("hold-for-run"))
    }

    /// The one that has become the command.
    #[track_caller]
    pub(crate) fn command(&self) -> Process {
        let is_step = |line: &str| line.contains("hold-for-run") || line.contains("become");
        self.child_that(|process| !is_step(&process.line()) && !process.line().is_empty())
    }

    #[track_caller]
    fn child_that(&self, is: impl Fn(Process) -> bool) -> Process {
        let mut found = None;
        eventually("there is such a process", SOON, || {
            found = self.supervisor().children().into_iter().find(|process| is(*process));
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn errors(&self) -> String {
        read_to_string(&self.err).unwrap_or_default()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    #[track_caller]
    pub(crate) fn ended(mut self) -> Ended {
        let mut status = None;
        eventually("quorlock has ended", SOON, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        let read =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        Ended { code: code.unwrap(), out: read(&self.out), err: read(&self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        let mut all = vec![self.supervisor()];
        let mut next = 0;
        while let Some(process) = all.get(next).copied() {
            all.extend(process.children());
            next += 1;
        }
        all.into_iter().for_each(|process| process.signal(Signal::SIGKILL));
        let _ = self.child.wait();
    }
}

/// A process of this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process(pub(crate) i32);

impl Process {
    /// One that has written its number.
    #[track_caller]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.trim().parse().unwrap_or_else(|_| panic!("no number of a process: {text}")))
    }

    pub(crate) fn signal(self, signal: Signal) {
        let _ = nix::sys::signal::kill(Pid::from_raw(self.0), signal);
    }

    /// SIGSTOP, and waits until it has taken effect.
    #[track_caller]
    pub(crate) fn pause(self) {
        self.signal(Signal::SIGSTOP);
        eventually("it is stopped", SOON, || self.is_stopped());
    }

    pub(crate) fn resume(self) {
        self.signal(Signal::SIGCONT);
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.state() == Some('T')
    }

    /// A process that has not been reaped is gone too.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self.state(), None | Some('Z' | 'X'))
    }

    #[track_caller]
    pub(crate) fn ends(self) {
        eventually("it has ended", SOON, || self.is_gone());
    }

    fn state(self) -> Option<char> {
        let stat = read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    pub(crate) fn children(self) -> Vec<Self> {
        let children = read_to_string(format!("/proc/{0}/task/{0}/children", self.0));
        children.unwrap_or_default().split_whitespace().map(Self::of).collect()
    }

    /// Its command line, with blanks.
    pub(crate) fn line(self) -> String {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    }
}

//! Processes that lock with a library of another language, and take orders line by line.
//!
//! | line | what it does | answers |
//! | --- | --- | --- |
//! | `hello` | | `ready` |
//! | `try MS` | one attempt with this ttl | `got`, `busy` |
//! | `release` | releases what it got | `released`, `gone` |
//! | `work N` | N increments of the shared counter, each under the lock | `done` |
//! | `careless N` | N increments without it | `done` |
//!
//! An increment reads, waits a millisecond and writes, so that two at once lose one. A library that cannot be installed
//! leaves its tests undecided, which is counted once for each library.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use quorlock_harness::{Cluster, Server};

/// The libraries, by the name that `tests/interop/install` knows them by.
pub(super) const LIBRARIES: [&str; 4] = ["node-redlock", "pottery", "redlock-rb", "redsync"];

/// For an answer, on however busy a machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// One such process. It is killed when dropped.
pub(super) struct Foreign {
    pub(super) library: &'static str,
    process: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Foreign {
    /// Starts a worker, and waits until it has its connections; nothing where the library cannot be installed.
    pub(super) fn start(
        library: &'static str,
        counter: &Server,
        resource: &str,
        locks: &Cluster,
    ) -> Option<Self> {
        let command = installed(library)?;
        let mut process = Command::new("bash")
            .args(["-c", &format!("exec {command} \"$@\""), library])
            .arg(counter.port().to_string())
            .arg(resource)
            .args(locks.iter().map(|server| server.port().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (say, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines.map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        let mut foreign = Self { library, process, orders, answers };
        assert_eq!(foreign.ask("hello"), "ready", "{library}");
        Some(foreign)
    }

    /// Gives an order, and waits for its answer.
    pub(super) fn ask(&mut self, order: &str) -> String {
        self.order(order);
        self.answer()
    }

    pub(super) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// Stops the process, and lets it go on.
    pub(super) fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.process.id().to_string()).status();
        assert!(status.unwrap().success(), "kill {signal}");
    }

    pub(super) fn answer(&mut self) -> String {
        let answer = self.answers.recv_timeout(ANSWER_WITHIN);
        answer.unwrap_or_else(|error| panic!("{} gives no answer: {error}", self.library))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the libraries are installed: below the target directory.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop")
}

/// The command that runs a worker.
fn installed(library: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut install = Command::new("bash");
    let install = install.arg(root.join("tests/interop/install")).arg(library).arg(directory());
    let output = install.output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default().to_owned();
    let (target, name) =
        (Path::new(env!("CARGO_TARGET_TMPDIR")), format!("interop beside {library}"));
    match output.status.code() {
        Some(0) => {
            quorlock_harness::decide(target, &name);
            Some(last)
        }
        Some(3) => {
            quorlock_harness::leave_undecided(target, &name, &last);
            None
        }
        _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}

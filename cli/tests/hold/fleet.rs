//! Servers that have been admitted, the environment of a command on them, and `quorlock hold` as its caller sees it.
//!
//! It must never leave a process behind, also where a test fails while one is stopped.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use quorlock::Redlock;
use quorlock_harness::{Cluster, eventually};
use serde_json::Value;

/// For what certainly happens, on however busy a machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Fleet {
    pub(crate) servers: Cluster,
}

impl Fleet {
    /// Three servers, which vote at once.
    pub(crate) fn start() -> Self {
        let servers = Cluster::start(3);
        quorlock_harness::admit(Redlock::builder().nodes(servers.urls()));
        Self { servers }
    }

    /// The environment in which a command finds them, and nothing of that of the tests.
    pub(crate) fn around(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUORLOCK_") {
                command.env_remove(name);
            }
        }
        command.env("QUORLOCK_NODES", self.servers.urls().join(","));
        // A slow node must not count as a silent one.
        command.env("QUORLOCK_NODE_TIMEOUT", "2s");
        command.env("QUORLOCK_BIN", env!("CARGO_BIN_EXE_quorlock"));
    }

    /// The key of this resource is on no server, or that of another lease.
    #[track_caller]
    pub(crate) fn is_given_back(&self, resource: &str) {
        eventually("its keys are gone", SOON, || self.keys(resource) == 0);
    }

    /// On how many servers that answer the key of this resource is.
    pub(crate) fn keys(&self, resource: &str) -> usize {
        let is_its =
            |key: &[u8]| key.windows(resource.len()).any(|part| part == resource.as_bytes());
        self.servers.locks_left().iter().filter(|(_, key)| is_its(key)).count()
    }

    /// `quorlock hold` and these arguments; not started yet.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
        command.arg("hold").args(args.split_whitespace());
        self.around(&mut command);
        command
    }

    pub(crate) fn hold(&self, args: &str) -> Helper {
        Helper::start(self.command(args))
    }

    /// The same, once the lease is granted.
    #[track_caller]
    pub(crate) fn granted(&self, args: &str) -> (Helper, Value) {
        let mut helper = self.hold(args);
        let granted = helper.event("granted");
        (helper, granted)
    }

    /// The lines and the status of one that ends by itself.
    #[track_caller]
    pub(crate) fn ended(&self, args: &str) -> (Vec<Value>, i32) {
        let mut helper = self.hold(args);
        let code = helper.ends();
        (helper.rest(), code)
    }
}

/// A `quorlock hold` whose caller is this test.
pub(crate) struct Helper {
    child: Child,
    /// `None` where it was closed.
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Helper {
    pub(crate) fn start(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::of(piped.spawn().unwrap())
    }

    pub(crate) fn of(mut child: Child) -> Self {
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (say, lines) = mpsc::channel();
        if let Some(output) = output {
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines();
                lines.map_while(Result::ok).try_for_each(|line| say.send(line))
            });
        }
        Self { child, input, lines }
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// One that has ended does not hear it.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.input.as_mut().unwrap().write_all(bytes);
    }

    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(SOON).expect("one more line")
    }

    /// The next one that says more than that it waits.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        loop {
            let line = self.line();
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if value["event"] != "waiting" {
                return value;
            }
        }
    }

    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> Value {
        let value = self.next();
        assert_eq!(value["event"], name, "{value}");
        value
    }

    /// Asks, and returns the answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str, event: &str) -> Value {
        self.say(line);
        self.event(event)
    }

    /// What is left of its output.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        let lines = self.lines.iter().map(|line| serde_json::from_str(&line).unwrap());
        lines.filter(|value: &Value| value["event"] != "waiting").collect()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = nix::sys::signal::kill(self.pid(), signal);
    }

    /// Waits for its end, and returns the status as a shell has it.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> i32 {
        let mut status = None;
        eventually("quorlock has ended", SOON, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The test binary that runs, once more, or an example: another process for a test, which can be stopped.
//!
//! The test says by an environment variable what the process shall do, and returns after it. What it prints
//! is piped to the first process; the end of its input tells it to end. It dies with the first process.

use std::{
    ffi::OsStr,
    io::Write as _,
    process::{ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use crate::{eventually, process::Process};

/// The second process. It is killed when dropped.
#[derive(Debug)]
pub struct Companion {
    process: Process,
    input: Option<ChildStdin>,
}

impl Companion {
    /// Runs this binary for the test of this whole name, with one more variable in its environment.
    pub fn start(test: &str, key: &str, value: impl AsRef<OsStr>) -> Self {
        let program = std::env::current_exe().expect("the path of this binary");
        let mut command = Command::new(program);
        command.args([test, "--exact", "--nocapture"]).env(key, value);
        Self::run(command)
    }

    /// Runs an example that needs other crates in this environment. It is built first, but where `EXAMPLES=built`
    /// says that all of them have been: a test that builds would hold its place for minutes.
    pub fn example<'a>(name: &str, env: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        if std::env::var_os("EXAMPLES").is_none_or(|said| said != "built") {
            build_example(name);
        }
        // Tests lie in `deps`, beside which there is a folder for the examples.
        let test = std::env::current_exe().expect("the path of this binary");
        let profile = test.ancestors().nth(2).expect("the folder of the profile");
        let mut command = Command::new(profile.join("examples").join(name));
        command.envs(env);
        Self::run(command)
    }

    /// Runs any command, with pipes to its input and from its output.
    pub fn run(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command);
        let input = process.take_stdin();
        Self { process, input }
    }

    /// What it prints, among it what the test runner says. To be taken once.
    pub fn output(&mut self) -> ChildStdout {
        self.process.take_stdout().expect("the output is taken once")
    }

    /// Its input, to be taken once, by whoever ends it then.
    pub fn input(&mut self) -> ChildStdin {
        self.input.take().expect("the input is taken once")
    }

    /// How it ended, once it has.
    pub fn exited(&mut self) -> Option<String> {
        self.process.exited()
    }

    /// Writes a line to its input. A process that has ended does not hear it.
    pub fn say(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// SIGKILL, and waits until it is gone: the kernel has closed its connections by then.
    pub fn kill(self) {
        drop(self);
    }

    /// SIGSTOP, and waits until it has taken effect.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    /// The same, where it may have ended by itself: false then, and nothing is done.
    pub fn pause_unless_gone(&mut self) -> bool {
        self.process.pause_unless_gone()
    }

    /// SIGCONT.
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Ends its input, which tells it to end, and does not wait for that.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// The same, and waits until it has ended, with what it says of its end.
    pub fn end(&mut self, within: Duration) -> String {
        self.end_input();
        let mut status = None;
        eventually("the second process has ended", within, || {
            status = self.process.exited();
            status.is_some()
        });
        status.unwrap_or_default()
    }
}

fn build_example(name: &str) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "quorlock-examples-others", "--example", name]);
    assert!(cargo.status().expect("cargo runs").success(), "the example {name} is not built");
}

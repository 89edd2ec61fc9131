//! Goal: however a run ends, no server, no worker and no file of it is left, and what was found is told where there is anything
//! to tell.
//!
//! Method: a directory for temporary files of the run's own, by which its processes are known, and signals that come while a
//! worker is stopped, in the middle of a fault.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use quorlock_harness::eventually;
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);

/// A run, and where it may leave things.
pub(super) struct Run {
    child: Child,
    temporary: TempDir,
    _out: TempDir,
}

/// A process of a run: what it is called, and whether it is stopped.
struct Seen {
    name: String,
    stopped: bool,
}

impl Run {
    fn start() -> Self {
        Self::start_with(&[], "chaos-worker")
    }

    /// Returns once a worker that has this in its command is stopped.
    pub(super) fn start_with(args: &[&str], worker: &str) -> Self {
        let (temporary, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
        command.args([
            "chaos",
            "--nodes",
            "3",
            "--workers",
            "3",
            "--ttl",
            "1s",
            "--seed",
            "1",
            "--json",
        ]);
        command.args(args).args(["--seconds", "600", "--out"]).arg(out.path().join("run.svg"));
        command.env("TMPDIR", temporary.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let run = Self { child, temporary, _out: out };
        eventually("a worker is stopped", 2 * SOON, || {
            run.left().iter().any(|seen| seen.stopped && seen.name.contains(worker))
        });
        run
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// All processes of the run but the one that was started here: their environment or their directory says so.
    fn left(&self) -> Vec<Seen> {
        let of = self.temporary.path();
        let numbers = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        numbers.filter_map(|process| seen(&process, of, self.child.id())).collect()
    }

    #[track_caller]
    pub(super) fn nothing_is_left(&self) {
        eventually("no process is left", SOON, || {
            let left = self.left();
            left.iter().for_each(|seen| println!("left: {}", seen.name));
            left.is_empty()
        });
        eventually("no file is left", SOON, || {
            fs::read_dir(self.temporary.path()).unwrap().count() == 0
        });
    }
}

fn seen(process: &Path, of: &Path, but: u32) -> Option<Seen> {
    let number: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    let mark = format!("TMPDIR={}", of.display());
    let named = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
    let within = fs::read_link(process.join("cwd")).is_ok_and(|dir| dir.starts_with(of));
    let status = fs::read_to_string(process.join("stat")).ok()?;
    let state = status.rsplit_once(") ")?.1.chars().next()?;
    let name = fs::read(process.join("cmdline")).ok()?;
    let name = String::from_utf8_lossy(&name).replace('\0', " ");
    // A process that has ended, and has not been reaped, does not count.
    (number != but && (named || within) && state != 'Z')
        .then_some(Seen { name, stopped: state == 'T' })
}

#[test]
fn ctrl_c_ends_it_with_a_verdict_on_what_there_is() {
    let mut run = Run::start();
    run.signal(Signal::SIGINT);
    let mut said = String::new();
    run.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(run.child.wait().unwrap().code(), Some(0), "{said}");
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&found["interrupted"], &found["clean"]), (&true.into(), &true.into()), "{found}");
    assert!(found["leases"].as_u64().unwrap() > 0 && found["faults"] == 1, "{found}");
    assert!(fs::read_to_string(found["picture"].as_str().unwrap()).unwrap().contains("</svg>"));
    run.nothing_is_left();
}

#[test]
fn ctrl_c_twice_and_sigkill_leave_nothing_either() {
    let mut twice = Run::start();
    let mut killed = Run::start();
    killed.signal(Signal::SIGKILL);
    // As a service manager would ask first.
    twice.signal(Signal::SIGTERM);
    let mut lines = BufReader::new(twice.child.stderr.take().unwrap()).lines();
    let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("once more")));
    assert!(told.is_some());
    twice.signal(Signal::SIGINT);
    // It may have come to its end in between.
    let code = twice.child.wait().unwrap().code();
    assert!(matches!(code, Some(130 | 0)), "{code:?}");
    assert!(!killed.child.wait().unwrap().success());
    killed.nothing_is_left();
    twice.nothing_is_left();
}

#[test]
fn a_verdict_is_told_where_there_is_no_room_for_the_picture() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    command.args(["chaos", "--nodes", "3", "--workers", "2", "--seconds", "1", "--json"]);
    let output = command.args(["--out", "/dev/full"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("/dev/full") && said.contains("--out"), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["clean"], &found["picture"]), (&true.into(), &Value::Null), "{found}");
    assert!(found["verdict"].as_str().unwrap().contains("othing went wrong"), "{found}");
}

#[test]
fn a_machine_on_which_nothing_can_be_started_is_told_in_words() {
    let out = tempfile::tempdir().unwrap();
    let picture = out.path().join("run.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    command.args(["chaos", "--seconds", "1", "--out"]).arg(&picture).stdin(Stdio::null());
    let output = command.env("TMPDIR", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(71), "{said}");
    assert!(said.contains("/nowhere"), "{said}");
    // A server that ends at once, as on a full disk.
    let output =
        command.env_remove("TMPDIR").env("REDIS_SERVER_BIN", "/bin/false").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(71), "{said}");
    assert!(said.contains("there is no verdict") && !said.contains("panicked"), "{said}");
    assert!(!picture.exists());
}

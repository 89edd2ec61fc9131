//! The program and what it leaves: a status, figures, a picture. What must be true of the figures of any run is looked at here.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A run that has not begun.
pub(crate) struct Program {
    pub(crate) command: Command,
    picture: PathBuf,
    _dir: TempDir,
}

/// What a run has left.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) found: Value,
    pub(crate) picture: String,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(args: &str) -> Program {
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("fleet.svg");
    command_to(args, picture, dir)
}

/// With its picture there.
pub(crate) fn command_to(args: &str, picture: PathBuf, dir: TempDir) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    // A machine that is busy with other tests is no fault of nodes.
    let patient = ["--set", "node_timeout=900ms", "--set", "connect_timeout=5s"];
    command.arg("bench").args(patient).args(args.split_whitespace()).arg("--out").arg(&picture);
    command.env_remove("QUORLOCK_NODES").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Program { command, picture, _dir: dir }
}

pub(crate) fn bench(args: &str) -> Ended {
    command(args).run()
}

impl Program {
    pub(crate) fn run(mut self) -> Ended {
        let output = self.command.output().unwrap();
        self.ended(output)
    }

    /// What this output and the file are.
    pub(crate) fn ended(self, output: Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        println!("{out}\n{err}");
        let found = serde_json::from_str(&out).unwrap_or_default();
        let picture = std::fs::read_to_string(&self.picture).unwrap_or_default();
        let code = output.status.code().expect("it ends by itself");
        Ended { code, found, picture, out, err }
    }
}

impl Ended {
    /// The figures of a line.
    #[track_caller]
    pub(crate) fn line(&self, id: &str) -> &Value {
        let lines = self.found["lines"].as_array().unwrap_or_else(|| panic!("{}", self.err));
        lines.iter().find(|line| line["line"] == id).unwrap_or_else(|| panic!("no {id}"))
    }

    /// These lines are there, each was measured, nothing failed, and the figures fit together.
    #[track_caller]
    pub(crate) fn is_consistent(&self, lines: &[&str]) {
        assert_eq!(self.code, 0, "{}", self.err);
        let found = self.found["lines"].as_array().unwrap_or_else(|| panic!("{}", self.err));
        let ids: Vec<&str> = found.iter().map(|line| line["line"].as_str().unwrap()).collect();
        assert_eq!(ids, lines);
        for line in found {
            assert!(line["count"].as_u64().unwrap() > 0 && line["errors"] == 0, "{line}");
            assert!(line["why"].is_null(), "{line}");
            let times = ["p10_us", "p50_us", "p90_us", "p99_us", "max_us"];
            let times = times.map(|name| line[name].as_f64().unwrap());
            assert!(times[0] > 0.0 && times.is_sorted(), "{line}");
            // A second has no more than fits into it, one after the other.
            let one_by_one = !matches!(line["line"].as_str(), Some("clients"));
            let rate = line["per_second"].as_f64().unwrap();
            assert!(rate > 0.0 && (!one_by_one || rate * times[0] <= 1.3e6 * 10.0), "{line}");
        }
    }
}

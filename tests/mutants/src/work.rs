//! Two copies of the core below `target/mutants`, each a crate of its own that has nothing but `src/protocol` and its tests:
//! `woven` has all mutants, and `plain` one at a time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{Result, Verdict, judge::Found, list::Mutant};

/// What needs more than `src/protocol`.
const LEFT_OUT: [&str; 2] = ["mod rates;\n", "mod schedules;\n"];

/// The test programs, as `cargo test` selects them: the quickest to build comes first.
pub(crate) const PROGRAMS: [&[&str]; 2] = [&["--lib"], &["--test", "protocol"]];

/// Both copies, and what comes of them.
#[derive(Debug)]
pub(crate) struct Work {
    /// Of the repository.
    pub(crate) root: PathBuf,
    pub(crate) woven: PathBuf,
    pub(crate) plain: PathBuf,
    found: PathBuf,
}

/// A test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The same in both copies.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where its tests expect to run.
    pub(crate) directory: PathBuf,
}

impl Work {
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let root = root.canonicalize()?;
        let below = root.join("target/mutants");
        fs::create_dir_all(&below)?;
        let [woven, plain, found] = ["woven", "plain", "found.json"].map(|name| below.join(name));
        Ok(Self { root, woven, plain, found })
    }

    /// Makes both copies anew, without any mutant; what was built of them before stays.
    pub(crate) fn lay_out(&self) -> Result<()> {
        let switch = include_str!("switch.rs.txt");
        for (to, switch) in [(&self.woven, switch), (&self.plain, "")] {
            for part in ["src", "tests"] {
                if to.join(part).exists() {
                    fs::remove_dir_all(to.join(part))?;
                }
            }
            copy(&self.root.join("src/protocol"), &to.join("src/protocol"))?;
            copy(&self.root.join("tests/proof/protocol"), &to.join("tests/protocol"))?;
            let ranges = to.join("tests/protocol/ranges/mod.rs");
            let mut text = fs::read_to_string(&ranges)?;
            for left_out in LEFT_OUT {
                text = text.replacen(left_out, "", 1);
            }
            fs::write(&ranges, text)?;
            fs::write(to.join("Cargo.toml"), include_str!("crate.toml"))?;
            fs::copy(self.root.join("Cargo.lock"), to.join("Cargo.lock"))?;
            let lib = "#![allow(warnings, clippy::all)]\nextern crate alloc;\npub mod protocol;\n";
            fs::write(to.join("src/lib.rs"), format!("{lib}{switch}"))?;
        }
        Ok(())
    }

    /// Of each error, where it may come from in the copy: file and line, the likeliest first. A sum that overflows whatever
    /// comes is found by a build, and not by `cargo check`.
    pub(crate) fn check(&self, copy: &Path) -> Result<Vec<Vec<(String, usize)>>> {
        let output = self.cargo(copy, &["build", "--lib"])?;
        let errors = messages(&output, "compiler-message")
            .map(|line| line["message"].clone())
            .filter(|message| message["level"] == "error");
        let places = errors.map(|message| {
            let mut spans = message["spans"].as_array().cloned().unwrap_or_default();
            spans.sort_by_key(|span| span["is_primary"] != true);
            let place = |span: &Value| {
                let line = usize::try_from(span["line_start"].as_u64()?).ok()?;
                Some((span["file_name"].as_str()?.to_owned(), line))
            };
            spans.iter().filter_map(place).collect::<Vec<_>>()
        });
        let places: Vec<_> = places.filter(|places| !places.is_empty()).collect();
        if places.is_empty() && !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Ok(places)
    }

    /// The test programs of a copy: those of [`PROGRAMS`] that are named.
    pub(crate) fn build(&self, copy: &Path, programs: &[&[&str]]) -> Result<Vec<Program>> {
        let arguments = [&["test", "--no-run"][..], &programs.concat()].concat();
        let output = self.cargo(copy, &arguments)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let programs = messages(&output, "compiler-artifact").filter_map(|line| {
            let name = line["target"]["name"].as_str()?.to_owned();
            let path = PathBuf::from(line["executable"].as_str()?);
            Some(Program { name, path, directory: copy.join("tests/protocol") })
        });
        Ok(programs.collect())
    }

    fn cargo(&self, copy: &Path, arguments: &[&str]) -> Result<Output> {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).arg("--message-format=json").current_dir(copy);
        Ok(cargo.env("CARGO_TARGET_DIR", copy.with_file_name("target")).output()?)
    }

    /// Writes down what has become of each. What was found of other files before stays.
    pub(crate) fn keep(&self, verdicts: &[(&Mutant, Verdict)]) -> Result<()> {
        let mut kept = if self.found.exists() { self.kept()? } else { Vec::new() };
        kept.retain(|one| verdicts.iter().all(|(mutant, _)| one["file"] != mutant.file));
        let commit = self.said("git", &["log", "-1", "--format=%h", "--", "src"])?;
        let date = self.said("date", &["-u", "+%F"])?;
        for (mutant, verdict) in verdicts {
            let (verdict, by) = match verdict {
                Verdict::Unviable => ("unviable", ""),
                Verdict::Judged(Found::Killed(by)) => ("killed", by.as_str()),
                Verdict::Judged(Found::Endless(by)) => ("endless", by.as_str()),
                Verdict::Judged(Found::Nothing) => ("survivor", ""),
            };
            let text = fs::read_to_string(self.root.join(&mutant.file))?;
            kept.push(json!({
                "file": mutant.file, "name": mutant.name, "what": mutant.what(), "line": mutant.line(&text),
                "verdict": verdict, "by": by, "commit": commit, "date": date,
            }));
        }
        kept.sort_by_key(|one| one["file"].to_string());
        let lines: Vec<String> = kept.iter().map(Value::to_string).collect();
        Ok(fs::write(&self.found, format!("[\n{}\n]\n", lines.join(",\n")))?)
    }

    fn said(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(program).args(arguments).current_dir(&self.root).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// What has become of each.
    pub(crate) fn kept(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&fs::read_to_string(&self.found)?)?)
    }
}

fn messages(output: &Output, reason: &'static str) -> impl Iterator<Item = Value> {
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = lines.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    lines.into_iter().filter(move |line| line["reason"] == reason)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

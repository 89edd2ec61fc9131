//! Three copies below `target/mutants`. Two are crates of their own that have nothing but `core/src` and its tests: `woven`
//! has all mutants, and `plain` one at a time. `whole` is the repository, with all mutants of what stands around the core.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Result, Verdict,
    judge::Found,
    list::Mutant,
    part::{self, Part},
};

/// What needs more than `core/src`.
const LEFT_OUT: [&str; 1] = ["mod rates;\n"];

/// Beside the tree of the whole: no lint of a mutant is an error, and no file of the tree is changed for that.
const SETTINGS: &str =
    "[build]\nrustflags = [\"--cap-lints=allow\"]\n[profile.dev]\ndebug = false\n";

/// A server that writes its log where the test says.
const SERVER: &str = "#!/bin/sh\n[ \"$1\" = --version ] && exec redis-server --version\nexec redis-server \"$@\" --logfile \"$REACHED\"\n";

/// The code that has mutants, without the tests beside it.
const CODE: [&str; 6] = [
    "src",
    "core/src",
    "cli/src",
    ":(exclude,glob)src/**/*_test.rs",
    ":(exclude,glob)src/**/*_test/**",
    ":(exclude,glob)core/src/**/*_test.rs",
];

/// The copies, and what comes of them.
#[derive(Debug)]
pub(crate) struct Work {
    /// Of the repository.
    pub(crate) root: PathBuf,
    /// What is made here.
    pub(crate) below: PathBuf,
    /// How many run side by side.
    pub(crate) jobs: usize,
    /// How long the tests that wait may take together for one mutant.
    pub(crate) budget: Duration,
    pub(crate) whole: PathBuf,
    pub(crate) woven: PathBuf,
    pub(crate) plain: PathBuf,
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
    pub(crate) fn new(root: &Path, jobs: usize, budget: Duration) -> Result<Self> {
        let root = root.canonicalize()?;
        let below = root.join("target/mutants");
        fs::create_dir_all(&below)?;
        let [woven, plain, whole] = ["woven", "plain", "whole"].map(|name| below.join(name));
        Ok(Self { root, below, jobs, budget, woven, plain, whole })
    }

    /// The copy into which the mutants of a part are woven.
    pub(crate) fn copy_of(&self, part: &Part) -> &Path {
        if part.is_whole { &self.whole } else { &self.woven }
    }

    /// Makes the copies for a part anew, without any mutant; what was built of them before stays.
    pub(crate) fn lay_out(&self, part: &Part) -> Result<()> {
        if part.is_whole { self.lay_out_whole() } else { self.lay_out_core() }
    }

    /// Copies what git tracks, or would. An unchanged file stays, with what was built of it.
    fn lay_out_whole(&self) -> Result<()> {
        let known = self.said("git", &["ls-files", "-co", "--exclude-standard"])?;
        for file in known.lines().filter(|file| !file.starts_with("tests/mutants/")) {
            let Ok(mut bytes) = fs::read(self.root.join(file)) else { continue };
            if file == "Cargo.toml" {
                bytes = String::from_utf8(bytes)?.replace(", \"tests/mutants\"", "").into_bytes();
            }
            // This script looks for the places of its own faults, which may be changed here.
            if file == "tests/proof/build.rs" {
                bytes = b"fn main() {}\n".to_vec();
            }
            bytes.extend(match file {
                "core/src/lib.rs" => include_str!("switch.rs.txt").bytes(),
                "src/lib.rs" => "\npub use quorlock_core::mutant;\n".bytes(),
                "cli/src/main.rs" => "\nuse quorlock::mutant;\n".bytes(),
                _ => "".bytes(),
            });
            put(&self.whole.join(file), &bytes)?;
        }
        put(&self.whole.join(".cargo/config.toml"), SETTINGS.as_bytes())?;
        let server = self.below.join("server");
        put(&server, SERVER.as_bytes())?;
        Ok(fs::set_permissions(server, fs::Permissions::from_mode(0o755))?)
    }

    fn lay_out_core(&self) -> Result<()> {
        let switch = include_str!("switch.rs.txt");
        for (to, switch) in [(&self.woven, switch), (&self.plain, "")] {
            for part in ["core/src", "tests"] {
                if to.join(part).exists() {
                    fs::remove_dir_all(to.join(part))?;
                }
            }
            copy(&self.root.join("core/src"), &to.join("core/src"))?;
            copy(&self.root.join("tests/proof/protocol"), &to.join("tests/protocol"))?;
            let main = to.join("tests/protocol/main.rs");
            let mut text = fs::read_to_string(&main)?;
            for left_out in LEFT_OUT {
                text = text.replacen(left_out, "", 1);
            }
            fs::write(&main, text)?;
            fs::write(to.join("Cargo.toml"), include_str!("crate.toml"))?;
            fs::copy(self.root.join("Cargo.lock"), to.join("Cargo.lock"))?;
            let lib = to.join("core/src/lib.rs");
            let text = fs::read_to_string(&lib)?;
            fs::write(&lib, format!("#![allow(warnings, clippy::all)]\n{text}{switch}"))?;
        }
        Ok(())
    }

    /// For each error, its possible places in the copy: file and line, the likeliest first. A build, and not
    /// `cargo check`, finds a sum that always overflows.
    pub(crate) fn check(
        &self,
        copy: &Path,
        arguments: &[&str],
    ) -> Result<Vec<Vec<(String, usize)>>> {
        let output = self.cargo(copy, arguments)?;
        let errors = messages(&output, "compiler-message")
            .map(|line| line["message"].clone())
            .filter(|message| message["level"] == "error");
        let places = errors.map(|message| {
            let spans = |of: &Value| of["spans"].as_array().cloned().unwrap_or_default();
            let mut all = spans(&message);
            all.sort_by_key(|span| span["is_primary"] != true);
            // An error in a constant is reported at the constant; a child message names what it calls.
            all.extend(message["children"].as_array().into_iter().flatten().flat_map(spans));
            let place = |span: &Value| {
                let line = usize::try_from(span["line_start"].as_u64()?).ok()?;
                Some((span["file_name"].as_str()?.to_owned(), line))
            };
            all.iter().filter_map(place).collect::<Vec<_>>()
        });
        let places: Vec<_> = places.filter(|places| !places.is_empty()).collect();
        if places.is_empty() && !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Ok(places)
    }

    /// Some of the test programs of a part, of a copy.
    pub(crate) fn build(&self, copy: &Path, programs: &[&str]) -> Result<Vec<Program>> {
        let arguments = [&["test", "--no-run"][..], programs].concat();
        let output = self.cargo(copy, &arguments)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let built = messages(&output, "compiler-artifact");
        let programs = built.filter(|line| line["profile"]["test"] == true).filter_map(|line| {
            let name = line["target"]["name"].as_str()?.to_owned();
            let path = PathBuf::from(line["executable"].as_str()?);
            let package = Path::new(line["manifest_path"].as_str()?).parent()?.to_owned();
            let directory = if copy == self.whole { package } else { copy.join("tests/protocol") };
            Some(Program { name, path, directory })
        });
        Ok(programs.collect())
    }

    fn cargo(&self, copy: &Path, arguments: &[&str]) -> Result<Output> {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).arg("--message-format=json").current_dir(copy);
        // A folder for each copy: their programs have the same names, and would take each other's places.
        let name = copy.file_name().unwrap_or_default().to_string_lossy();
        Ok(cargo.env("CARGO_TARGET_DIR", copy.with_file_name(format!("target-{name}"))).output()?)
    }

    /// Forgets what was found before of some files of a folder.
    pub(crate) fn forget(&self, folder: &str, is_meant: impl Fn(&str) -> bool) -> Result<()> {
        let mut kept = self.kept_of(folder)?;
        kept.retain(|one| !is_meant(one["file"].as_str().unwrap_or_default()));
        self.write(folder, &kept)
    }

    /// Writes down what has become of one.
    pub(crate) fn keep(&self, mutant: &Mutant, verdict: &Verdict) -> Result<()> {
        let folder = part::folder(&mutant.file);
        let mut kept = self.kept_of(folder)?;
        kept.retain(|one| one["name"] != mutant.name);
        let commit =
            self.said("git", &[&["log", "-1", "--format=%h", "--"], &CODE[..]].concat())?;
        let date = self.said("date", &["-u", "+%F"])?;
        let (verdict, by) = match verdict {
            Verdict::Unviable => ("unviable", ""),
            Verdict::Judged(Found::Killed(by)) => ("killed", by.as_str()),
            Verdict::Judged(Found::Endless(by)) => ("endless", by.as_str()),
            Verdict::Judged(Found::Nothing) => ("survivor", ""),
        };
        let text = fs::read_to_string(self.root.join(&mutant.file))?;
        kept.push(json!({
            "file": mutant.file, "name": mutant.name, "what": mutant.what(), "line": mutant.line(&text),
            "verdict": verdict, "by": by, "commit": commit, "date": date, "drawn": mutant.drawn,
        }));
        self.write(folder, &kept)
    }

    /// Each folder has its own file, so that two can be judged at the same time.
    fn found_of(&self, folder: &str) -> PathBuf {
        self.below.join(format!("found-{}.json", folder.replace('/', "-")))
    }

    fn whole_of(&self, folder: &str) -> PathBuf {
        self.below.join(format!("whole-{}", folder.replace('/', "-")))
    }

    /// Whether a folder, or a sample of it, was judged to its end here.
    pub(crate) fn is_whole(&self, folder: &str) -> bool {
        self.whole_of(folder).exists()
    }

    pub(crate) fn set_whole(&self, folder: &str, is_whole: bool) -> Result<()> {
        let mark = self.whole_of(folder);
        if is_whole {
            fs::write(mark, "")?;
        } else if mark.exists() {
            fs::remove_file(mark)?;
        }
        Ok(())
    }

    fn write(&self, folder: &str, kept: &[Value]) -> Result<()> {
        let mut kept = kept.to_vec();
        kept.sort_by_key(|one| one["file"].to_string());
        let lines: Vec<String> = kept.iter().map(Value::to_string).collect();
        Ok(fs::write(self.found_of(folder), format!("[\n{}\n]\n", lines.join(",\n")))?)
    }

    /// What has become of each in a folder.
    pub(crate) fn kept_of(&self, folder: &str) -> Result<Vec<Value>> {
        let found = self.found_of(folder);
        if !found.exists() {
            return Ok(Vec::new());
        }
        Ok(serde_json::from_str(&fs::read_to_string(found)?)?)
    }

    fn said(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(program).args(arguments).current_dir(&self.root).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// What has become of each.
    pub(crate) fn kept(&self) -> Result<Vec<Value>> {
        let mut kept = Vec::new();
        for folder in part::folders() {
            kept.extend(self.kept_of(folder)?);
        }
        Ok(kept)
    }
}

/// Writes a file, unless it is the same.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
    Ok(fs::write(path, bytes)?)
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

//! What each lock loses under the faults of `quorlock chaos`, with the same seeds for all, as a table.
//!
//! It starts the runs and adds up what they found. It judges nothing: each figure is that of `chaos`, and what could not
//! be run is named below the table, and never left out without a word.

mod rslock;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use serde_json::Value;

use crate::waiting::modules;

/// The argument of a process that is a worker with rslock.
const RSLOCK: &str = "lost-rslock";

const USAGE: &str =
    "usage: cargo run -p quorlock-compare -- lost [--runs N] [--seconds N] [--only LOCK,..]";

/// The locks: how each is called, its library where that is of others, and the arguments of `chaos`.
const LOCKS: [Lock; 5] = [
    Lock { name: "quorlock", library: None, args: &[] },
    Lock { name: "quorlock, tokens not compared", library: None, args: &["--no-fence"] },
    Lock { name: "redis-py, one server", library: Some(Library::RedisPy), args: &[] },
    Lock { name: "node-redlock", library: Some(Library::NodeRedlock), args: &[] },
    Lock { name: "rslock", library: Some(Library::Rslock), args: &[] },
];

struct Lock {
    name: &'static str,
    library: Option<Library>,
    args: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Library {
    RedisPy,
    NodeRedlock,
    Rslock,
}

impl Library {
    /// The command of a worker, and the version of the library.
    fn worker(self) -> Result<(String, String), String> {
        match self {
            Self::RedisPy => {
                let (dir, root) = modules("redis-py")?;
                let worker = root.join("benches/compare/workers/chaos_redis_py.py");
                let command = format!("PYTHONPATH={} python3 {}", quoted(&dir), quoted(&worker));
                Ok((command, python_version(&dir)))
            }
            Self::NodeRedlock => {
                let (dir, root) = modules("node-redlock")?;
                let worker = root.join("benches/compare/workers/chaos_node_redlock.mjs");
                let command = format!("NODE_MODULES={} node {}", quoted(&dir), quoted(&worker));
                Ok((command, node_version(&dir)))
            }
            Self::Rslock => {
                let program = std::env::current_exe().map_err(|error| error.to_string())?;
                Ok((format!("{} {RSLOCK}", quoted(&program)), "0.10".to_owned()))
            }
        }
    }
}

/// As one word for the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// As pip has named the directory of what it knows of the package.
fn python_version(dir: &Path) -> String {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut versions = names.filter_map(|name| {
        Some(name.strip_prefix("redis-")?.strip_suffix(".dist-info")?.to_owned())
    });
    versions.next().unwrap_or_default()
}

fn node_version(dir: &Path) -> String {
    let about = std::fs::read_to_string(dir.join("node_modules/redlock/package.json"));
    let about: Value =
        about.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    about["version"].as_str().unwrap_or_default().trim_start_matches('v').to_owned()
}

/// What the runs of one lock have found.
type Sums = [u64; COLUMNS.len()];

/// The fields of `chaos --json` that are added up, with their headings.
const COLUMNS: [(&str, &str); 6] = [
    ("faults", "faults"),
    ("leases", "leases"),
    ("writes", "writes"),
    ("overlaps", "two holders at once"),
    ("late_writes_taken", "late writes taken"),
    ("lost_updates", "**updates lost**"),
];

/// Whether this process is a worker; it works then until its input ends.
pub(crate) fn is_worker(args: &[String]) -> bool {
    let is_it = matches!(args, [first] if first == RSLOCK);
    if is_it {
        rslock::work();
    }
    is_it
}

/// All runs, and the table.
pub(crate) fn run(args: &[String]) -> ExitCode {
    match Options::parse(args).and_then(|options| table(&options)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    runs: u64,
    seconds: u64,
    only: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self { runs: 3, seconds: 30, only: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            let number = || value.parse().ok().filter(|number| *number > 0).ok_or(USAGE);
            match arg.as_str() {
                "--runs" => options.runs = number()?,
                "--seconds" => options.seconds = number()?,
                "--only" => options.only = value.split(',').map(str::to_owned).collect(),
                _ => return Err(USAGE.to_owned()),
            }
        }
        let is_known = |name: &String| LOCKS.iter().any(|lock| lock.is_called(name));
        match options.only.iter().find(|name| !is_known(name)) {
            Some(name) => Err(format!("no lock is called {name}\n{USAGE}")),
            None => Ok(options),
        }
    }
}

impl Lock {
    /// Its name with the version behind the first word.
    fn with(&self, version: &str) -> String {
        let (name, note) = self.name.split_at(self.name.find(',').unwrap_or(self.name.len()));
        format!("{name} {version}").trim_end().to_owned() + note
    }

    /// By the first word of its name.
    fn is_called(&self, name: &str) -> bool {
        self.name.split([' ', ',']).next() == Some(name)
    }
}

fn table(options: &Options) -> Result<String, String> {
    let quorlock = built()?;
    let mut lines = vec![
        format!("| lock | {} |", COLUMNS.map(|(_, heading)| heading).join(" | ")),
        format!("| ---{} |", " | ---:".repeat(COLUMNS.len())),
    ];
    let mut missing = Vec::new();
    for lock in LOCKS {
        if !options.only.is_empty() && !options.only.iter().any(|name| lock.is_called(name)) {
            continue;
        }
        match row(&quorlock, &lock, options) {
            Ok((version, sums)) => {
                let sums = sums.map(|sum| sum.to_string()).join(" | ");
                lines.push(format!("| {} | {sums} |", lock.with(&version)));
            }
            Err(why) => missing.push(format!("{}: {why}", lock.name)),
        }
    }
    lines.push(String::new());
    let Options { runs, seconds, .. } = options;
    let setting = "five nodes, five workers, leases of 1.5 s";
    lines.push(format!("Seeds 1 to {runs}, {seconds} s each, {setting}."));
    lines.extend(missing.into_iter().map(|why| format!("Not run: {why}")));
    Ok(lines.join("\n"))
}

fn row(quorlock: &Path, lock: &Lock, options: &Options) -> Result<(String, Sums), String> {
    let worker = lock.library.map(Library::worker).transpose()?;
    let mut sums = Sums::default();
    for seed in 1..=options.runs {
        let mut chaos = Command::new(quorlock);
        chaos.arg("chaos").args(["--json", "--seed", &seed.to_string()]).args(lock.args);
        chaos.args(["--seconds", &options.seconds.to_string(), "--out"]).arg(picture(lock, seed)?);
        if let Some((command, _)) = &worker {
            chaos.args(["--worker", command]);
        }
        let output = chaos.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| error.to_string())?;
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if found["verdict"].is_null() {
            return Err(format!("seed {seed} has no verdict: {}", output.status));
        }
        eprintln!("{}, seed {seed}: {}", lock.name, found["verdict"].as_str().unwrap_or_default());
        for (sum, (field, _)) in sums.iter_mut().zip(COLUMNS) {
            // A field that is missing must not look like nothing.
            *sum += found[field].as_u64().ok_or_else(|| format!("`chaos` tells no {field}"))?;
        }
    }
    Ok((worker.map_or_else(String::new, |(_, version)| version), sums))
}

/// What the runs leave, below the target directory.
fn dir() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = program.ancestors().nth(2).ok_or("the target directory is not found")?;
    let dir = target.join("tmp/lost");
    std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    Ok(dir)
}

/// One for each run.
fn picture(lock: &Lock, seed: u64) -> Result<PathBuf, String> {
    let name: String = lock.name.chars().filter(|one| one.is_ascii_alphanumeric()).collect();
    Ok(dir()?.join(format!("{name}-{seed}.svg")))
}

/// The command `quorlock`, built in this profile: a copy, so that a build meanwhile changes nothing.
fn built() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "quorlock-cli"]);
    build.args((!cfg!(debug_assertions)).then_some("--release"));
    let built = build.status().map_err(|error| error.to_string())?;
    if !built.success() {
        return Err("quorlock is not built".to_owned());
    }
    let copy = dir()?.join("quorlock");
    std::fs::copy(program.with_file_name("quorlock"), &copy).map_err(|error| error.to_string())?;
    Ok(copy)
}

//! Worker processes as the bench sees them: started, told, heard, ended.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        mpsc::{self, Receiver},
    },
    time::{Duration, Instant},
};

use super::{child, figures::Grant, orders::Order, own, who::Who};

/// To connect, on however busy a machine.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// After the end of its input.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A worker process. It ends with its input, and is killed when it does not.
pub(super) struct Worker {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Answers that another call will ask for.
    kept: VecDeque<String>,
}

/// What a worker says at the end of a longer order.
#[derive(Default)]
pub(super) struct Report {
    pub(super) grants: Vec<Grant>,
    pub(super) numbers: Vec<(String, f64)>,
    pub(super) failures: Vec<String>,
}

impl Worker {
    /// Starts one and waits until it has its connections. The error says why there is none.
    pub(super) fn start(
        who: Who,
        clients: usize,
        urls: &[String],
        rounds: bool,
    ) -> Result<Self, String> {
        let mut command = if who == Who::NodeRedlock {
            node(clients, urls)?
        } else {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            let mut command = Command::new(program);
            command.args([child::ARGUMENT, who.id(), &clients.to_string(), &urls.join(",")]);
            command.args(rounds.then_some("rounds"));
            command
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            lines.map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        let mut worker = Self { process, input, lines, kept: VecDeque::new() };
        worker.answer("ready", READY_WITHIN)?;
        Ok(worker)
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("it has been told to end")?;
        writeln!(input, "{order}").map_err(|error| format!("it takes no orders: {error}"))
    }

    /// The rest of the answer that begins so.
    pub(super) fn answer(&mut self, begin: &str, within: Duration) -> Result<String, String> {
        let until = Instant::now() + within;
        let rest = |line: &str| {
            let rest = line.strip_prefix(begin)?;
            (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim().to_owned())
        };
        if let Some(at) = self.kept.iter().position(|line| rest(line).is_some()) {
            return self.kept.remove(at).as_deref().and_then(rest).ok_or_else(String::new);
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| format!("no answer `{begin}` within {within:?}"))?;
            if let Some(failure) = line.strip_prefix("failed ") {
                return Err(failure.to_owned());
            }
            if let Some(rest) = rest(&line) {
                return Ok(rest);
            }
            self.kept.push_back(line);
        }
    }

    /// Asks with a client; [`Worker::got`] has the answer.
    pub(super) fn take(&mut self, slot: usize, resource: &str) -> Result<(), String> {
        self.order(&Order::Take { slot, resource: resource.to_owned() })
    }

    /// When it asked and when it got it.
    pub(super) fn got(&mut self, slot: usize, within: Duration) -> Result<(u64, u64), String> {
        times(&self.answer(&format!("got {slot}"), within)?)
    }

    /// The slot that gets it next.
    pub(super) fn any_got(&mut self, within: Duration) -> Result<usize, String> {
        let answer = self.answer("got", within)?;
        let slot = answer.split(' ').next().and_then(|slot| slot.parse().ok());
        slot.ok_or_else(|| format!("no slot: {answer}"))
    }

    /// Releases; the answer is when that was called and when it was over.
    pub(super) fn give(&mut self, slot: usize, within: Duration) -> Result<(u64, u64), String> {
        self.order(&Order::Give { slot })?;
        times(&self.answer(&format!("gave {slot}"), within)?)
    }

    /// All that it says up to the end of its order.
    pub(super) fn report(
        &mut self,
        process: usize,
        resources: usize,
        within: Duration,
    ) -> Result<Report, String> {
        let (until, mut report) = (Instant::now() + within, Report::default());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| format!("it has not ended within {within:?}"))?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match verb {
                "done" => return Ok(report),
                "failed" => report.failures.push(rest.to_owned()),
                "number" => {
                    if let Some((name, value)) = rest.split_once(' ') {
                        report.numbers.push((name.to_owned(), value.parse().unwrap_or_default()));
                    }
                }
                "grant" => {
                    let numbers: Vec<u64> =
                        rest.split(' ').filter_map(|word| word.parse().ok()).collect();
                    let [task, asked, got, called] = numbers[..] else {
                        return Err(format!("no grant: {line}"));
                    };
                    let task = usize::try_from(task).unwrap_or_default();
                    let resource = task % resources;
                    report.grants.push(Grant { process, task, resource, asked, got, called });
                }
                _ => return Err(format!("unexpected: {line}")),
            }
        }
    }
}

fn times(answer: &str) -> Result<(u64, u64), String> {
    let mut words = answer.split(' ').map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(second))) => Ok((first, second)),
        _ => Err(format!("no times: {answer}")),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None;
        let until = own::now() + u64::try_from(END_WITHIN.as_nanos()).unwrap_or_default();
        while own::now() < until {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The command of a process with node-redlock.
fn node(clients: usize, urls: &[String]) -> Result<Command, String> {
    static MODULES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    // A registry that does not answer is waited for once.
    let installed = || installed("node-redlock");
    let modules = MODULES.get_or_init(installed).as_ref().map_err(Clone::clone)?;
    let mut command = Command::new("node");
    command
        .env("NODE_MODULES", modules)
        .arg(root().join("benches/compare/workers/node_redlock.mjs"));
    command.arg(clients.to_string()).arg(urls.join(","));
    Ok(command)
}

/// Where the modules of a library are, and the root of this repository.
pub(crate) fn modules(library: &str) -> Result<(PathBuf, PathBuf), String> {
    Ok((installed(library)?, root()))
}

/// Where a library is, which `tests/interop/install` installs where Node is.
fn installed(library: &str) -> Result<PathBuf, String> {
    let directory = std::env::current_exe()
        .ok()
        .and_then(|program| Some(program.ancestors().nth(2)?.join("tmp/interop")))
        .ok_or("the target directory is not found")?;
    let mut install = Command::new("bash");
    install.arg(root().join("tests/interop/install")).arg(library).arg(&directory);
    let output = install.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(directory.join(library));
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Err(format!("skipped: {}", said.lines().last().unwrap_or("it cannot be installed")))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

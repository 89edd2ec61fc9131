//! A program in another language that uses a client of `clients/`, and takes orders line by line.
//!
//! | order | what it does | answers |
//! | --- | --- | --- |
//! | `hold NAME OPTION=VALUE…` | holds it until another order | `granted TOKEN`, `busy`, `no_quorum`, `error TEXT` |
//! | `check`, `release` | | `held MS`, `released`, `lost`, `no_quorum` |
//! | `is-lost` | | `true` where it has been told of the loss, `false` |
//! | `told`, `kill PID`, `stop PID` | kills or stops its helper, and waits until it is told of the loss | `told MS LATE`: since then, and since the end |
//! | `race` | checks in the moment of a release | `raced N`: said to be held behind it |
//! | `mistakes NAME` | what a compiler would not let pass | `refused` |
//! | `begin NAME` | waits for it aside | `begun` |
//! | `cancel`, `ended` | ends that wait, or waits for its end | `cancelled`, or why it ended |
//! | `fork` | starts a child that outlives it | `forked PID` |
//! | `cycles NAME N` | acquires and releases so often | `cycles FDS FDS LEFT`: descriptors before and after, processes or threads left |
//!
//! A language that is not installed leaves its tests undecided, which is counted once.

use std::{
    fs::read_to_string,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        mpsc::{self, Receiver},
    },
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use quorlock_harness::eventually;

use super::fleet::{Fleet, SOON};

/// For an answer, on however busy a machine: ten thousand cycles are one too.
const ANSWER_WITHIN: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Language {
    Python,
    Node,
    Go,
}

impl Language {
    /// The command that runs the program; what is missing where that cannot be.
    fn command(self) -> Result<Command, String> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let workers = root.join("cli/tests/clients/workers");
        let clients = root.join("clients");
        match self {
            Self::Python => {
                runs("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 8))"])?;
                let mut command = Command::new("python3");
                // Nothing is written beside the client.
                command.arg("-B").arg(workers.join("worker.py"));
                command.env("PYTHONPATH", clients.join("python"));
                Ok(command)
            }
            Self::Node => {
                runs(
                    "node",
                    &["-e", "process.exit(Number(parseInt(process.versions.node) < 20))"],
                )?;
                let mut command = Command::new("node");
                command.arg(workers.join("worker.mjs")).arg(clients.join("node/quorlock.mjs"));
                Ok(command)
            }
            Self::Go => built(&workers.join("go"), &clients.join("go")).map(Command::new),
        }
    }
}

/// Whether this program is there, and new enough.
fn runs(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("{program} is too old")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// The program in Go, which is built once.
fn built(worker: &Path, client: &Path) -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        runs("go", &["version"])?;
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-in-go");
        std::fs::create_dir_all(&place).unwrap();
        // Each test may be a process of its own: one builds at a time.
        let lock = std::fs::File::create(place.join("lock")).unwrap();
        let _turn = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
        std::fs::copy(worker.join("main.go"), place.join("main.go")).unwrap();
        let module = format!(
            "module worker\n\ngo 1.19\n\nrequire quorlock v0.0.0\n\nreplace quorlock => {}\n",
            client.canonicalize().unwrap().display()
        );
        std::fs::write(place.join("go.mod"), module).unwrap();
        Ok(built_from(&place))
    };
    BUILT.get_or_init(build).clone()
}

/// The program of the module in this directory.
pub(crate) fn built_from(place: &Path) -> PathBuf {
    let mut go = Command::new("go");
    go.args(["build", "-o", "program", "."]).current_dir(place);
    go.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").env("GOPROXY", "off");
    let output = go.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place.join("program")
}

/// One such program. It is killed when dropped.
pub(crate) struct Caller {
    process: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Caller {
    /// Starts it; nothing where its language is not installed.
    pub(crate) fn start(language: Language, fleet: &Fleet) -> Option<Self> {
        Self::start_by(language, fleet, env!("CARGO_BIN_EXE_quorlock"))
    }

    /// The same with this program in place of quorlock.
    pub(crate) fn start_by(language: Language, fleet: &Fleet, program: &str) -> Option<Self> {
        let (target, name) =
            (Path::new(env!("CARGO_TARGET_TMPDIR")), format!("the client in {language:?}"));
        let mut command = match language.command() {
            Ok(command) => command,
            Err(reason) => {
                quorlock_harness::leave_undecided(target, &name, &reason);
                return None;
            }
        };
        quorlock_harness::decide(target, &name);
        fleet.around(&mut command);
        command.env("QUORLOCK_BIN", program);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (say, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines.map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        Some(Self { process, orders, answers })
    }

    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, order: &str) -> String {
        self.order(order);
        self.answer(order)
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, order: &str) -> String {
        self.answers.recv_timeout(ANSWER_WITHIN).unwrap_or_else(|error| panic!("{order}: {error}"))
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// The numbers in the answer behind this word.
    #[track_caller]
    fn numbers<const N: usize>(&mut self, order: &str, word: &str) -> [f64; N] {
        let answer = self.ask(order);
        let numbers = answer.strip_prefix(word).unwrap_or_else(|| panic!("{order}: {answer}"));
        let numbers: Vec<f64> =
            numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }

    #[track_caller]
    pub(crate) fn number(&mut self, order: &str, word: &str) -> f64 {
        let [number] = self.numbers(order, word);
        number
    }

    /// Holds this, and returns the token.
    #[track_caller]
    pub(crate) fn granted(&mut self, what: &str) -> f64 {
        self.number(&format!("hold {what}"), "granted")
    }

    #[track_caller]
    pub(crate) fn told(&mut self, order: &str) -> [f64; 2] {
        self.numbers(order, "told")
    }

    #[track_caller]
    pub(crate) fn cycles(&mut self, times: &str) -> [f64; 3] {
        self.numbers(&format!("cycles job {times}"), "cycles")
    }

    /// Its children, by all of its threads.
    pub(crate) fn children(&self) -> Vec<i32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let tasks = tasks.into_iter().flatten().filter_map(Result::ok);
        let children =
            tasks.map(|task| read_to_string(task.path().join("children")).unwrap_or_default());
        children
            .collect::<String>()
            .split_whitespace()
            .map(|child| child.parse().unwrap())
            .collect()
    }

    /// The `quorlock hold` that it has started last.
    #[track_caller]
    pub(crate) fn helper(&self) -> i32 {
        let mut found = None;
        let is_helper = |child: &i32| {
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"hold")
        };
        eventually("there is a helper", SOON, || {
            found = self.children().into_iter().filter(is_helper).max();
            found.is_some()
        });
        found.unwrap()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn state(process: i32) -> Option<char> {
    let stat = read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// One that nobody has waited for yet is gone too.
pub(crate) fn is_there(process: i32) -> bool {
    !matches!(state(process), None | Some('Z' | 'X'))
}

/// How many bytes it has written so far.
pub(crate) fn written(process: i32) -> u64 {
    let counted = read_to_string(format!("/proc/{process}/io")).unwrap();
    let line = counted.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.unwrap().parse().unwrap()
}

pub(crate) fn send(process: i32, signal: Signal) {
    kill(Pid::from_raw(process), signal).unwrap();
}

/// SIGSTOP, and waits until it has taken effect.
pub(crate) fn stop(process: i32) {
    send(process, Signal::SIGSTOP);
    eventually("it is stopped", SOON, || state(process) == Some('T'));
}

/// The least of so many tries, of which none is made behind one that is good.
pub(crate) fn least(tries: usize, mut what: impl FnMut() -> f64) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..tries {
        least = least.min(what());
        if least < 0.0 {
            break;
        }
    }
    least
}

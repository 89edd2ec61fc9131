//! Two hosts, each with a loop of `quorlock run`, while commands, its processes and nodes are killed and stopped: the commands'
//! own log shows which ran at once, and a store that looks at tokens which of their writes came too late.
//!
//! One case is documented: where both processes of `quorlock run` are stopped beyond the ttl, none is left to end the
//! command. Every other overlap is a failure, and so is every late write that was taken.

mod log;
mod work;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use self::{log::Log, work::Work};
use super::host::{Host, MS, Running, SECOND};

const TTL: Duration = Duration::from_millis(1500);
/// Longer than any lease, so that a node that comes back empty votes soon.
const MAX_TTL: Duration = Duration::from_secs(2);
/// Longer than a lease lives behind its last renewal.
const BEYOND: Duration = Duration::from_millis(2400);

/// What happens to a run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Fault {
    Nothing,
    TermSupervisor,
    KillCommand,
    StopCommand,
    KillSupervisor,
    KillHolder,
    StopSupervisor,
    StopHolder,
    StopBoth,
}

impl Fault {
    /// A shorter command would have ended by itself before another gets the lock.
    const fn lasts(self) -> Duration {
        match self {
            Self::StopSupervisor | Self::StopHolder | Self::StopBoth => BEYOND,
            _ => Duration::ZERO,
        }
    }
}

const FAULTS: [Fault; 10] = [
    Fault::Nothing,
    Fault::KillSupervisor,
    Fault::StopHolder,
    Fault::KillCommand,
    Fault::StopBoth,
    Fault::TermSupervisor,
    Fault::KillHolder,
    Fault::StopSupervisor,
    Fault::Nothing,
    Fault::StopCommand,
];

/// A run whose command has begun.
#[derive(Clone, Copy, Debug)]
struct Done {
    number: usize,
    fault: Fault,
    code: i32,
}

/// Numbers that are the same in each run of the test.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// How many commands are to begin.
fn wanted() -> usize {
    std::env::var("QUORLOCK_CLI_RUNS").map_or(20, |runs| runs.parse().expect("a number of runs"))
}

#[test]
fn two_hosts_never_run_it_at_once() {
    let host = Host::admitted(5, |builder| builder.max_ttl(MAX_TTL).ttl(TTL));
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let (done, nodes) = std::thread::scope(|scope| {
        let hosts = ["a", "b"].map(|name| {
            let (host, next) = (&host, &next);
            scope.spawn(move || runs_of(host, name, next))
        });
        let nodes = scope.spawn(|| faults_of_nodes(&host, &is_over));
        let done: Vec<Done> = hosts.into_iter().flat_map(|host| host.join().unwrap()).collect();
        is_over.store(true, Relaxed);
        (done, nodes.join().unwrap())
    });
    let stopped: HashSet<usize> = of(&done, Fault::StopBoth).map(|done| done.number).collect();
    let text = host.read("log");
    let log = Log::read(&text);
    let (documented, others): (Vec<_>, Vec<_>) =
        log.overlaps().into_iter().partition(|overlap| stopped.contains(&overlap.before));
    let figures = Figures { done: &done, nodes, log: &log, documented: documented.len() };
    println!("{figures}in {:.1?}", started.elapsed());
    assert_eq!(others, [], "{figures}");
    assert_eq!(log::late_writes(&host.read("store")), [], "{figures}");
    assert_eq!(log.tokens_that_do_not_grow(), [], "{figures}");
    assert!(done.len() >= wanted() && log.runs() >= wanted(), "{figures}");
}

fn of(done: &[Done], fault: Fault) -> impl Iterator<Item = &Done> {
    done.iter().filter(move |done| done.fault == fault)
}

/// The runs of one host, whose command has begun.
fn runs_of(host: &Host, name: &str, next: &AtomicUsize) -> Vec<Done> {
    let mut dice = Dice(name.as_bytes()[0].into());
    let home = host.file(name);
    std::fs::create_dir(&home).unwrap();
    let mut done = Vec::new();
    let mut begun = 0;
    while begun < wanted().div_ceil(2) {
        let number = next.fetch_add(1, Relaxed);
        let fault = FAULTS[(begun + usize::from(name == "b") * FAULTS.len() / 2) % FAULTS.len()];
        let work = Work { number, time: 150 * MS + dice.millis(500) + fault.lasts() };
        let mut command = host.command(["job", "--"]);
        // One in four does not listen to SIGTERM.
        if dice.below(4) == 0 {
            command.args(["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\""]);
        }
        work.put(&mut command, host);
        command.current_dir(&home).env("HOME", &home);
        command.env("QUORLOCK_TTL", "1500ms").env("QUORLOCK_MAX_TTL", "2s");
        command.env("QUORLOCK_LABEL", format!("host-{name}"));
        let mut running = host.start(command);
        while !running.has_ended() && !work.has_begun(host) {
            std::thread::sleep(2 * MS);
        }
        if !work.has_begun(host) {
            // The nodes did not answer, or it was lost before.
            let ended = running.ended();
            assert!([69, 76].contains(&ended.code), "{ended:?}");
            continue;
        }
        strike(&running, fault, dice.millis(200));
        done.push(Done { number, fault, code: running.ended().code });
        begun += 1;
    }
    done
}

/// The fault of a run, and its end where it has one.
fn strike(running: &Running, fault: Fault, after: Duration) {
    let (supervisor, children) = (running.supervisor(), running.supervisor().children());
    let (holders, commands): (Vec<_>, Vec<_>) =
        children.into_iter().partition(|process| process.line().contains("hold-for-run"));
    std::thread::sleep(after);
    let (end, all) = match fault {
        Fault::Nothing => return,
        Fault::TermSupervisor => (Signal::SIGTERM, vec![supervisor]),
        Fault::KillCommand => (Signal::SIGKILL, commands),
        Fault::StopCommand => (Signal::SIGSTOP, commands),
        Fault::KillSupervisor => (Signal::SIGKILL, vec![supervisor]),
        Fault::KillHolder => (Signal::SIGKILL, holders),
        Fault::StopSupervisor => (Signal::SIGSTOP, vec![supervisor]),
        Fault::StopHolder => (Signal::SIGSTOP, holders),
        Fault::StopBoth => (Signal::SIGSTOP, [holders, vec![supervisor]].concat()),
    };
    all.iter().for_each(|process| process.signal(end));
    if end == Signal::SIGSTOP {
        std::thread::sleep(BEYOND);
        all.iter().for_each(|process| process.resume());
    }
}

/// Nodes that are killed and come back empty, one at a time, and majorities that answer nobody for a while: how many of both.
fn faults_of_nodes(host: &Host, is_over: &AtomicBool) -> (usize, usize) {
    let mut dice = Dice(7);
    let (mut killed, mut silent) = (0, 0);
    while !is_over.load(Relaxed) {
        std::thread::sleep(SECOND + dice.millis(2000));
        let first = dice.below(5) as usize;
        if dice.below(4) == 0 {
            let most = [first, (first + 1) % 5, (first + 2) % 5];
            most.iter().for_each(|node| host.fleet[*node].pause());
            std::thread::sleep(BEYOND);
            most.iter().for_each(|node| host.fleet[*node].resume());
            silent += 1;
        } else {
            host.fleet[first].kill();
            std::thread::sleep(dice.millis(1000));
            host.fleet[first].restart();
            killed += 1;
        }
    }
    (killed, silent)
}

struct Figures<'a> {
    done: &'a [Done],
    nodes: (usize, usize),
    log: &'a Log,
    documented: usize,
}

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in FAULTS.into_iter().enumerate() {
            if FAULTS[..index].contains(&fault) {
                continue;
            }
            let mut statuses = BTreeMap::<i32, usize>::new();
            for done in of(self.done, fault) {
                *statuses.entry(done.code).or_default() += 1;
            }
            writeln!(f, "{fault:?}: {statuses:?} (status: runs)")?;
        }
        let (killed, silent) = self.nodes;
        writeln!(f, "nodes killed: {killed}; majorities silent for {BEYOND:?}: {silent}")?;
        writeln!(
            f,
            "{} runs in the log, {} lines, {} overlaps that are documented, {} late writes refused",
            self.log.runs(),
            self.log.lines(),
            self.documented,
            self.log.refused(),
        )
    }
}

#[test]
fn commands_without_a_lock_are_found_out() {
    let host = Host::with(1);
    let mut all: Vec<_> = [(0, 7), (1, 8)]
        .into_iter()
        .map(|(number, token)| {
            let work = Work { number, time: 300 * MS };
            let mut command = std::process::Command::new("env");
            work.put(&mut command, &host);
            command.env("QUORLOCK_TOKEN", token.to_string());
            (work, host.start(command))
        })
        .collect();
    for (_, running) in all.drain(..) {
        assert_eq!(running.ended().code, 0);
    }
    let log = host.read("log");
    let overlaps = Log::read(&log).overlaps();
    assert_eq!(overlaps.len(), 1, "{log}");
    // The store does what it is for.
    assert_eq!(log::late_writes(&host.read("store")), []);
}

#[test]
fn without_a_store_that_looks_at_tokens_late_writes_are_found() {
    // As a store takes them that compares nothing.
    let store = "0 7\n0 7\n1 9\n0 7\n1 9\n";
    assert_eq!(log::late_writes(store), [(7, 9)]);
}

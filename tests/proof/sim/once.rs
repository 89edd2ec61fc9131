//! Work that is done once in a period, in the same worlds: ten hosts whose wall clocks are up to five seconds apart, each
//! with a timer, and a minority of the servers that is killed, emptied, stopped or lossy at any time.
//!
//! Goal: no period has its work done twice, and none is missed. Method: each host writes down what it did for which period;
//! servers that forget what is done, and hosts that do not ask, are planted.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{Once, Redlock, node::NodeSpec, runtime::Runtime};
use quorlock_harness::{SimRuntime, evidence::Evidence};

use crate::{
    MS, SECOND,
    machine::{BEGINNING, Machine},
    node::{Bug, SimServer, Watch},
    reached::Reached,
    seeds::number,
    setup::Setup,
    world,
};

const HOSTS: usize = 10;
/// Of the periods.
const EVERY: Duration = Duration::from_secs(30);
/// By so much the wall clock of a host is wrong at most, to either side.
const OFF: Duration = Duration::from_millis(2_500);
const JOB: Duration = Duration::from_millis(10);
/// So many periods a seed has.
const PERIODS: u64 = 50;

/// What is wrong with the hosts, on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// They take a lease, and do not ask whether the work is done.
    DoNotAsk,
    /// They never say that it is.
    DoNotSay,
}

/// Work that was done.
#[derive(Clone, Debug)]
struct Ran {
    host: usize,
    period: u64,
    /// Whether a quorum has taken that it is done.
    said: bool,
}

/// What a run came to.
#[derive(Default)]
struct Outcome {
    ran: Vec<Ran>,
    faults: usize,
}

impl Outcome {
    /// The periods that were missed, and those whose work was done again behind somebody who had said so.
    fn wrong(&self, periods: std::ops::Range<u64>) -> Vec<String> {
        let mut by_period: BTreeMap<u64, Vec<&Ran>> = BTreeMap::new();
        for ran in &self.ran {
            by_period.entry(ran.period).or_default().push(ran);
        }
        let of = |period| by_period.get(&period).map_or(&[][..], Vec::as_slice);
        periods
            .filter_map(|period| match of(period) {
                [] => Some(format!("period {period} was missed")),
                [before @ .., _] if before.iter().any(|ran| ran.said) => {
                    Some(format!("period {period} was done by {:?}", of(period)))
                }
                _ => None,
            })
            .collect()
    }
}

/// A host, whose timer fires at each multiple of the period by its own clock.
struct Host {
    number: usize,
    machine: Machine,
    redlock: Redlock,
    flaw: Flaw,
    outcome: Arc<Mutex<Outcome>>,
}

impl Host {
    async fn live(self, periods: std::ops::Range<u64>) {
        let length = u64::try_from(EVERY.as_micros()).unwrap();
        for period in periods {
            loop {
                let left = (period * length).saturating_sub(self.machine.wall_us());
                if left == 0 {
                    break;
                }
                let at = self.machine.now().saturating_add(Duration::from_micros(left));
                self.machine.sleep_until(at).await;
            }
            // It tries again where the nodes do not answer.
            for _ in 0..5 {
                if self.work(period).await {
                    break;
                }
                let at = self.machine.now().saturating_add(300 * MS);
                self.machine.sleep_until(at).await;
            }
        }
    }

    /// It has other locks too, as services do: so it sees which servers vote.
    async fn others(machine: Machine, redlock: Redlock, number: usize) {
        loop {
            drop(redlock.try_acquire(format!("other {number}")).await);
            machine.sleep_until(machine.now().saturating_add(500 * MS)).await;
        }
    }

    /// Whether it is done, by whomever.
    async fn work(&self, period: u64) -> bool {
        let request = || self.redlock.acquire("job").min_validity(100 * MS).wait(2 * SECOND);
        if self.flaw == Flaw::DoNotAsk {
            let Ok(lease) = request().await else { return false };
            self.job().await;
            self.note(period, true);
            drop(lease.release().await);
            return true;
        }
        let lease = match request().once_per(EVERY).await {
            Ok(Once::Due(lease)) => lease,
            Ok(_) => return true,
            Err(_) => return false,
        };
        self.job().await;
        let said = self.flaw == Flaw::DoNotSay || lease.done().await.is_ok();
        self.note(period, said);
        drop(lease.release().await);
        true
    }

    async fn job(&self) {
        self.machine.sleep_until(self.machine.now().saturating_add(JOB)).await;
    }

    fn note(&self, period: u64, said: bool) {
        let host = self.number;
        self.outcome.lock().unwrap().ran.push(Ran { host, period, said });
    }
}

/// One fault of a minority after another, each mended before the next.
fn torment(runtime: &SimRuntime, servers: &[SimServer], running: &AtomicUsize) -> usize {
    let pass = |most: u64| runtime.pass(Duration::from_micros(1 + runtime.below(1_000 * most)));
    let mut faults = 0;
    while running.load(Ordering::Relaxed) > 0 {
        let first = usize::try_from(runtime.below(servers.len() as u64)).unwrap();
        let minority = (servers.len() - 1) / 2;
        let victims = || (0..minority).map(|at| &servers[(first + at) % servers.len()]);
        let fault = runtime.below(5);
        for server in victims() {
            match fault {
                0 => server.kill(),
                1 => server.flush(false),
                2 => server.pause(),
                3 => server.set_network(0.4, 40 * MS),
                _ => server.links().iter().for_each(|link| link.set_loses_replies(true)),
            }
        }
        pass(3_000);
        for server in victims() {
            match fault {
                0 => server.restart(),
                2 => server.resume(),
                3 => server.set_network(0.0, MS),
                4 => server.links().iter().for_each(|link| link.mend()),
                _ => {}
            }
        }
        faults += 1;
        // It votes again before the next one.
        while servers.iter().any(SimServer::is_joining) {
            pass(200);
        }
        pass(2_000);
    }
    faults
}

fn run(seed: u64, setup: Setup, flaw: Flaw) -> (Outcome, Vec<String>) {
    let runtime = SimRuntime::with_trace(seed, false);
    let nodes = if runtime.chance(0.5) { 3 } else { 5 };
    let servers = world::servers(&runtime, nodes, setup, &Watch::new(Reached::default()));
    let (outcome, running) = (Arc::<Mutex<Outcome>>::default(), Arc::new(AtomicUsize::new(HOSTS)));
    // The first period whose beginning nobody's clock has seen.
    let begun = BEGINNING + runtime.now().since_origin() + 10 * SECOND;
    let first = begun.as_secs().div_ceil(EVERY.as_secs());
    let periods = first..first + PERIODS;
    for number in 0..HOSTS {
        let most = i128::try_from(OFF.as_nanos()).unwrap();
        let off = i128::from(runtime.below(u64::try_from(2 * most).unwrap())) - most;
        let machine = Machine::new(&runtime, 0, off);
        let specs = servers.iter().map(|server| NodeSpec::new(Arc::new(server.connection())));
        let builder = Redlock::builder().nodes(specs).ttl(SECOND).max_ttl(setup.longest_ttl);
        let builder = builder.node_timeout(50 * MS).runtime(machine.clone());
        let redlock = machine.build(|| builder.build().unwrap());
        let host = Host { number, machine, redlock, flaw, outcome: Arc::clone(&outcome) };
        let (machine, periods, running) =
            (host.machine.clone(), periods.clone(), Arc::clone(&running));
        if number < 2 {
            let others = Host::others(machine.clone(), host.redlock.clone(), number);
            machine.spawn(Box::pin(others));
        }
        machine.spawn(Box::pin(async move {
            host.live(periods).await;
            running.fetch_sub(1, Ordering::Relaxed);
        }));
    }
    let faults = torment(&runtime, &servers, &running);
    let mut outcome = std::mem::take(&mut *outcome.lock().unwrap());
    outcome.faults = faults;
    let wrong = outcome.wrong(periods);
    runtime.shut_down();
    (outcome, wrong)
}

const SETUP: Setup = Setup { name: "once per period", longest_ttl: SECOND, ..Setup::SOUND };

/// A share of those of the other setups.
fn seeds() -> u64 {
    number("QUORLOCK_SIM_SEEDS").map_or(4, |seeds| seeds.div_ceil(1_000))
}

#[test]
fn no_period_has_its_work_done_twice_and_none_is_missed() {
    let from = number("QUORLOCK_SIM_SEED").or_else(|| number("QUORLOCK_SIM_FROM")).unwrap_or(0);
    let count = number("QUORLOCK_SIM_SEED").map_or_else(seeds, |_| 1);
    let (mut ran, mut faults, mut hosts, begun) = (0, 0, [0; HOSTS], Instant::now());
    let mut failed = Vec::new();
    for seed in from..from + count {
        let (outcome, wrong) = run(seed, SETUP, Flaw::None);
        ran += outcome.ran.len();
        faults += outcome.faults;
        outcome.ran.iter().for_each(|ran| hosts[ran.host] += 1);
        failed.extend(wrong.into_iter().map(|wrong| format!("seed {seed}: {wrong}")));
    }
    Evidence::new("sim", "simulation of work once per period", SETUP.name)
        .count("seeds", count)
        .count("violations", failed.len())
        .count("periods", count * PERIODS)
        .count("done", ran)
        .count("faults", faults)
        .seconds(begun.elapsed())
        .tell();
    assert!(failed.is_empty(), "{} wrong:\n{}", failed.len(), failed.join("\n"));
    assert!(faults as u64 > count * PERIODS, "only {faults} faults");
    assert!(hosts.iter().filter(|ran| **ran > 0).count() > 1, "one host did all: {hosts:?}");
}

#[test]
fn hosts_that_do_not_ask_or_do_not_say_are_seen() {
    for flaw in [Flaw::DoNotAsk, Flaw::DoNotSay] {
        let (_, wrong) = run(0, SETUP, flaw);
        assert!(wrong.len() as u64 > PERIODS / 2, "{flaw:?}: {wrong:?}");
    }
}

#[test]
fn servers_that_forget_what_is_done_are_seen() {
    let setup = Setup { bug: Bug::ForgetsDone, bugged: 5, ..SETUP };
    let (_, wrong) = run(0, setup, Flaw::None);
    assert!(!wrong.is_empty());
}

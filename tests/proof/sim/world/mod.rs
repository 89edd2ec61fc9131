//! One run: servers, clients and a nemesis, all drawn from one seed, and the judgement at the end.
//!
//! Two phases: safety while faults happen; then everything is healed, and every resource can be acquired,
//! every client can be closed, and no key is left, long before a ttl could have removed it.

mod account;
mod client;
mod holds;
mod judge;
mod process;
mod record;
mod torment;

use std::sync::{Arc, Mutex};

use quorlock::Redlock;
use quorlock_harness::SimRuntime;

use self::{client::REQUESTS, process::Clients};
pub(crate) use self::{
    process::Processes,
    record::{Notes, Promises},
};
use crate::{
    invariants::{Hold, Violation, store::Write},
    machine::Machine,
    node::{Bug, SimServer, Watch},
    reached::{Reached, S29, SCENARIOS},
    setup::Setup,
};

/// What a run came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Result<(), Violation>,
    pub(crate) grants: usize,
    pub(crate) failures: usize,
    pub(crate) cancelled: usize,
    /// Leases that were lost while they were held.
    pub(crate) lost: usize,
    /// Those of them behind which others were kept out.
    pub(crate) kept_out: usize,
    pub(crate) promises: Promises,
    pub(crate) faults: usize,
    /// It was not asked that everything can be had in the end.
    pub(crate) excused: bool,
    pub(crate) killed: usize,
    pub(crate) reached: [u32; SCENARIOS],
    pub(crate) trace: (Vec<String>, u64),
}

/// What the nemesis knows.
pub(crate) struct World {
    pub(crate) servers: Vec<SimServer>,
    pub(crate) notes: Notes,
    /// By client: the machine that it is on now.
    pub(crate) machines: Arc<Mutex<Vec<Machine>>>,
    pub(crate) processes: Arc<dyn Processes>,
}

impl World {
    fn machine(&self, client: usize) -> Machine {
        self.machines.lock().unwrap()[client].clone()
    }

    /// A client begins, on a machine of its own.
    pub(crate) fn begin(&self, client: usize) {
        self.processes.begin(client);
    }

    fn kill(&self, client: usize) {
        self.machine(client).end();
        self.processes.has_ended(client);
    }
}

/// Runs one seed to its end.
pub(crate) fn run(seed: u64, setup: Setup) -> Outcome {
    run_with(SimRuntime::with_trace(seed, false), setup)
}

/// The same, with the lines of its trace.
pub(crate) fn trace(seed: u64, setup: Setup) -> Outcome {
    run_with(SimRuntime::with_trace(seed, true), setup)
}

/// What happened in a run, whatever is to be said of it.
pub(crate) fn history(seed: u64, setup: Setup) -> (Vec<Hold>, Vec<Write>) {
    let runtime = SimRuntime::with_trace(seed, false);
    let notes = Notes::new(runtime.clone(), Reached::default());
    run_noting(&runtime, setup, &notes);
    let record = notes.record();
    (record.history.clone(), record.writes.clone())
}

fn run_with(runtime: SimRuntime, setup: Setup) -> Outcome {
    let notes = Notes::new(runtime.clone(), Reached::default());
    run_noting(&runtime, setup, &notes)
}

fn run_noting(runtime: &SimRuntime, setup: Setup, notes: &Notes) -> Outcome {
    let reached = notes.reached.clone();
    let watch = Watch::new(reached.clone());
    let nodes = if runtime.chance(0.5) { 3 } else { 5 };
    let clients = 2 + usize::try_from(runtime.below(3)).unwrap();
    let clients = if setup.varied { 2 } else { clients };
    let fleets = if setup.apart { clients } else { 1 };
    let servers = servers(runtime, nodes * fleets, setup, &watch);
    notes.expect(clients, REQUESTS);
    let processes = Clients::new(&servers, nodes, setup, notes);
    let machines = processes.machines();
    let world = World { servers, notes: notes.clone(), machines, processes: processes.clone() };
    (0..clients).for_each(|client| world.begin(client));
    world.torment(setup, nodes);
    let redlocks: Vec<Redlock> = processes.redlocks();
    let verdict = world.judge(setup, &redlocks);
    let record = notes.record();
    for owner in watch.split() {
        let owner = owner.to_string();
        reached.hit_if(record.history.iter().all(|hold| hold.owner != owner), S29);
    }
    let outcome = Outcome {
        verdict,
        grants: record.history.len(),
        failures: record.failures,
        cancelled: record.cancelled,
        lost: record.lost,
        kept_out: record.history.iter().filter(|hold| hold.kept_out.is_some()).count(),
        promises: record.promises,
        faults: record.faults,
        excused: record.excused,
        killed: record.killed,
        reached: reached.counts(),
        trace: runtime.trace(),
    };
    drop(record);
    runtime.shut_down();
    outcome
}

/// Servers whose clocks have rates of their own, some of them with a bug.
pub(crate) fn servers(
    runtime: &SimRuntime,
    count: usize,
    setup: Setup,
    watch: &Watch,
) -> Vec<SimServer> {
    let server = |index| {
        // Within the drift allowance of 10 per mille where that is not what is broken.
        let rate = rate(runtime, setup.rates.1);
        let bug = if index < setup.bugged { setup.bug } else { Bug::None };
        SimServer::new(index, runtime.clone(), rate, bug, watch.clone())
    };
    (0..count).map(server).collect()
}

/// So many thousandths fast or slow at the most.
fn rate(runtime: &SimRuntime, most: i64) -> i64 {
    i64::try_from(runtime.below(u64::try_from(2 * most + 1).unwrap())).unwrap() - most
}

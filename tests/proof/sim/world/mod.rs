//! One run: servers, clients and a nemesis, all drawn from one seed, and the judgement at the end.
//!
//! Two phases: safety while faults happen; then everything is healed, and every resource can be acquired,
//! every client can be closed, and no key is left, long before a ttl could have removed it.

mod client;
mod judge;
mod torment;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{Redlock, node::NodeSpec, runtime::Runtime};
use quorlock_harness::SimRuntime;

use self::client::{REQUESTS, live};
use crate::{
    MS,
    invariants::{Hold, Violation},
    node::{Bug, SimServer},
    setup::{Mode, Setup},
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
    pub(crate) faults: usize,
    pub(crate) trace: (Vec<String>, u64),
}

#[derive(Default)]
pub(crate) struct Record {
    history: Vec<Hold>,
    failures: usize,
    cancelled: usize,
    lost: usize,
    faults: usize,
    pub(crate) clients_running: usize,
}

pub(crate) struct World {
    pub(crate) runtime: SimRuntime,
    pub(crate) servers: Vec<SimServer>,
    pub(crate) record: Arc<Mutex<Record>>,
}

/// Runs one seed to its end.
pub(crate) fn run(seed: u64, setup: Setup) -> Outcome {
    let runtime = SimRuntime::new(seed);
    let nodes = if runtime.chance(0.5) { 3 } else { 5 };
    let clients = 2 + usize::try_from(runtime.below(3)).unwrap();
    let fleets = if setup.apart { clients } else { 1 };
    let servers: Vec<SimServer> = (0..nodes * fleets)
        .map(|index| {
            // Within the drift allowance of 10 per mille, and so no violation of an assumption.
            let rate = i64::try_from(runtime.below(9)).unwrap() - 4;
            let bug = if index < setup.bugged { setup.bug } else { Bug::None };
            SimServer::new(index, runtime.clone(), rate, bug)
        })
        .collect();
    let connect = {
        let (servers, runtime) = (servers.clone(), runtime.clone());
        move |client: usize| {
            let fleet = if setup.apart { client * nodes } else { 0 };
            let nodes = servers[fleet..fleet + nodes].iter();
            let builder = Redlock::builder();
            let builder = match setup.mode {
                Mode::Fenced => builder,
                Mode::Skip => builder.danger_skip_quarantine(),
                Mode::Classic => builder.classic(),
            };
            builder
                .nodes(nodes.map(|server| NodeSpec::new(Arc::new(server.connection()))))
                .ttl(setup.longest_ttl)
                .max_ttl(setup.longest_ttl + setup.lock_delay)
                .lock_delay(setup.lock_delay)
                .node_timeout(20 * MS)
                .close_timeout(Duration::from_secs(3600))
                .runtime(Arc::new(runtime.clone()))
                .build()
                .unwrap()
        }
    };
    // Where lives are short there is nobody from the beginning to the end.
    let lasting = if setup.short_lives { 0 } else { clients };
    let mut redlocks: Vec<Redlock> = (0..lasting).map(&connect).collect();
    let record = Arc::new(Mutex::new(Record { clients_running: clients, ..Record::default() }));
    let world = World { runtime, servers, record };
    for client in 0..clients {
        let (runtime, record) = (world.runtime.clone(), Arc::clone(&world.record));
        let (redlock, connect) = (redlocks.get(client).cloned(), connect.clone());
        world.runtime.spawn(Box::pin(async move {
            let lives = if redlock.is_some() { 1 } else { 5 };
            for _ in 0..lives {
                let redlock = redlock.clone().unwrap_or_else(|| connect(client));
                live(client, setup, REQUESTS / lives, &redlock, &runtime, &record).await;
                if setup.short_lives {
                    drop(redlock.close().await);
                    runtime.note(format_args!("client {client} has ended"));
                }
            }
            record.lock().unwrap().clients_running -= 1;
        }));
    }
    world.torment(setup, nodes);
    redlocks.extend((lasting..clients).map(connect));
    let verdict = world.judge(setup, &redlocks);
    let record = world.record.lock().unwrap();
    let outcome = Outcome {
        verdict,
        grants: record.history.len(),
        failures: record.failures,
        cancelled: record.cancelled,
        lost: record.lost,
        kept_out: record.history.iter().filter(|hold| hold.kept_out.is_some()).count(),
        faults: record.faults,
        trace: world.runtime.trace(),
    };
    world.runtime.shut_down();
    outcome
}

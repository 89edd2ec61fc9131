//! One run: servers, clients and a nemesis, all drawn from one seed, and the judgement at the end.
//!
//! Two phases: safety while faults happen; then everything is healed, and every resource can be acquired,
//! every client can be closed, and no key is left, long before a ttl could have removed it.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{AcquireError, Redlock, node::NodeSpec, protocol::Timestamp, runtime::Runtime};

use crate::{
    checker::{self, Hold, Violation},
    node::{Bug, SimServer},
    runtime::SimRuntime,
};

const MS: Duration = Duration::from_millis(1);

/// The longest ttl that a client asks for. A killed server comes back empty after more than that.
const LONGEST_TTL: Duration = Duration::from_secs(20);

/// What a run is made of, beside its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) bug: Bug,
    /// How many of the servers have the bug.
    pub(crate) bugged: usize,
    /// Every client has servers of its own: a mistake in the configuration.
    pub(crate) apart: bool,
    /// A killed server comes back at once, and has forgotten its votes.
    pub(crate) quick_restart: bool,
}

impl Setup {
    pub(crate) const SOUND: Self =
        Self { bug: Bug::None, bugged: 0, apart: false, quick_restart: false };
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Result<(), Violation>,
    pub(crate) grants: usize,
    pub(crate) failures: usize,
    pub(crate) cancelled: usize,
    pub(crate) faults: usize,
    pub(crate) trace: (Vec<String>, u64),
}

#[derive(Default)]
struct Record {
    history: Vec<Hold>,
    failures: usize,
    cancelled: usize,
    faults: usize,
    clients_running: usize,
}

struct World {
    runtime: SimRuntime,
    servers: Vec<SimServer>,
    record: Arc<Mutex<Record>>,
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
    let redlocks: Vec<Redlock> = (0..clients)
        .map(|client| {
            let fleet = if setup.apart { client * nodes } else { 0 };
            let nodes = servers[fleet..fleet + nodes].iter();
            Redlock::builder()
                .nodes(nodes.map(|server| NodeSpec::new(Arc::new(server.connection()))))
                .node_timeout(20 * MS)
                .close_timeout(Duration::from_secs(3600))
                .runtime(Arc::new(runtime.clone()))
                .build()
                .unwrap()
        })
        .collect();
    let record = Arc::new(Mutex::new(Record { clients_running: clients, ..Record::default() }));
    let world = World { runtime, servers, record };
    for (client, redlock) in redlocks.iter().enumerate() {
        let (runtime, record) = (world.runtime.clone(), Arc::clone(&world.record));
        let redlock = redlock.clone();
        world.runtime.spawn(Box::pin(async move {
            live(client, &redlock, &runtime, &record).await;
            record.lock().unwrap().clients_running -= 1;
        }));
    }
    world.torment(setup, nodes);
    let verdict = world.judge(&redlocks);
    let record = world.record.lock().unwrap();
    let outcome = Outcome {
        verdict,
        grants: record.history.len(),
        failures: record.failures,
        cancelled: record.cancelled,
        faults: record.faults,
        trace: world.runtime.trace(),
    };
    world.runtime.shut_down();
    outcome
}

/// One client: it acquires, holds, gives up, drops and releases at random.
async fn live(client: usize, redlock: &Redlock, runtime: &SimRuntime, record: &Mutex<Record>) {
    let ttls = [100 * MS, Duration::from_secs(1), LONGEST_TTL];
    for _ in 0..15 {
        runtime.sleep(Duration::from_micros(runtime.below(20_000))).await;
        let resource = ["a", "b"][usize::try_from(runtime.below(2)).unwrap()];
        let ttl = ttls[usize::try_from(runtime.below(3)).unwrap()];
        let request = redlock.acquire(resource).ttl(ttl).wait(runtime.below(300) as u32 * MS);
        let answer = if runtime.chance(0.2) {
            let patience = runtime.sleep(Duration::from_micros(runtime.below(10_000)));
            match select(request.into_future(), patience).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => {
                    runtime.note(format_args!("client {client} gives up on {resource}"));
                    record.lock().unwrap().cancelled += 1;
                    continue;
                }
            }
        } else {
            request.await
        };
        let lease = match answer {
            Ok(lease) => lease,
            Err(error) => {
                runtime.note(format_args!("client {client} fails on {resource}: {error}"));
                assert!(!matches!(error, AcquireError::RuntimeEnded | AcquireError::Closed));
                record.lock().unwrap().failures += 1;
                continue;
            }
        };
        let from = runtime.now();
        let relied_on = from.saturating_add(lease.validity());
        let owner = lease.owner().to_string();
        runtime.note(format_args!("client {client} holds {resource} as {owner}"));
        // Most hold it for a moment, and some for longer than it lasts.
        let longest = if runtime.chance(0.1) { 2 * ttl } else { ttl.min(30 * MS) };
        runtime.sleep(Duration::from_micros(runtime.below(longest.as_micros() as u64))).await;
        let until = relied_on.min(runtime.now());
        record.lock().unwrap().history.push(Hold {
            client,
            resource: resource.to_owned(),
            owner,
            from,
            until,
        });
        let released = match runtime.below(3) {
            0 => {
                drop(lease);
                Ok(())
            }
            1 => {
                drop(lease.release());
                Ok(())
            }
            _ => lease.release().await,
        };
        runtime.note(format_args!("client {client} lets go of {resource}: {released:?}"));
    }
}

impl World {
    /// Faults, one after another, until the clients have done their work. At most a minority is killed at a
    /// time, because that lasts long, and nobody would hold anything meanwhile; any number is stopped.
    fn torment(&self, setup: Setup, nodes: usize) {
        let mut back: Vec<(Timestamp, usize, bool)> = Vec::new();
        while self.record.lock().unwrap().clients_running > 0 {
            let runtime = &self.runtime;
            runtime.pass(Duration::from_micros(1 + runtime.below(40_000)));
            let now = runtime.now();
            back.retain(|(at, server, was_killed)| {
                if now < *at {
                    return true;
                }
                let server = &self.servers[*server];
                if *was_killed {
                    server.restart()
                } else {
                    server.resume()
                }
                false
            });
            let index = usize::try_from(runtime.below(self.servers.len() as u64)).unwrap();
            let server = &self.servers[index];
            let is_up = back.iter().all(|(_, other, _)| *other != index);
            let killed = back.iter().filter(|(_, _, was_killed)| *was_killed).count();
            let fault = match runtime.below(12) {
                0 if is_up && killed < (nodes - 1) / 2 => {
                    server.kill();
                    let wait = if setup.quick_restart { MS } else { LONGEST_TTL * 11 / 10 };
                    back.push((now.saturating_add(wait), index, true));
                    "is killed"
                }
                1 | 2 if is_up => {
                    server.pause();
                    let wait = runtime.below(200) as u32 * MS;
                    back.push((now.saturating_add(wait), index, false));
                    "is stopped"
                }
                3 => {
                    server.set_network(0.3, MS);
                    "loses messages"
                }
                4 => {
                    server.set_network(0.05, 40 * MS);
                    "is slow"
                }
                _ => {
                    server.set_network(0.0, MS);
                    continue;
                }
            };
            runtime.note(format_args!("server {index} {fault}"));
            self.record.lock().unwrap().faults += 1;
        }
        for (_, server, was_killed) in back {
            let server = &self.servers[server];
            if was_killed { server.restart() } else { server.resume() }
        }
        self.servers.iter().for_each(|server| server.set_network(0.0, MS));
        self.runtime.note("healed");
        // What is still under way on slow connections arrives, in order, before anything new.
        self.runtime.pass(Duration::from_secs(1));
    }

    fn judge(&self, redlocks: &[Redlock]) -> Result<(), Violation> {
        checker::check(&self.record.lock().unwrap().history)?;
        // What was left behind is being released: nobody has to wait for a ttl.
        for resource in ["a", "b"] {
            let request = redlocks[0].acquire(resource).wait(Duration::from_secs(2));
            let answer = self.runtime.block_on(request.into_future());
            let resource = resource.to_owned();
            drop(answer.map_err(|e| Violation::NotLive { resource, error: e.to_string() })?);
        }
        for (client, redlock) in redlocks.iter().enumerate() {
            let redlock = redlock.clone();
            let closed = self.runtime.block_on(async move { redlock.close().await });
            closed.map_err(|e| Violation::NotClosed { client, unfinished: e.unfinished })?;
        }
        for (server, keys) in self.servers.iter().map(SimServer::keys).enumerate() {
            if !keys.is_empty() {
                let keys = keys.iter().map(|key| key.escape_ascii().to_string()).collect();
                return Err(Violation::LeftBehind { server, keys });
            }
        }
        Ok(())
    }
}

//! One run: servers, clients and a nemesis, all drawn from one seed, and the judgement at the end.
//!
//! Two phases: safety while faults happen; then everything is healed, and every resource can be acquired,
//! every client can be closed, and no key is left, long before a ttl could have removed it.

use std::{
    future::IntoFuture,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    AcquireError, CloseError, ExtendError, Lease, LeaseLost, LossReason, Permit, ReadLease,
    Redlock, Release,
    node::NodeSpec,
    protocol::{Drift, FencingToken, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use crate::{
    checker::{self, Hold, Violation},
    node::{Bug, SimServer},
};

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

/// How the clients lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// With fencing tokens and quarantine: the default.
    Fenced,
    /// With fencing tokens, and servers that restarted vote at once.
    Skip,
    /// Plain Redlock.
    Classic,
}

/// What a run is made of, beside its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) bug: Bug,
    /// How many of the servers have the bug.
    pub(crate) bugged: usize,
    /// Every client has servers of its own: a mistake in the configuration.
    pub(crate) apart: bool,
    pub(crate) mode: Mode,
    /// The longest ttl that a client asks for.
    pub(crate) longest_ttl: Duration,
    /// For how long a loss keeps others out.
    pub(crate) lock_delay: Duration,
    /// A client releases what it has lost, and says that it has dropped it.
    pub(crate) releases_lost: bool,
    /// How long a killed server stays away before it comes back empty.
    pub(crate) away: Duration,
    /// In each period of this length only a minority is killed, because nobody would hold anything meanwhile...
    pub(crate) spared: Duration,
    /// ...but for this share of the kills.
    pub(crate) reckless: f64,
    /// A client is another process every few requests, and none of them lives as long as a quarantine.
    pub(crate) short_lives: bool,
    /// Clients want one, two or three resources at once, which overlap.
    pub(crate) sets: bool,
    /// Most of them only read.
    pub(crate) readers: bool,
    /// Clients want permits, of so many; none says that they want leases.
    pub(crate) permits: Option<usize>,
}

impl Setup {
    /// Leases that live long beside everything else, and servers that come back at once with nothing.
    pub(crate) const SOUND: Self = Self {
        bug: Bug::None,
        bugged: 0,
        apart: false,
        mode: Mode::Fenced,
        longest_ttl: Duration::from_secs(20),
        lock_delay: Duration::ZERO,
        releases_lost: false,
        away: MS,
        // Every client counts the quarantine of 22 s from when it first met the server, which may be late.
        spared: Duration::from_secs(60),
        reckless: 0.0,
        short_lives: false,
        sets: false,
        readers: false,
        permits: None,
    };

    /// Fewer permits than clients, where quarantines follow each other.
    pub(crate) const PERMITS: Self = Self { permits: Some(2), ..Self::BUSY };

    /// Several resources at once, where quarantines follow each other.
    pub(crate) const SETS: Self = Self { sets: true, ..Self::BUSY };

    /// Readers beside writers, where quarantines follow each other.
    pub(crate) const READERS: Self = Self { readers: true, ..Self::BUSY };

    /// Processes that come and go, and wait out quarantines together.
    pub(crate) const SHORT_LIVED: Self =
        Self { short_lives: true, longest_ttl: Duration::from_secs(2), ..Self::BUSY };

    /// Short leases, so that one quarantine follows another, and now and then a majority forgets.
    pub(crate) const BUSY: Self = Self {
        longest_ttl: SECOND,
        spared: Duration::from_millis(1_500),
        reckless: 0.1,
        ..Self::SOUND
    };

    /// Losses keep others out, where nobody says that nothing is on its way.
    pub(crate) const DELAYED: Self = Self {
        longest_ttl: Duration::from_secs(2),
        lock_delay: Duration::from_secs(3),
        ..Self::SOUND
    };

    /// Plain Redlock, in which a killed server has to stay away for longer than the longest ttl.
    pub(crate) const CLASSIC: Self = Self {
        mode: Mode::Classic,
        away: Duration::from_secs(22),
        spared: Duration::from_secs(22),
        ..Self::SOUND
    };
}

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

/// What a client holds.
enum Holds {
    Alone(Lease),
    Shared(ReadLease),
}

impl Holds {
    fn owner(&self) -> String {
        match self {
            Self::Alone(lease) => lease.owner().to_string(),
            Self::Shared(lease) => lease.owner().to_string(),
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Self::Alone(lease) => lease.token().ok().map(FencingToken::get),
            Self::Shared(lease) => Some(lease.token().get()),
        }
    }

    async fn lost(&self) -> LeaseLost {
        match self {
            Self::Alone(lease) => lease.lost().await,
            Self::Shared(lease) => lease.lost().await,
        }
    }

    async fn extend(&self) -> Result<Duration, ExtendError> {
        match self {
            Self::Alone(lease) => lease.extend().await,
            Self::Shared(lease) => lease.extend().await,
        }
    }

    fn release(self) -> Release {
        match self {
            Self::Alone(lease) => lease.release(),
            Self::Shared(lease) => lease.release(),
        }
    }
}

/// So often a client asks for something.
const REQUESTS: usize = 15;

/// One client: it acquires, holds, extends, gives up, drops and releases at random.
async fn live(
    client: usize,
    setup: Setup,
    requests: usize,
    redlock: &Redlock,
    runtime: &SimRuntime,
    record: &Mutex<Record>,
) {
    let ttls = [100 * MS, 300 * MS, SECOND, setup.longest_ttl];
    for _ in 0..requests {
        runtime.sleep(Duration::from_micros(runtime.below(20_000))).await;
        let resources = wanted(setup, runtime);
        let resource = resources.join(" ");
        let ttl = ttls[usize::try_from(runtime.below(4)).unwrap()];
        let reads = setup.readers && runtime.chance(0.7);
        macro_rules! settle {
            ($request:expr) => {{
                let request = $request.ttl(ttl).wait(runtime.below(300) as u32 * MS);
                if runtime.chance(0.3) { request.without_renewal() } else { request }
            }};
        }
        let request: Pin<Box<dyn Future<Output = Result<Holds, AcquireError>> + Send>> =
            match &*resources {
                _ if setup.permits.is_some() => {
                    let permits = setup.permits.unwrap();
                    let semaphore = redlock.semaphore("s", permits).unwrap();
                    let request = settle!(semaphore.acquire()).into_future();
                    Box::pin(async { request.await.map(Permit::into_lease).map(Holds::Alone) })
                }
                [one] if reads => {
                    let request = settle!(redlock.read(one)).into_future();
                    Box::pin(async { request.await.map(Holds::Shared) })
                }
                [one] => {
                    let request = settle!(redlock.acquire(one)).into_future();
                    Box::pin(async { request.await.map(Holds::Alone) })
                }
                all => {
                    let request = settle!(redlock.acquire_all(all)).into_future();
                    Box::pin(async { request.await.map(Holds::Alone) })
                }
            };
        let asked = runtime.now();
        let answer = if runtime.chance(0.2) {
            let limit = runtime.sleep(Duration::from_micros(runtime.below(10_000)));
            match select(request, limit).await {
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
        let mut from = runtime.now();
        let resources = match &lease {
            // Of two slots.
            Holds::Alone(lease) if setup.permits.is_some() => {
                vec![if lease.resource().as_bytes() == b"s/0" { "s/0" } else { "s/1" }]
            }
            _ => resources,
        };
        let (mut owner, token) = (lease.owner(), lease.token());
        assert_eq!(token.is_some(), setup.mode != Mode::Classic);
        runtime.note(format_args!("client {client} holds {resource} as {owner}, token {token:?}"));
        // Most hold it for a moment, and some for longer than it lasts without a renewal.
        let longest = if runtime.chance(0.1) { 2 * ttl } else { ttl.min(30 * MS) };
        let work = runtime.sleep(Duration::from_micros(runtime.below(longest.as_micros() as u64)));
        let lost = match select(pin!(lease.lost()), work).await {
            Either::Left((lost, _)) => Some(lost),
            Either::Right(_) if runtime.chance(0.2) => lease.extend().await.err().and_then(lost_by),
            Either::Right(_) => None,
        };
        // It is told of the loss before the validity ends, so all of this time counts.
        let mut until = runtime.now();
        runtime.note(format_args!("client {client} held {resource}: {lost:?}"));
        let (mut lease, mut lost, mut reads, mut asked) = (lease, lost, reads, asked);
        if setup.readers && lost.is_none() && runtime.chance(0.5) {
            lease = match lease {
                Holds::Alone(writer) => {
                    // What it had alone is over, and what it shares begins.
                    let (resource, kept_out) = (resource.clone(), None);
                    record.lock().unwrap().history.push(Hold {
                        client,
                        resource,
                        owner: owner.clone(),
                        reads,
                        token,
                        asked,
                        from,
                        until,
                        kept_out,
                    });
                    (owner, reads) = (format!("{owner}, lowered"), true);
                    (asked, from) = (until, until);
                    Holds::Shared(writer.downgrade().unwrap())
                }
                reader @ Holds::Shared(_) => reader,
            };
            assert_eq!(lease.token(), token);
            runtime.note(format_args!("client {client} reads {resource} as {owner}"));
            let work =
                runtime.sleep(Duration::from_micros(runtime.below(2 * longest.as_micros() as u64)));
            lost = match select(pin!(lease.lost()), work).await {
                Either::Left((lost, _)) => Some(lost),
                Either::Right(_) => None,
            };
            until = runtime.now();
            runtime.note(format_args!("client {client} has read {resource}: {lost:?}"));
        }
        let end = runtime.below(3);
        // Keys that are gone keep nobody out, and a release says that nothing is on its way.
        let is_by_time = lost.is_some_and(|lost| lost.reason != LossReason::Gone);
        let is_left = is_by_time && end == 0 && !setup.lock_delay.is_zero();
        let drift = Drift::default().of(ttl + setup.lock_delay);
        let kept_out = is_left.then(|| until.saturating_add(setup.lock_delay - drift));
        {
            let mut record = record.lock().unwrap();
            record.lost += usize::from(lost.is_some());
            record.history.extend(resources.iter().map(|resource| {
                let (resource, owner) = ((*resource).to_owned(), owner.clone());
                Hold { client, resource, owner, reads, token, asked, from, until, kept_out }
            }));
        }
        let released = match end {
            _ if is_left && setup.releases_lost => lease.release().await,
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

/// What a client wants next, in whatever order.
fn wanted(setup: Setup, runtime: &SimRuntime) -> Vec<&'static str> {
    if !setup.sets {
        return vec![["a", "b"][usize::try_from(runtime.below(2)).unwrap()]];
    }
    let mut all = vec!["a", "b", "c"];
    for _ in 0..runtime.below(3) {
        all.swap_remove(usize::try_from(runtime.below(all.len() as u64)).unwrap());
    }
    all
}

fn lost_by(error: ExtendError) -> Option<LeaseLost> {
    match error {
        ExtendError::Lost(lost) => Some(lost),
        _ => None,
    }
}

impl World {
    /// Faults, one after another, until the clients have done their work. Any number of servers is stopped;
    /// see [`Setup`] for those that are killed.
    pub(crate) fn torment(&self, setup: Setup, nodes: usize) {
        let mut back: Vec<(Timestamp, usize, bool)> = Vec::new();
        let mut kills: Vec<Timestamp> = Vec::new();
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
            kills.retain(|at| now < at.saturating_add(setup.spared));
            let may_kill = kills.len() < (nodes - 1) / 2 || runtime.chance(setup.reckless);
            let fault = match runtime.below(12) {
                0 if is_up && may_kill => {
                    server.kill();
                    kills.push(now);
                    back.push((now.saturating_add(setup.away), index, true));
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

    fn judge(&self, setup: Setup, redlocks: &[Redlock]) -> Result<(), Violation> {
        checker::check(&self.record.lock().unwrap().history)?;
        // What was lost and dropped stands until then.
        if !setup.lock_delay.is_zero() {
            self.runtime.pass(setup.longest_ttl + setup.lock_delay);
        }
        // What was left behind is being released: nobody has to wait for a ttl, and for a quarantine only
        // where a majority has forgotten.
        let wait = if setup.reckless > 0.0 { 6 } else { 2 };
        for resource in ["a", "b", "c"].into_iter().take(if setup.sets { 3 } else { 2 }) {
            let request = redlocks[0].acquire(resource).wait(wait * SECOND);
            let answer = self.runtime.block_on(request.into_future());
            let resource = resource.to_owned();
            drop(answer.map_err(|e| Violation::NotLive { resource, error: e.to_string() })?);
        }
        let mut held = Vec::new();
        if let Some(permits) = setup.permits {
            let semaphore = redlocks[0].semaphore("s", permits).unwrap();
            for _ in 0..permits {
                let request = semaphore.acquire().wait(wait * SECOND);
                let answer = self.runtime.block_on(request.into_future());
                let (resource, error) = ("s".to_owned(), |e: AcquireError| e.to_string());
                held.push(answer.map_err(|e| Violation::NotLive { resource, error: error(e) })?);
            }
        }
        drop(held);
        for (client, redlock) in redlocks.iter().enumerate() {
            let redlock = redlock.clone();
            let closed = self.runtime.block_on(async move { redlock.close().await });
            if let Err(CloseError::Unfinished { unfinished }) = closed {
                return Err(Violation::NotClosed { client, unfinished });
            }
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

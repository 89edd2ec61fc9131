//! Goal: whatever two processes do with leases of the same resources at once, no two leases hold at any time, tokens
//! rise from grant to grant, a waiter without a deadline is served, and nothing is left.
//!
//! Method: two redlocks on the same nodes in memory, whose commands and answers take random times, each connection in
//! order; tasks that acquire, try, give up, extend, release, drop, leave to expire and linger at random. The seed is the
//! run. `CROWD_SEEDS=1000` runs more of them.

use std::{
    collections::HashMap,
    env, fmt,
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    Acquire, AcquireError, Lease, LeaseSignal, Redlock,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeStatus},
    protocol::{Command, FencingToken, Floor, Join, Marker, Reply, Serves, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;
use tokio::sync::oneshot;

use crate::{
    fixture::{MS, SECOND},
    line::{got, poll},
};

const TASKS: usize = 5;
const TURNS: usize = 25;
const LONGEST_TTL: Duration = Duration::from_secs(10);

/// A connection to a node in memory: commands arrive in order, whether or not a caller waits for the answer.
#[derive(Clone)]
struct Far {
    memory: MemoryNode,
    sim: SimRuntime,
    arrives: Arc<Mutex<Timestamp>>,
}

impl Far {
    fn delay(&self) -> Duration {
        Duration::from_micros(20 + self.sim.below(if self.sim.chance(0.02) { 8_000 } else { 400 }))
    }
}

impl Node for Far {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        let (answer, answered) = oneshot::channel();
        let sent = self.sim.now().saturating_add(self.delay());
        let at = {
            let mut arrives = self.arrives.lock().unwrap();
            *arrives = sent.max(arrives.saturating_add(Duration::from_micros(1)));
            *arrives
        };
        let this = self.clone();
        self.sim.spawn(Box::pin(async move {
            this.sim.sleep_until(at).await;
            let reply = this.memory.call(command).await;
            this.sim.sleep(this.delay()).await;
            let _ = answer.send(reply);
        }));
        Box::pin(async move { answered.await.unwrap() })
    }

    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        let calls: Vec<NodeCall> = commands.into_iter().map(|command| self.call(command)).collect();
        Box::pin(async move { Ok(futures::future::join_all(calls).await) })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.memory.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.memory.admit(epoch, floor, serves)
    }

    fn counts_ranges(&self) -> bool {
        self.memory.counts_ranges()
    }

    fn takes_sets(&self) -> bool {
        self.memory.takes_sets()
    }

    fn takes_readers(&self) -> bool {
        self.memory.takes_readers()
    }

    fn picks_slots(&self) -> bool {
        self.memory.picks_slots()
    }

    fn status(&self) -> NodeStatus {
        self.memory.status()
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far").finish_non_exhaustive()
    }
}

/// What has been granted so far.
#[derive(Default)]
struct Granted {
    largest: HashMap<&'static str, FencingToken>,
    signals: HashMap<&'static str, Vec<LeaseSignal>>,
    /// The owners of those that nobody releases.
    left: Vec<String>,
    grants: usize,
}

#[derive(Clone)]
struct Crowd {
    sim: SimRuntime,
    is_disturbed: bool,
    granted: Arc<Mutex<Granted>>,
    under_way: Arc<AtomicUsize>,
    /// What each task is at.
    doing: Arc<Mutex<HashMap<usize, String>>>,
}

impl Crowd {
    /// Nobody else holds it, and nobody has had as large a token.
    fn check_granted(&self, resource: &'static str, lease: &Lease) {
        let mut granted = self.granted.lock().unwrap();
        let token = lease.token().unwrap();
        if let Some(largest) = granted.largest.insert(resource, token) {
            assert!(token > largest, "{resource}: {token} behind {largest}");
        }
        let signals = granted.signals.entry(resource).or_default();
        signals.retain(|signal| signal.check().is_ok());
        assert!(signals.is_empty(), "{resource} has two holders");
        if lease.is_valid() {
            signals.push(lease.signal());
        }
        granted.grants += 1;
    }

    fn time(&self, most: Duration) -> Duration {
        Duration::from_micros(self.sim.below(most.as_micros() as u64 + 1))
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.sim.below(all.len() as u64) as usize]
    }

    fn asked(&self, redlock: &Redlock, resource: &str) -> Acquire {
        let ttl = self.one_of(&[50 * MS, 200 * MS, SECOND, LONGEST_TTL]);
        let mut asked = redlock.acquire(resource).ttl(ttl);
        if self.sim.chance(0.2) {
            asked = asked.min_validity(self.time(ttl / 2));
        }
        if self.sim.chance(0.2) {
            asked = asked.without_renewal();
        } else if self.sim.chance(0.2) {
            asked = asked.max_hold(self.time(ttl));
        }
        if self.sim.chance(0.3) {
            asked = asked.linger(self.one_of(&[5 * MS, SECOND]));
        }
        if self.sim.chance(0.1) {
            asked = asked.hold_at_least(self.time(10 * MS));
        }
        asked
    }

    /// One task, which does this and that.
    async fn work(self, number: usize, redlock: Redlock) {
        for turn in 0..TURNS {
            let resource = self.one_of(&["r", "r", "s"]);
            let asked = self.asked(&redlock, resource);
            let way = self.sim.below(5);
            let doing = format!("task {number}, turn {turn}: {asked:?} in way {way}");
            self.doing.lock().unwrap().insert(number, doing);
            let answer = match way {
                0 => asked.wait(Duration::ZERO).await,
                1 => asked.wait(self.time(50 * MS)).await,
                2 => {
                    let limit = self.sim.sleep(self.time(5 * MS));
                    match select(asked.wait_without_deadline().into_future(), limit).await {
                        Either::Left((answer, _)) => answer,
                        Either::Right(_) => continue,
                    }
                }
                _ => asked.wait_without_deadline().await,
            };
            match answer {
                Ok(lease) => self.hold(resource, lease).await,
                Err(AcquireError::Contended { .. } | AcquireError::Crowded { .. }) if way < 2 => {}
                Err(AcquireError::TooLate { .. } | AcquireError::NoQuorum { .. })
                    if self.is_disturbed && way < 2 => {}
                Err(error) => panic!("{number} {turn} {way}: {error}"),
            }
            self.sim.sleep(self.time(self.one_of(&[Duration::ZERO, MS, 20 * MS]))).await;
        }
        self.doing.lock().unwrap().remove(&number);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// One node after the other stands still for a while, or breaks off.
    async fn disturb(self, nodes: Vec<MemoryNode>) {
        while self.under_way.load(Ordering::Relaxed) > 0 {
            let node = &nodes[self.sim.below(nodes.len() as u64) as usize];
            self.sim.sleep(self.time(100 * MS)).await;
            let breaks = self.sim.chance(0.3);
            if breaks {
                node.disconnect();
            } else {
                node.pause();
            }
            self.sim.sleep(self.time(self.one_of(&[MS, 40 * MS, 300 * MS]))).await;
            node.reconnect();
            node.resume();
        }
    }

    async fn hold(&self, resource: &'static str, lease: Lease) {
        self.check_granted(resource, &lease);
        let long = self.sim.chance(0.05);
        self.sim.sleep(self.time(if long { SECOND } else { 3 * MS })).await;
        if self.sim.chance(0.2) {
            let _ = lease.extend().await;
        }
        let signal = lease.signal();
        let way = self.sim.below(10);
        if way == 0 || signal.check().is_err() {
            self.granted.lock().unwrap().left.push(lease.owner().to_string());
        }
        match way {
            0 => lease.let_expire(),
            1..5 => drop(lease),
            _ => drop(lease.release().await),
        }
        assert!(signal.check().is_err());
    }
}

fn run(seed: u64) -> usize {
    let sim = SimRuntime::new(seed);
    let (memory, connect) = fleet(&sim);
    let redlocks = [connect(), connect()];
    sim.pass(10 * MS);
    let crowd = Crowd {
        sim: sim.clone(),
        is_disturbed: seed % 2 == 1,
        granted: Arc::default(),
        under_way: Arc::new(AtomicUsize::new(TASKS * redlocks.len())),
        doing: Arc::default(),
    };
    for number in 0..TASKS * redlocks.len() {
        let redlock = redlocks[number % redlocks.len()].clone();
        sim.spawn(Box::pin(crowd.clone().work(number, redlock)));
    }
    if crowd.is_disturbed {
        sim.spawn(Box::pin(crowd.clone().disturb(memory.clone())));
    }
    let until = sim.now().saturating_add(Duration::from_secs(3_600));
    while crowd.under_way.load(Ordering::Relaxed) > 0 {
        assert!(sim.step() && sim.now() < until, "{:#?}", crowd.doing.lock().unwrap());
    }
    let owners = || memory.iter().flat_map(|node| ["r", "s"].map(|key| node.get(key))).flatten();
    // Longer than any of them lingers.
    sim.pass(3 * SECOND);
    for owner in owners() {
        let (owner, granted) = (String::from_utf8(owner).unwrap(), crowd.granted.lock().unwrap());
        assert!(granted.left.contains(&owner), "{owner} was to be released");
    }
    sim.pass(2 * LONGEST_TTL);
    crowd.granted.lock().unwrap().signals.clear();
    for redlock in &redlocks {
        let shown = format!("{redlock:?}");
        assert!(shown.contains("queues: 0"), "{shown}");
    }
    for memory in &memory {
        let keys = memory.keys();
        let left = keys.iter().map(|key| String::from_utf8_lossy(key));
        let left: Vec<_> = left.filter(|key| *key == "r" || *key == "s").collect();
        assert!(left.is_empty(), "{left:?}");
    }
    drop(redlocks);
    sim.shut_down();
    crowd.granted.lock().unwrap().grants
}

/// A fleet that takes its time, and processes on it.
fn fleet(sim: &SimRuntime) -> (Vec<MemoryNode>, impl Fn() -> Redlock) {
    let memory: Vec<MemoryNode> = (0..3)
        .map(|_| {
            let clock = sim.clone();
            MemoryNode::with_clock(move || clock.now())
        })
        .collect();
    let (nodes, sim) = (memory.clone(), sim.clone());
    let connect = move || {
        let far = |memory: &MemoryNode| {
            let arrives = Arc::new(Mutex::new(Timestamp::ORIGIN));
            NodeSpec::new(Arc::new(Far { memory: memory.clone(), sim: sim.clone(), arrives }))
        };
        let builder = Redlock::builder().nodes(nodes.iter().map(far)).max_ttl(LONGEST_TTL);
        builder.runtime(Arc::new(sim.clone())).build().unwrap()
    };
    (memory, connect)
}

/// Its rounds find no holder of the resource, so it keeps no other caller from it.
#[test]
fn whoever_asks_for_less_than_a_round_trip_keeps_those_behind_it_from_nothing() {
    let sim = SimRuntime::new(1);
    let (_, connect) = fleet(&sim);
    let redlock = connect();
    sim.pass(10 * MS);
    let ttl = 50 * MS;
    // Almost all that the drift leaves of it, and so nothing for the round.
    let least = ttl - 2 * MS - ttl / 100 - MS / 100;
    let in_vain = || redlock.acquire("r").ttl(ttl).min_validity(least);
    let mut first = [(); 2].map(|()| in_vain().wait_without_deadline().into_future());
    first.iter_mut().for_each(|first| assert!(poll(first).is_pending()));
    sim.pass(50 * MS);
    for turn in 0..3 {
        let mut single = redlock.try_acquire("r").into_future();
        let mut behind = redlock.acquire("r").wait_without_deadline().into_future();
        let early = poll(&mut single);
        assert!(poll(&mut behind).is_pending(), "{turn}");
        sim.pass(500 * MS);
        // It may find what the others' rounds have left for a moment.
        match if early.is_pending() { poll(&mut single) } else { early } {
            Poll::Ready(Ok(lease)) => drop(lease),
            Poll::Ready(Err(AcquireError::Contended { .. })) => {}
            other => panic!("{turn}: {other:?}"),
        }
        sim.pass(500 * MS);
        drop(got(&mut behind).unwrap());
        assert!(first.iter_mut().all(|first| poll(first).is_pending()), "{turn}");
    }
    // They leave from where they are by now.
    drop(first);
    sim.pass(SECOND);
    let shown = format!("{redlock:?}");
    assert!(shown.contains("queues: 0"), "{shown}");
    sim.shut_down();
}

#[test]
fn in_a_crowd_that_does_this_and_that_all_are_served_and_nothing_is_left() {
    let seeds = env::var("CROWD_SEEDS").map_or(12, |seeds| seeds.parse().unwrap());
    let first = env::var("CROWD_FIRST").map_or(0, |first| first.parse().unwrap());
    let mut grants = 0;
    for seed in first..first + seeds {
        println!("seed {seed}");
        grants += run(seed);
    }
    println!("{grants} leases");
    assert!(grants > 50 * seeds as usize);
}

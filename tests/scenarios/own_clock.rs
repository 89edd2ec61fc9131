//! Goal: a client whose own clock jumps harms nobody but itself, and recovers.
//!
//! Method: runtimes whose clock can be set ahead, stopped for a while, or slowed down, under a client of the same nodes
//! as a holder that is checked all the time. To such a client all nodes seem to have jumped; none of them must be put
//! in quarantine for it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{
    AcquireError, NodeOutcome, Redlock,
    node::{NodeError, NodeState},
    protocol::Timestamp,
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, Proxy, eventually, redis};

use super::{
    MARKER, MS, SECOND, SOON, acquire_without, admitted, all_ready, is_quarantined, ready, settings,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The system's clock, and an offset that only grows.
#[derive(Debug)]
struct Skewed {
    inner: TokioRuntime,
    ahead_ms: AtomicU64,
    /// Whether the steady clock has the offset too, as if all the nodes' clocks had been set back.
    wholly: bool,
}

impl Skewed {
    fn start(wholly: bool) -> Arc<Altered<Self>> {
        let inner = TokioRuntime::dedicated().unwrap();
        Arc::new(Altered(Self { inner, ahead_ms: AtomicU64::new(0), wholly }))
    }

    fn jump(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
}

impl Alter for Skewed {
    fn inner(&self) -> &dyn Runtime {
        &self.inner
    }

    fn now(&self) -> Timestamp {
        self.inner.now().saturating_add(self.ahead())
    }

    fn steady(&self) -> Timestamp {
        let ahead = if self.wholly { self.ahead() } else { Duration::ZERO };
        self.inner.steady().saturating_add(ahead)
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        let at = Timestamp::from_origin(at.since_origin().saturating_sub(self.ahead()));
        self.inner.sleep_until(at)
    }
}

#[test]
fn a_client_whose_wall_clock_jumps_puts_no_node_in_quarantine() {
    puts_no_node_in_quarantine(false);
}

#[test]
fn a_client_whose_clock_jumps_puts_no_node_in_quarantine() {
    puts_no_node_in_quarantine(true);
}

fn takes_one_to_have_jumped(error: &AcquireError) -> bool {
    let jumped = NodeOutcome::Failed(NodeError::ClockJumped);
    error.nodes().is_some_and(|nodes| nodes.iter().any(|report| report.outcome == jumped))
}

fn puts_no_node_in_quarantine(wholly: bool) {
    let ttl = 4 * SECOND;
    let cluster = admitted(5, ttl);
    let holder = ready(settings(&cluster, ttl));
    let lease = holder.acquire("held").blocking().unwrap();
    let runtime = Skewed::start(wholly);
    let skewed = ready(settings(&cluster, ttl).runtime(Arc::clone(&runtime)));
    let own = skewed.acquire("own").blocking().unwrap();
    runtime.jump(MINUTE);
    assert!(own.check().is_err(), "its own lease is over, by its own clock");
    let start = Instant::now();
    let mut recovered = false;
    // For longer than a quarantine.
    while start.elapsed() < 2 * ttl {
        lease.check().unwrap_or_else(|lost| panic!("the holder's lease: {lost}"));
        for node in 0..cluster.len() {
            assert!(!is_quarantined(&holder, node), "the holder's view of node {node}");
        }
        match skewed.try_acquire("other").blocking() {
            Ok(_) => recovered = true,
            // Nodes are not timed by the wall clock, so that not even this client takes any of them for one that has jumped.
            Err(error) => assert!(wholly || !takes_one_to_have_jumped(&error), "{error}"),
        }
        std::thread::sleep(5 * MS);
    }
    let fresh = settings(&cluster, ttl).blocking_connect().unwrap();
    assert!((0..cluster.len()).all(|node| !is_quarantined(&fresh, node)));
    all_ready(&fresh);
    all_ready(&skewed);
    eventually("it recovers", SOON, || {
        recovered |= skewed.try_acquire("other").blocking().is_ok();
        recovered
    });
    lease.check().unwrap();
}

/// A clock that may run ahead ends leases early, which is safe. A quarantine that it ends early is not.
#[test]
fn a_client_whose_clock_jumps_does_not_end_a_quarantine_early() {
    let ttl = 3 * SECOND;
    // Asked without a pause, or left alone with its timers.
    for (wholly, jump, asked) in [
        (true, MINUTE, true),
        (true, MINUTE, false),
        (false, MINUTE, true),
        // No larger than a difference that counts as no jump.
        (false, SECOND, true),
    ] {
        let cluster = admitted(3, ttl);
        let runtime = Skewed::start(wholly);
        let skewed = ready(settings(&cluster, ttl).runtime(Arc::clone(&runtime)));
        // In classic mode, so that only the client whose clock jumps looks after the nodes.
        let holder = ready(settings(&cluster, ttl).classic());
        let lease = acquire_without(&cluster, &holder, "r", 2);
        cluster[1].restart_empty();
        eventually("the node is quarantined", SOON, || is_quarantined(&skewed, 1));
        runtime.jump(jump);
        let mut looks = 0;
        while lease.is_valid() {
            let state = cluster[1].run(&["HGET", MARKER, "state"]);
            let state: String = redis::from_redis_value(state).unwrap();
            assert!(state == "joining" || !lease.is_valid(), "admitted early");
            if asked {
                let granted = skewed.try_acquire("r").without_renewal().blocking();
                assert!(granted.is_err() || !lease.is_valid(), "two holders at once");
            }
            looks += 1;
            std::thread::sleep(5 * MS);
        }
        assert!(looks > 50, "{looks}");
        all_ready(&skewed);
    }
}

/// A step of the wall clock is no time in which a key could have expired.
#[test]
fn a_client_whose_wall_clock_jumps_still_releases_where_it_could_not_before() {
    let ttl = 10 * MINUTE;
    for jump in [MINUTE, 60 * MINUTE] {
        let cluster = admitted(3, ttl);
        let proxy = Proxy::start(cluster[1].port());
        let runtime = Skewed::start(false);
        let builder = Redlock::builder()
            .nodes([cluster[0].url(), proxy.url(), cluster[2].url()])
            .connect_timeout(10 * SECOND)
            .max_ttl(ttl)
            .runtime(Arc::clone(&runtime));
        let redlock = ready(builder);
        let lease = redlock.acquire("r").ttl(ttl).without_renewal().blocking().unwrap();
        eventually("it has all keys", SOON, || cluster.locks_left().len() == 3);
        proxy.cut();
        lease.blocking_release().unwrap();
        assert_eq!(cluster.locks_left(), [(1, b"r".to_vec())], "cut off");
        runtime.jump(jump);
        proxy.heal();
        eventually("its key is released", SOON, || cluster.locks_left().is_empty());
        redlock.blocking_close().unwrap();
    }
}

/// The system's clock, but that the steady one can be stopped for a while, or run slow.
#[derive(Debug)]
struct Lagging {
    inner: TokioRuntime,
    lag: Mutex<Lag>,
}

/// The system time from which on the clock runs, the time it shows then, and its rate.
#[derive(Clone, Copy, Debug)]
struct Lag {
    since: Timestamp,
    at: Timestamp,
    per_mille: u32,
}

impl Lagging {
    fn start() -> Arc<Altered<Self>> {
        let inner = TokioRuntime::dedicated().unwrap();
        let now = inner.steady();
        let lag = Mutex::new(Lag { since: now, at: now, per_mille: 1000 });
        Arc::new(Altered(Self { inner, lag }))
    }

    /// It stands still for so long, and goes on at this rate.
    fn stall(&self, stall: Duration, per_mille: u32) {
        let at = self.steady();
        *self.lag.lock().unwrap() =
            Lag { since: self.inner.steady().saturating_add(stall), at, per_mille };
        std::thread::sleep(stall);
    }
}

impl Alter for Lagging {
    fn inner(&self) -> &dyn Runtime {
        &self.inner
    }

    fn steady(&self) -> Timestamp {
        let lag = *self.lag.lock().unwrap();
        let passed = self.inner.steady().saturating_since(lag.since);
        lag.at.saturating_add(passed / 1000 * lag.per_mille)
    }
}

/// The epochs, which change whenever a client makes a node join again.
fn epochs(cluster: &Cluster) -> Vec<String> {
    let epoch = |server: &quorlock_harness::Server| {
        redis::from_redis_value(server.run(&["HGET", MARKER, "epoch"])).unwrap()
    };
    cluster.iter().map(epoch).collect()
}

/// The clock of one node has been read for the first time a moment ago, and so is compared strictly; those of the
/// others are compared with what they showed seconds ago, and may differ by more.
#[test]
fn a_client_whose_clock_stalls_blames_no_node_that_it_has_just_met() {
    let ttl = SECOND;
    let cluster = admitted(3, ttl);
    for fresh in 0..cluster.len() {
        let runtime = Lagging::start();
        cluster[fresh].pause();
        let stalled = settings(&cluster, ttl).runtime(Arc::clone(&runtime)).build().unwrap();
        eventually("the others are ready", SOON, || {
            let ready = |node: &quorlock::node::NodeStatus| node.state == NodeState::Ready;
            stalled.nodes().iter().filter(|node| ready(node)).count() == 2
        });
        let met = Instant::now();
        let stall = 300 * MS;
        // Until a tenth of the time since then hides the stall.
        while met.elapsed() < 10 * stall {
            // It may fail for want of a prompt reply; the clocks have been read all the same.
            drop(stalled.try_acquire("r").blocking());
            std::thread::sleep(50 * MS);
        }
        cluster[fresh].resume();
        all_ready(&stalled);
        let before = epochs(&cluster);
        runtime.stall(stall, 1000);
        let _ = stalled.try_acquire("r").blocking();
        eventually("it recovers", SOON, || stalled.try_acquire("r").blocking().is_ok());
        all_ready(&stalled);
        assert_eq!(epochs(&cluster), before, "node {fresh} was blamed");
    }
}

/// To a client whose clock runs slow, the clocks of all nodes run fast, and the one that it reads first after a
/// while is the first to have jumped.
#[test]
fn a_client_whose_clock_runs_slow_blames_no_node() {
    let ttl = SECOND;
    let cluster = admitted(3, ttl);
    let bystander = ready(settings(&cluster, ttl));
    let runtime = Lagging::start();
    let slow = ready(settings(&cluster, ttl).runtime(Arc::clone(&runtime)));
    let before = epochs(&cluster);
    runtime.stall(Duration::ZERO, 800);
    let start = Instant::now();
    while start.elapsed() < 5 * SECOND {
        let _ = slow.try_acquire("r").blocking();
        drop(bystander.try_acquire("other").blocking());
        for node in 0..cluster.len() {
            assert!(!is_quarantined(&bystander, node), "the bystander lost node {node}");
        }
        std::thread::sleep(5 * MS);
    }
    runtime.stall(Duration::ZERO, 1000);
    eventually("it recovers", SOON, || slow.try_acquire("r").blocking().is_ok());
    assert_eq!(epochs(&cluster), before);
}

/// Some nodes have never been read together with the one that shows the stall.
#[test]
fn a_stall_of_our_clock_blames_no_node_whose_others_are_met_after_it() {
    let ttl = SECOND;
    let cluster = admitted(3, ttl);
    let before = epochs(&cluster);
    cluster[1].pause();
    cluster[2].pause();
    let runtime = Lagging::start();
    let client = settings(&cluster, ttl).runtime(Arc::clone(&runtime)).build().unwrap();
    eventually("node 0 is met", SOON, || client.nodes()[0].state == NodeState::Ready);
    runtime.stall(400 * MS, 1000);
    cluster[1].resume();
    cluster[2].resume();
    all_ready_or_not(&client);
    assert_eq!(epochs(&cluster), before, "a node was blamed");
}

/// What the others showed before is less certain than the stall is long.
#[test]
fn a_stall_of_our_clock_blames_no_near_node_of_far_ones() {
    let ttl = 3 * SECOND;
    let cluster = admitted(3, ttl);
    let before = epochs(&cluster);
    let proxies: Vec<Proxy> = (1..3).map(|node| Proxy::start(cluster[node].port())).collect();
    // A round trip of 150 ms.
    proxies.iter().for_each(|proxy| proxy.delay(75 * MS));
    let runtime = Lagging::start();
    let urls = [cluster[0].url(), proxies[0].url(), proxies[1].url()];
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND).ttl(ttl).max_ttl(ttl);
    let client = ready(builder.node_timeout(SECOND).runtime(Arc::clone(&runtime)));
    // An idle client: the last look is up to ten seconds old.
    client.acquire("r").wait(SOON).blocking().unwrap().blocking_release().unwrap();
    runtime.stall(200 * MS, 1000);
    for _ in 0..5 {
        let _ = client.try_acquire("r").blocking();
    }
    all_ready_or_not(&client);
    assert_eq!(epochs(&cluster), before, "a node was blamed");
}

/// Long enough for the nodes to be judged.
fn all_ready_or_not(client: &Redlock) {
    let start = Instant::now();
    while start.elapsed() < 3 * SECOND {
        let _ = client.try_acquire("r").blocking();
        std::thread::sleep(20 * MS);
    }
    all_ready(client);
}

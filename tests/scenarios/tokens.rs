//! Goal: tokens rest on no clock, neither on the nodes' nor on a client's, and go on rising where a majority forgot.
//!
//! Method: servers whose clocks make excursions of days, a client whose clock stands still in the middle of a round
//! while one of its voters forgets and is admitted again, and fleets that are restarted empty faster than the
//! quarantine.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{
    Lease, Redlock,
    node::NodeState,
    protocol::Timestamp,
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, Proxy, Server, eventually, redis};

use super::{
    MARKER, MS, SECOND, SOON, acquire_without, admit, admitted, all_ready, clock::Clocks, has_key,
    ready, settings, token,
};

const DAY: i64 = 24 * 3600 * 1_000_000;

/// A client whose wall clock is behind, and whose clock for leases and timeouts can be stopped. The steady one goes on, or
/// the client would take the nodes' clocks for ones that jumped.
#[derive(Debug)]
pub(crate) struct Odd {
    inner: TokioRuntime,
    wall_behind_us: u64,
    stopped: Arc<Mutex<Option<Timestamp>>>,
}

impl Odd {
    pub(crate) fn start(wall_behind: Duration) -> Arc<Altered<Self>> {
        Arc::new(Altered(Self {
            inner: TokioRuntime::dedicated().unwrap(),
            wall_behind_us: u64::try_from(wall_behind.as_micros()).unwrap(),
            stopped: Arc::default(),
        }))
    }

    fn stop(&self) {
        *self.stopped.lock().unwrap() = Some(self.inner.now());
    }

    fn go_on(&self) {
        *self.stopped.lock().unwrap() = None;
    }
}

impl Alter for Odd {
    fn inner(&self) -> &dyn Runtime {
        &self.inner
    }

    fn now(&self) -> Timestamp {
        self.stopped.lock().unwrap().unwrap_or_else(|| self.inner.now())
    }

    fn wall_us(&self) -> u64 {
        self.inner.wall_us() - self.wall_behind_us
    }

    /// No timer ends while the clock stands still.
    fn sleep_until(&self, at: Timestamp) -> Task {
        let (inner, stopped) = (self.inner.clone(), Arc::clone(&self.stopped));
        Box::pin(async move {
            loop {
                let frozen = *stopped.lock().unwrap();
                if frozen.is_none() && inner.now() >= at {
                    return;
                }
                let soon = inner.now().saturating_add(5 * MS);
                inner.sleep_until(if frozen.is_some() { soon } else { at.min(soon) }).await;
            }
        })
    }
}

fn granted(redlock: &Redlock) -> Lease {
    redlock.acquire("r").wait(SOON).without_renewal().blocking().unwrap()
}

/// The clock of one node after the other shows two days later for a moment, in which everything that expires there
/// does. Nobody asks the nodes anything meanwhile.
#[test]
fn tokens_rise_although_node_clocks_were_days_ahead_for_a_moment() {
    let ttl = SECOND;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, ttl);
    let client = ready(settings(cluster, ttl));
    let mut last = 0;
    for _ in 0..3 {
        let lease = granted(&client);
        last = token(&lease);
        lease.blocking_release().unwrap();
    }
    client.blocking_close().unwrap();
    drop(client);
    for node in 0..3 {
        cluster[node].run(&["SET", "canary", "", "EX", "90000"]);
        let before = cluster[node].run(&["DBSIZE"]);
        clocks.jump(node, 2 * DAY);
        // The server itself deletes what has expired, a few times a second.
        eventually("whatever expires has expired", SOON, || {
            cluster[node].run(&["DBSIZE"]) != before
        });
        clocks.jump(node, 0);
    }
    let late = Odd::start(100 * SECOND);
    let behind = ready(settings(cluster, ttl).runtime(late));
    let lease = granted(&behind);
    assert!(token(&lease) > last, "{} after {last}", token(&lease));
}

/// A node votes, forgets, and is admitted again; the other vote of the same round arrives after that. The client in
/// the middle of its round does not notice, since its clock stands still.
#[test]
fn a_vote_of_before_a_node_forgot_and_one_of_after_it_was_admitted_make_no_token() {
    let ttl = SECOND;
    let cluster = admitted(3, ttl);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let odd = Odd::start(Duration::ZERO);
    let urls = proxies.iter().map(Proxy::url);
    let slow = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND).ttl(ttl).max_ttl(ttl);
    let slow = ready(slow.node_timeout(30 * SECOND).runtime(Arc::clone(&odd) as Arc<dyn Runtime>));
    let other = ready(settings(&cluster, ttl));

    // Node 0 hears the acquire, node 1 will later, and another holds node 2.
    cluster[2].set("r", "somebody else", None);
    proxies[1].blackhole(true);
    let request = slow.try_acquire("r").without_renewal();
    let (first, second) = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| request.blocking());
        eventually("node 0 has voted", SOON, || cluster[0].get("r").is_some());
        odd.stop();
        cluster[0].restart_empty();
        eventually("it has forgotten", SOON, || cluster[0].get("r").is_none());
        all_ready_after_quarantine(&cluster, &other);
        cluster[2].del("r");
        proxies[1].blackhole(false);
        // The late vote counts, or the round is lost and its client waits for its clock.
        let since = std::time::Instant::now();
        eventually("it has arrived", SOON, || {
            waiting.is_finished() || since.elapsed() > 2 * SECOND
        });
        odd.go_on();
        let first = waiting.join().unwrap();
        // Its keys expire, whatever its clock shows.
        eventually("nobody has it", SOON, || cluster.iter().all(|node| node.get("r").is_none()));
        let behind = ready(settings(&cluster, ttl).runtime(Odd::start(20 * SECOND)));
        (first, acquire_without(&cluster, &behind, "r", 1))
    });
    // Either it was not granted, or the later lease has the larger token.
    if let Ok(lease) = &first {
        assert!(token(&second) > token(lease), "{} after {}", token(&second), token(lease));
    }
}

/// The node that forgot has been admitted.
fn all_ready_after_quarantine(cluster: &Cluster, redlock: &Redlock) {
    // It says so itself, since an empty node has no state.
    let is_admitted = |server: &Server| {
        let state = server.run(&["HGET", MARKER, "state"]);
        redis::from_redis_value::<Option<String>>(state).unwrap().as_deref() == Some("ready")
    };
    eventually("all are admitted", SOON, || cluster.iter().all(is_admitted));
    all_ready(redlock);
}

/// A node that was restarted counts on from where the others might be, half a minute ahead of the clock. Then all are
/// restarted, and no node knows of that any more.
#[test]
fn tokens_rise_after_a_majority_forgot() {
    let ttl = 2 * SECOND;
    let cluster = admitted(3, ttl);
    let client = ready(settings(&cluster, ttl));
    let mut last = 0;
    let mut next = |client: &Redlock, what: &str| {
        let lease = granted(client);
        let token = token(&lease);
        assert!(token > last, "{what}: {token} after {last}");
        eventually("all have it", SOON, || cluster.iter().all(|node| has_key(node, &lease)));
        lease.blocking_release().unwrap();
        last = token;
    };
    next(&client, "new");
    for round in 0..2 {
        for node in 0..2 {
            cluster[node].restart_empty();
            all_ready_after_quarantine(&cluster, &client);
            next(&client, "one has forgotten");
            next(&client, "again");
        }
        cluster.iter().for_each(Server::restart_empty);
        all_ready_after_quarantine(&cluster, &client);
        println!("round {round}");
        // A client that has seen no token: only the nodes know where to go on.
        next(&ready(settings(&cluster, ttl)), "all have forgotten");
        next(&client, "all have forgotten, and one has gone on");
    }
}

/// Two nodes forget, one after the other, and the wall clock of the client that admits them is an hour behind. So no hint
/// lifts a counter, and where those nodes go on is what the others say.
#[test]
fn tokens_rise_where_nodes_forget_in_turn_and_wall_clocks_are_behind() {
    let ttl = 2 * SECOND;
    let cluster = admitted(3, ttl);
    let before = ready(settings(&cluster, ttl));
    let lease = granted(&before);
    let last = token(&lease);
    eventually("all have it", SOON, || cluster.iter().all(|node| has_key(node, &lease)));
    lease.blocking_release().unwrap();
    before.blocking_close().unwrap();
    drop(before);
    let behind = ready(settings(&cluster, ttl).runtime(Odd::start(3600 * SECOND)));
    for node in 0..2 {
        cluster[node].restart_empty();
        all_ready_after_quarantine(&cluster, &behind);
    }
    let lease = acquire_without(&cluster, &behind, "r", 2);
    assert!(token(&lease) > last, "{} after {last}", token(&lease));
}

/// A number that another program wrote to one node does not reach the others, nor other resources.
#[test]
fn a_counter_that_somebody_wrote_ends_nothing() {
    let cluster: Cluster = admitted(3, SECOND);
    let end = "9007199254740980";
    cluster[1].run(&["HSET", "quorlock:counters", "r", end]);
    let client = ready(settings(&cluster, SECOND));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for _ in 0..20 {
        let lease = granted(&client);
        let ahead = Duration::from_micros(token(&lease)).saturating_sub(now);
        assert!(ahead < 3 * 60 * SECOND, "{ahead:?} ahead");
        lease.blocking_release().unwrap();
    }
}

/// One node forgets, the clock of another jumps, and the client that admits them cannot reach the third, which later
/// forgets too. No more than one node has lost its data at a time.
#[test]
fn a_node_whose_clock_jumped_does_not_make_a_majority_that_forgot() {
    let ttl = SECOND;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, ttl);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let odd = Odd::start(Duration::ZERO);
    let urls = proxies.iter().map(Proxy::url);
    let slow = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND).ttl(ttl).max_ttl(ttl);
    let slow = ready(slow.node_timeout(60 * SECOND).runtime(Arc::clone(&odd) as Arc<dyn Runtime>));
    let cut = Proxy::start(cluster[2].port());
    let nodes = [cluster[0].url(), cluster[1].url(), cut.url()];
    let behind = Redlock::builder().nodes(nodes).connect_timeout(10 * SECOND).ttl(ttl).max_ttl(ttl);
    let behind = ready(behind.node_timeout(100 * MS).runtime(Odd::start(300 * SECOND)));
    let is_in = |node: usize, wanted: &str| {
        let state: Option<String> =
            redis::from_redis_value(cluster[node].run(&["HGET", "quorlock:node", "state"]))
                .unwrap();
        state.as_deref() == Some(wanted)
    };

    // Node 0 hears the acquire, another holds node 1, and node 2 will hear it later.
    cluster[1].set("r", "somebody else", None);
    proxies[2].blackhole(true);
    let request = slow.try_acquire("r").without_renewal();
    let (first, second) = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| request.blocking());
        eventually("node 0 has voted", SOON, || cluster[0].get("r").is_some());
        odd.stop();
        cut.cut();
        cluster[0].restart_empty();
        clocks.jump(1, 20 * 1_000_000);
        // By the clock it could be admitted, and has nobody to ask how high the counters were.
        let over = NodeState::Quarantined { remaining: Duration::ZERO };
        eventually("its quarantine is over", SOON, || behind.nodes()[0].state == over);
        eventually("the node whose clock jumped has kept its data", SOON, || is_in(1, "ready"));
        assert!(is_in(0, "joining"), "one that forgot is no majority");
        proxies[2].blackhole(false);
        let since = std::time::Instant::now();
        eventually("it has arrived", SOON, || {
            waiting.is_finished() || since.elapsed() > 2 * SECOND
        });
        odd.go_on();
        let first = waiting.join().unwrap();
        cluster[1].del("r");
        cut.heal();
        all_ready(&behind);
        cluster[2].restart_empty();
        all_ready_after_quarantine(cluster, &behind);
        eventually("nobody has it", SOON, || cluster.iter().all(|node| node.get("r").is_none()));
        (first, granted(&behind))
    });
    println!("{:?} then {:?}", first.as_ref().map(token), token(&second));
    if let Ok(lease) = &first {
        assert!(token(&second) > token(lease), "{} after {}", token(&second), token(lease));
    }
}

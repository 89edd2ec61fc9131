//! Goal: what a client cannot tell costs no other client a node, and a node that does not vote is shown so.
//!
//! Method: real servers, nodes that are met late or are far away, and a client whose steady clock stands still for a
//! moment; a marker that others have written to; a name that the user has no right to.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use quorlock::{
    Redlock,
    node::NodeState,
    protocol::Timestamp,
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::{Cluster, Proxy, eventually, redis};

use super::{MARKER, MS, SECOND, SOON, admitted, all_ready, alone, ready, settings};

/// The system's clock, but that the steady one can be stopped for a while.
#[derive(Debug)]
struct Stopped {
    inner: TokioRuntime,
    /// What the steady clock has lost.
    lost: Mutex<Duration>,
}

impl Stopped {
    fn start() -> Arc<Self> {
        let inner = TokioRuntime::dedicated().unwrap();
        Arc::new(Self { inner, lost: Mutex::default() })
    }

    /// As if it had stood still for so long, just now.
    fn stall(&self, stall: Duration) {
        let mut lost = self.lost.lock().unwrap();
        std::thread::sleep(stall);
        *lost += stall;
    }
}

impl Runtime for Stopped {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn steady(&self) -> Timestamp {
        let lost = *self.lost.lock().unwrap();
        Timestamp::from_origin(self.inner.steady().since_origin().saturating_sub(lost))
    }

    fn wall_us(&self) -> u64 {
        self.inner.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.inner.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.inner.spawn(task);
    }

    fn random(&self) -> [u8; 16] {
        self.inner.random()
    }
}

fn eras(cluster: &Cluster) -> Vec<String> {
    let era = |server: &quorlock_harness::Server| {
        redis::from_redis_value(server.run(&["HGET", MARKER, "era"])).unwrap()
    };
    cluster.iter().map(era).collect()
}

#[test]
fn a_stall_of_our_clock_blames_no_node_whose_others_are_met_after_it() {
    let _turn = alone();
    let ttl = SECOND;
    let cluster = admitted(3, ttl);
    let before = eras(&cluster);
    cluster[1].pause();
    cluster[2].pause();
    let runtime = Stopped::start();
    let client = settings(&cluster, ttl).runtime(Arc::clone(&runtime) as _).build().unwrap();
    eventually("node 0 is met", SOON, || client.nodes()[0].state == NodeState::Ready);
    runtime.stall(400 * MS);
    cluster[1].resume();
    cluster[2].resume();
    all_ready_or_not(&client);
    assert_eq!(eras(&cluster), before, "a node was blamed");
}

#[test]
fn a_stall_of_our_clock_blames_no_near_node_of_far_ones() {
    let _turn = alone();
    let ttl = 3 * SECOND;
    let cluster = admitted(3, ttl);
    let before = eras(&cluster);
    let proxies: Vec<Proxy> = (1..3).map(|node| Proxy::start(cluster[node].port())).collect();
    // A round trip of 150 ms.
    proxies.iter().for_each(|proxy| proxy.delay(75 * MS));
    let runtime = Stopped::start();
    let urls = [cluster[0].url(), proxies[0].url(), proxies[1].url()];
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND).ttl(ttl).max_ttl(ttl);
    let client = ready(builder.node_timeout(SECOND).runtime(Arc::clone(&runtime) as _));
    // An idle client: the last look is up to ten seconds old.
    client.acquire("r").wait(SOON).blocking().unwrap().release_blocking().unwrap();
    runtime.stall(200 * MS);
    for _ in 0..5 {
        let _ = client.try_acquire("r").blocking();
    }
    all_ready_or_not(&client);
    assert_eq!(eras(&cluster), before, "a node was blamed");
}

/// Others have written a high-water mark an hour ahead to a majority of the markers.
#[test]
fn a_node_whose_high_water_mark_others_have_written_is_admitted_by_itself() {
    let _turn = alone();
    let cluster = admitted(3, SECOND);
    let client = ready(settings(&cluster, SECOND));
    let hour = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + 3600 * SECOND;
    for node in 0..2 {
        cluster[node].run(&["HSET", MARKER, "high", &hour.as_micros().to_string()]);
    }
    // Past the next look at the nodes.
    std::thread::sleep(11 * SECOND);
    eventually("it is admitted by itself", SOON, || client.try_acquire("r").blocking().is_ok());
}

/// Nothing was set, so that there is nothing to be released.
#[test]
fn an_acquire_that_was_not_allowed_leaves_nothing_to_wait_for() {
    let cluster = admitted(3, SECOND);
    for server in &cluster {
        server.run(&["ACL", "SETUSER", "app", "on", ">sesame", "~lock:*", "~quorlock:*", "+@all"]);
    }
    let urls =
        cluster.iter().map(|server| format!("redis://app:sesame@127.0.0.1:{}", server.port()));
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND);
    let client = ready(builder.ttl(SECOND).max_ttl(SECOND));
    for _ in 0..10 {
        assert!(client.try_acquire("other").blocking().is_err());
    }
    client.close_blocking().unwrap();
}

/// Long enough for the nodes to be judged.
fn all_ready_or_not(client: &Redlock) {
    let start = std::time::Instant::now();
    while start.elapsed() < 3 * SECOND {
        let _ = client.try_acquire("r").blocking();
        std::thread::sleep(20 * MS);
    }
    all_ready(client);
}

//! Goal: whoever waits for a resource need not sit out a pause when the key is gone.
//!
//! Method: pauses between rounds that are far longer than the test, on nodes in memory and on real servers, and a
//! release: by the process that waits, or by another one. Where the servers tell, nobody waits for as long as a poll
//! takes, which is a second at the least.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock::{
    Builder, Redlock,
    node::{LineState, MemoryNode, NodeSpec},
};
use quorlock_harness::{
    Cluster, eventually,
    redis::{self, from_redis_value},
};

const MINUTE: Duration = Duration::from_secs(60);

fn builder(nodes: impl IntoIterator<Item = impl Into<NodeSpec>>) -> Builder {
    let builder = Redlock::builder().nodes(nodes).node_timeout(Duration::from_secs(2)).danger_skip_quarantine();
    // The shortest pause is a quarter of a minute.
    builder.ttl(5 * MINUTE).max_ttl(5 * MINUTE).wait(3 * MINUTE).retry(MINUTE, MINUTE)
}

/// `waiter` waits for what `holder` has and then lets go.
fn is_woken(holder: &Redlock, waiter: &Redlock) {
    let lease = holder.acquire("r").blocking().unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire("r").blocking().unwrap());
        // It has been refused, and pauses.
        thread::sleep(Duration::from_millis(300));
        assert!(!waiting.is_finished());
        lease.blocking_release().unwrap();
        let next = waiting.join().unwrap();
        assert!(began.elapsed() < MINUTE / 6, "it has sat out its pause: {:?}", began.elapsed());
        next.blocking_release().unwrap();
    });
}

#[test]
fn a_release_wakes_one_who_waits_in_the_same_process() {
    let cluster = Cluster::start(3);
    let redlock = builder(cluster.urls()).blocking_connect().unwrap();
    is_woken(&redlock, &redlock);
    let cluster = Cluster::start(3);
    let classic = builder(cluster.urls()).classic().blocking_connect().unwrap();
    is_woken(&classic, &classic);
}

#[test]
fn a_release_by_another_process_wakes_one_who_waits_where_the_nodes_tell() {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let redlock = || builder(&nodes).blocking_connect().unwrap();
    is_woken(&redlock(), &redlock());
}

/// Several times, since a poll may come just in time.
fn hand_over(take: impl Fn() -> Box<dyn FnOnce()>, waiter: &Redlock) -> Vec<Duration> {
    let once = |_| {
        let give_back = take();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lease = waiter.acquire("r").blocking().unwrap();
                (lease, Instant::now())
            });
            thread::sleep(Duration::from_millis(60));
            assert!(!waiting.is_finished());
            let released = Instant::now();
            give_back();
            let (lease, granted) = waiting.join().unwrap();
            lease.blocking_release().unwrap();
            granted - released
        })
    };
    let mut took: Vec<Duration> = (0..9).map(once).collect();
    took.sort();
    took
}

/// How many stand in the line on each server.
fn standing(cluster: &Cluster) -> Vec<u64> {
    let count = |server: &quorlock_harness::Server| {
        from_redis_value(server.run(&["ZCARD", "quorlock:line:r"])).unwrap()
    };
    cluster.iter().map(count).collect()
}

#[test]
fn a_release_by_another_client_wakes_one_who_waits_on_real_servers() {
    let cluster = Cluster::start(3);
    let client = || builder(cluster.urls()).blocking_connect().unwrap();
    let (holder, waiter) = (client(), client());
    assert!(waiter.nodes().iter().all(|node| node.line == LineState::On));
    let take = || {
        let lease = holder.acquire("r").blocking().unwrap();
        Box::new(move || lease.blocking_release().unwrap()) as Box<dyn FnOnce()>
    };
    let took = hand_over(take, &waiter);
    assert!(took[4] < Duration::from_millis(200), "{took:?}");
    assert_eq!(standing(&cluster), [0; 3]);
}

#[test]
fn a_key_of_another_program_wakes_one_who_waits_when_it_is_deleted_or_expires() {
    let cluster = Cluster::start(3);
    let waiter = builder(cluster.urls()).blocking_connect().unwrap();
    let set = |ttl| cluster.iter().for_each(|server| server.set("r", "them", ttl));
    let took = hand_over(
        || {
            set(None);
            let urls = cluster.urls();
            Box::new(move || {
                for url in urls {
                    let mut server = redis_of(&url);
                    let _: u64 = redis::cmd("DEL").arg("r").query(&mut server).unwrap();
                }
            })
        },
        &waiter,
    );
    assert!(took[4] < Duration::from_millis(200), "{took:?}");
    set(Some(300));
    let began = Instant::now();
    let lease = waiter.acquire("r").blocking().unwrap();
    let waited = began.elapsed();
    assert!(waited < Duration::from_millis(900), "{waited:?}");
    lease.blocking_release().unwrap();
}

fn redis_of(url: &str) -> redis::Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

#[test]
fn whoever_gives_up_leaves_the_line() {
    let cluster = Cluster::start(3);
    let short = Duration::from_millis(1);
    let client = || builder(cluster.urls()).retry(short, short).blocking_connect().unwrap();
    let (holder, waiter) = (client(), client());
    let lease = holder.acquire("r").blocking().unwrap();
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| waiter.acquire("r").wait(Duration::from_millis(500)).blocking());
        eventually("it stands in line", MINUTE, || standing(&cluster) == [1; 3]);
        assert!(waiting.join().unwrap().unwrap_err().is_contended());
    });
    eventually("it has left", MINUTE / 20, || standing(&cluster) == [0; 3]);
    lease.blocking_release().unwrap();
    drop(holder.try_acquire("r").blocking().unwrap());
}

#[test]
fn what_lingers_is_given_back_as_soon_as_another_client_stands_in_line() {
    let cluster = Cluster::start(3);
    let client = || builder(cluster.urls()).blocking_connect().unwrap();
    let (holder, waiter) = (client(), client());
    let mut took: Vec<Duration> = (0..9)
        .map(|_| {
            holder.acquire("r").linger(MINUTE).blocking().unwrap().blocking_release().unwrap();
            // On a quorum: the release before may still be on its way to a node that denied it.
            let standing = cluster.iter().filter(|server| server.get("r").is_some()).count();
            assert!(standing >= 2, "it lingers");
            let began = Instant::now();
            waiter.acquire("r").blocking().unwrap().blocking_release().unwrap();
            began.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[4] < Duration::from_millis(200), "{took:?}");
}

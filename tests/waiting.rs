//! Goal: a waiter need not sit out a pause when the key is gone.
//!
//! Method: pauses between rounds that are far longer than the test, on nodes in memory and on real servers, and a
//! release: by the waiting process, or by another one. Where the servers tell, no waiter waits for as long as a poll
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
    future::IntoFuture as _,
    thread,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, executor::block_on};
use quorlock::{
    AcquireFuture, Builder, PlaceInLine, Redlock,
    node::{LineState, MemoryNode, NodeSpec},
};
use quorlock_harness::{
    Cluster, eventually,
    redis::{self, from_redis_value},
};

const MINUTE: Duration = Duration::from_secs(60);

fn builder(nodes: impl IntoIterator<Item = impl Into<NodeSpec>>) -> Builder {
    let builder = Redlock::builder().nodes(nodes).danger_skip_quarantine();
    // A node that is slow for a while is not taken for a failure, after which the client would pause.
    let builder = builder.connect_timeout(MINUTE).node_timeout(MINUTE / 6);
    // The shortest pause is a quarter of a minute.
    builder.ttl(5 * MINUTE).max_ttl(5 * MINUTE).wait(3 * MINUTE).retry(MINUTE, MINUTE)
}

/// A waiter for `r` that has been refused: by the nodes, or by a holder in this process.
fn refused(waiter: &Redlock, by_nodes: bool) -> AcquireFuture {
    let mut waiting = waiter.acquire("r").into_future();
    eventually("it is refused", MINUTE, || {
        assert!((&mut waiting).now_or_never().is_none());
        waiting.standing().is_some_and(|place| !by_nodes || place.holder.is_some())
    });
    waiting
}

/// `waiter` waits for what `holder` has and then lets go.
fn is_woken(holder: &Redlock, waiter: &Redlock) {
    let lease = holder.acquire("r").blocking().unwrap();
    let waiting = refused(waiter, !std::ptr::eq(holder, waiter));
    let began = Instant::now();
    lease.blocking_release().unwrap();
    let next = block_on(waiting).unwrap();
    assert!(began.elapsed() < MINUTE / 6, "it has sat out its pause: {:?}", began.elapsed());
    next.blocking_release().unwrap();
}

/// What it takes to get and to release a resource that is free: the median.
fn free(redlock: &Redlock) -> Duration {
    let once = |_| {
        let began = Instant::now();
        redlock.acquire("free").blocking().unwrap().blocking_release().unwrap();
        began.elapsed()
    };
    let mut took: Vec<Duration> = (0..9).map(once).collect();
    took.sort();
    took[4]
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

/// Compared with an acquire of a free resource. A waiter that is not told polls, after a second at the least.
#[track_caller]
fn is_prompt(took: Duration, waiter: &Redlock) {
    let free = free(waiter);
    println!("{took:?}, where a free one takes {free:?}");
    assert!(took < 20 * free, "{took:?}, where a free one takes {free:?}");
}

/// Several times, since a poll may come just in time: the median.
fn hand_over(
    cluster: &Cluster,
    take: impl Fn() -> Box<dyn FnOnce()>,
    waiter: &Redlock,
) -> Duration {
    // The third of three is told of each end when a quorum has confirmed it, and a node that is free has no line.
    let all = |held: bool| cluster.iter().all(|server| server.get("r").is_some() == held);
    let once = |_| {
        eventually("it is free on each", MINUTE, || all(false));
        let give_back = take();
        eventually("it is held on each", MINUTE, || all(true));
        let mut waiting = waiter.acquire("r").into_future();
        eventually("it stands in line", MINUTE, || {
            assert!((&mut waiting).now_or_never().is_none());
            standing(cluster) == [1; 3]
        });
        let released = Instant::now();
        give_back();
        let lease = block_on(waiting).unwrap();
        let took = released.elapsed();
        lease.blocking_release().unwrap();
        took
    };
    let mut took: Vec<Duration> = (0..9).map(once).collect();
    took.sort();
    took[4]
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
    is_prompt(hand_over(&cluster, take, &waiter), &waiter);
    assert_eq!(standing(&cluster), [0; 3]);
}

#[test]
fn a_key_of_another_program_wakes_one_who_waits_when_it_is_deleted_or_expires() {
    let cluster = Cluster::start(3);
    let waiter = builder(cluster.urls()).blocking_connect().unwrap();
    let set = |ttl| cluster.iter().for_each(|server| server.set("r", "them", ttl));
    let took = hand_over(
        &cluster,
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
    is_prompt(took, &waiter);
    set(Some(300));
    let began = Instant::now();
    let lease = waiter.acquire("r").blocking().unwrap();
    assert!(began.elapsed() < MINUTE / 6, "it has sat out its pause: {:?}", began.elapsed());
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
        let waiting = scope.spawn(|| waiter.acquire("r").wait(MINUTE / 20).blocking());
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
            // The place of an earlier waiter may still stand on a node that it did not need.
            eventually("nobody stands in line", MINUTE, || standing(&cluster) == [0; 3]);
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
    assert!(took[4] < MINUTE / 6, "it has lingered on: {took:?}");
}

/// A request of any kind, once it is known where it stands.
fn stands<K: quorlock::Kind>(request: quorlock::Acquire<K>) -> (AcquireFuture<K>, PlaceInLine) {
    let mut waiting = request.into_future();
    let mut place = None;
    eventually("it is known where it stands", MINUTE, || {
        assert!((&mut waiting).now_or_never().is_none());
        place = waiting.standing();
        place.as_ref().is_some_and(|place| place.holder.is_some())
    });
    (waiting, place.unwrap())
}

#[test]
fn a_request_of_each_kind_says_where_it_stands_and_who_holds() {
    let nodes: [MemoryNode; 3] = std::array::from_fn(|_| MemoryNode::new());
    let [holder, waiter] = [(); 2].map(|()| builder(&nodes).blocking_connect().unwrap());
    let lease = holder.acquire("r").blocking().unwrap();
    let owner = Some(lease.owner().to_string());
    let (plain, place) = stands(waiter.acquire("r"));
    assert_eq!((place.here, &place.holder), (0, &owner));
    let (behind, place) = stands(waiter.acquire("r"));
    assert_eq!((place.here, &place.holder), (1, &owner));
    let (nested, place) = stands(waiter.reentrant().acquire("r"));
    assert_eq!((place.here, &place.holder), (2, &owner));
    drop((plain, behind, nested));
    let (reader, place) = stands(waiter.read("r"));
    assert_eq!((place.here, &place.holder), (0, &owner));
    drop(reader);
    let permit = holder.semaphore("s", 1).unwrap().acquire().blocking().unwrap();
    let (waiting, place) = stands(waiter.semaphore("s", 1).unwrap().acquire());
    assert_eq!((place.here, place.holder), (0, Some(permit.owner().to_string())));
    drop(waiting);
}

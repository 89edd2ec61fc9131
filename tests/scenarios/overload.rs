//! Goal: more acquires at once than the nodes can answer look like waiting, never like an outage: no lease that is held
//! is lost, no caller is told that the nodes are broken, every release is confirmed, and requests that callers have
//! given up cost nothing. A connection that answers late is kept; one whose server is stopped is given up.
//!
//! Method: bursts from one process beside leases that are held and renewed, on real servers that are well; replies
//! delayed by a proxy; all servers stopped for a moment. Nothing is asserted of how fast anything is.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use quorlock::{AcquireError, Lease, Redlock, node::NodeState};
use quorlock_harness::{Cluster, Proxy, Server, eventually};

use super::{MS, SECOND, SOON, admitted, ready, settings};

const HELD: usize = 50;
const TTL: Duration = Duration::from_secs(10);

/// How a burst ended.
#[derive(Debug, Default)]
struct Ended {
    granted: Vec<Lease>,
    crowded: usize,
    /// All other errors.
    failed: Vec<AcquireError>,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn hold(redlock: &Redlock) -> Vec<Lease> {
    let held = |n| redlock.acquire(format!("held:{n}")).ttl(TTL).wait(SOON).blocking().unwrap();
    (0..HELD).map(held).collect()
}

fn lost(held: &[Lease]) -> usize {
    held.iter().filter(|lease| lease.check().is_err()).count()
}

/// This many acquires at once, each of a resource of its own.
async fn burst(redlock: &Redlock, name: &str, acquires: usize, wait: Duration) -> Ended {
    let acquire = |n| {
        tokio::spawn(redlock.acquire(format!("{name}:{n}")).ttl(3 * TTL).wait(wait).into_future())
    };
    let tasks: Vec<_> = (0..acquires).map(acquire).collect();
    let mut ended = Ended::default();
    for task in tasks {
        match task.await.unwrap() {
            Ok(lease) => ended.granted.push(lease),
            Err(AcquireError::Crowded { .. }) => ended.crowded += 1,
            Err(error) => ended.failed.push(error),
        }
    }
    ended
}

/// Releases all at once, and returns how many were not confirmed.
async fn release_all(leases: Vec<Lease>) -> usize {
    let releases: Vec<_> = leases.into_iter().map(Lease::release).collect();
    let mut unconfirmed = 0;
    for release in releases {
        unconfirmed += usize::from(release.await.is_err());
    }
    unconfirmed
}

#[test]
fn a_burst_of_acquires_waits_and_loses_no_held_lease() {
    const BURST: usize = 5_000;
    // In a tenth of it each has had its turn on a machine with much else to do.
    const WAIT: Duration = Duration::from_secs(300);
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock);
    runtime().block_on(async {
        let began = Instant::now();
        let Ended { mut granted, crowded, failed } = burst(&redlock, "burst", BURST, WAIT).await;
        let (took, lost_in_burst) = (began.elapsed(), lost(&held));
        assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
        assert_eq!((crowded, granted.len()), (0, BURST), "all of them have waited for their turn");
        // A release waits for its confirmation for a second, so that no more are released at once than were acquired in half
        // a second: a busy machine is slow with both.
        let at_once = BURST * 500 / usize::try_from(took.as_millis()).unwrap().max(500);
        let (mut unconfirmed, released) = (0, Instant::now());
        while !granted.is_empty() {
            let last = granted.len().saturating_sub(at_once);
            unconfirmed += release_all(granted.split_off(last)).await;
        }
        println!(
            "{BURST} acquires in {took:?}; {unconfirmed} releases unconfirmed, {at_once} at once, after {:?}; \
             {lost_in_burst} of {HELD} held leases lost",
            released.elapsed(),
        );
        assert_eq!(unconfirmed, 0, "releases");
        assert_eq!(lost_in_burst, 0, "held leases");
    });
    assert_eq!(lost(&held), 0);
    drop(held);
    redlock.blocking_close().unwrap();
    eventually("no key is left", SOON, || cluster.locks_left().is_empty());
}

#[test]
fn burst_after_burst_loses_no_held_lease() {
    const BURST: usize = 20_000;
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock);
    runtime().block_on(async {
        let start = Instant::now();
        let mut round = 0;
        // Longer than what a lease lives without a renewal.
        while start.elapsed() < TTL + TTL / 4 {
            round += 1;
            let began = Instant::now();
            let ended = burst(&redlock, &format!("burst:{round}"), BURST, 10 * SECOND).await;
            println!(
                "{BURST} acquires in {:?}: {} granted, {} crowded, {} failed; {} of {HELD} held leases lost",
                began.elapsed(),
                ended.granted.len(),
                ended.crowded,
                ended.failed.len(),
                lost(&held),
            );
            assert_eq!(lost(&held), 0, "held leases");
            assert!(ended.failed.is_empty(), "{} failed: {}", ended.failed.len(), ended.failed[0]);
            // More of them have their turn in that time also on a machine with much else to do.
            assert!(ended.granted.len() > BURST / 100, "{} granted", ended.granted.len());
            // All at once, and nobody waits for it.
            drop(ended.granted);
        }
    });
    redlock.blocking_close().unwrap();
    assert_eq!(lost(&held), 0);
    drop(held);
    eventually("no key is left", SOON, || cluster.locks_left().is_empty());
}

/// The memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn futures_that_are_dropped_leave_no_memory_and_no_key_behind() {
    const DROPPED: usize = 80_000;
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let poll_and_drop = |name: &str, count: usize| {
        futures::executor::block_on(async {
            for n in 0..count {
                let mut future = pin!(redlock.acquire(format!("{name}:{n}")).into_future());
                poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
            }
        });
    };
    poll_and_drop("warm", 2_000);
    eventually("the first ones are gone", SOON, || cluster.locks_left().is_empty());
    let before = resident();
    poll_and_drop("dropped", DROPPED);
    let after = resident();
    println!(
        "{DROPPED} dropped futures: {} KiB more, {before} KiB before",
        after.saturating_sub(before)
    );
    assert!(after < before + 16 * 1024, "{before} KiB, then {after} KiB");
    redlock.blocking_close().unwrap();
    assert_eq!(cluster.locks_left(), [], "right after closing");
}

/// One server behind a proxy.
fn proxied() -> (Cluster, Proxy, Redlock) {
    let cluster = admitted(1, 30 * SECOND);
    let proxy = Proxy::start(cluster[0].port());
    let redlock = ready(
        Redlock::builder()
            .node(proxy.url())
            .connect_timeout(10 * SECOND)
            .node_timeout(100 * MS)
            .max_ttl(30 * SECOND),
    );
    (cluster, proxy, redlock)
}

#[test]
fn a_connection_that_answers_late_is_kept_and_one_of_a_stopped_server_is_given_up() {
    let (cluster, proxy, redlock) = proxied();
    let connections = || {
        let info: String = redis::from_redis_value(cluster[0].run(&["INFO", "clients"])).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let clients = || {
        let info: String = redis::from_redis_value(cluster[0].run(&["CLIENT", "LIST"])).unwrap();
        let mut ids: Vec<String> = info
            .lines()
            .filter(|line| !line.contains("cmd=client"))
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let before = (connections(), clients());
    // Each reply comes after its time is up, and many are under way at once.
    proxy.delay(150 * MS);
    runtime().block_on(async {
        let began = Instant::now();
        let mut late = 0;
        while began.elapsed() < 3 * SECOND {
            let tasks: Vec<_> = (0..8)
                .map(|n| tokio::spawn(redlock.try_acquire(format!("late:{n}")).into_future()))
                .collect();
            for task in tasks {
                late += usize::from(task.await.unwrap().is_err());
            }
            assert!(
                !matches!(redlock.nodes()[0].state, NodeState::Down { .. }),
                "given up after {:?} and {late} commands, although it answers",
                began.elapsed()
            );
        }
        assert!(late > 50, "{late} replies were late");
    });
    assert_eq!(before, (connections(), clients()), "it is the same connection");
    proxy.heal();
    let lease = redlock.acquire("well").blocking().unwrap();
    lease.blocking_release().unwrap();
    eventually("what came late is released", SOON, || cluster.locks_left().is_empty());

    cluster[0].pause();
    let began = Instant::now();
    eventually("the connection of a stopped server is given up", SOON, || {
        drop(redlock.try_acquire("r").blocking());
        matches!(redlock.nodes()[0].state, NodeState::Down { .. })
    });
    println!("given up after {:?}", began.elapsed());
    cluster[0].resume();
}

/// Does `work` on a thread of its own while all servers are stopped for this long.
fn in_a_hiccup<T: Send + 'static>(
    cluster: &Cluster,
    length: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    cluster.iter().for_each(Server::pause);
    let worker = std::thread::spawn(work);
    std::thread::sleep(length);
    cluster.iter().for_each(Server::resume);
    worker.join().unwrap()
}

#[test]
fn a_hiccup_of_all_servers_is_borne_by_who_waits_longer() {
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).node_timeout(50 * MS));
    for _ in 0..3 {
        let request = redlock.acquire("hiccup").wait(4 * SECOND);
        let lease = in_a_hiccup(&cluster, 150 * MS, move || request.blocking());
        let lease = lease.unwrap_or_else(|error| panic!("{error}"));
        // And a release is confirmed once it is over.
        let released = in_a_hiccup(&cluster, 150 * MS, move || lease.blocking_release());
        released.unwrap_or_else(|error| panic!("{error}"));
    }
}

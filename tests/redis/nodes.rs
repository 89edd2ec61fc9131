//! Goal: a minority of dead or hung nodes does not matter, a majority is reported at once and by name, and nothing of
//! ours stays behind on any of them.
//!
//! Method: SIGKILL, SIGSTOP and `CLIENT KILL` on real servers.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{
    AcquireError,
    node::NodeState,
    protocol::{LossReason, Timestamp},
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, Server, all_ready, connected, eventually, redis};

use super::{MS, Monitor, SECOND, SOON, connect, no_key_within, patient, plain, undisturbed};

#[test]
fn a_lock_stays_held_while_two_of_five_nodes_are_killed() {
    let cluster = Cluster::start(5);
    let (a, b) = (connect(&cluster), connect(&cluster));
    let lease = a.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    cluster.servers[..2].iter().for_each(Server::kill);
    let busy = b.try_acquire("r").blocking().unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    lease.blocking_release().unwrap();
    no_key_within(&cluster, SOON);
    // And with two nodes gone everything goes on.
    b.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
}

#[test]
fn an_outage_is_reported_after_the_node_timeout_or_a_quarter_of_the_wait_and_ends_with_the_restart()
{
    let cluster = Cluster::start(5);
    let node_timeout = 500 * MS;
    let redlock = connected(patient().nodes(cluster.urls()).node_timeout(node_timeout));
    cluster.servers[..3].iter().for_each(Server::kill);
    let dead: BTreeSet<String> =
        cluster.servers[..3].iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();

    let waiting = |wait| (redlock.acquire("r").wait(wait), wait / 4);
    let requests = [
        (redlock.try_acquire("r"), Duration::ZERO),
        waiting(node_timeout),
        waiting(4 * node_timeout),
        waiting(10 * SECOND),
    ];
    for (request, share) in requests {
        let started = Instant::now();
        let error = request.clone().blocking().unwrap_err();
        let elapsed = started.elapsed();
        println!("outage reported after {elapsed:?}: {error}");
        assert!(elapsed < share.max(node_timeout) + node_timeout, "{request:?} took {elapsed:?}");
        // A pause before the next round may be left.
        assert!(elapsed + 150 * MS > share, "{request:?} took only {elapsed:?}");
        let AcquireError::NoQuorum { needed: 3, nodes, .. } = &error else { panic!("{error}") };
        let failed: BTreeSet<String> =
            nodes.failures().map(|(report, _)| report.address.to_string()).collect();
        assert_eq!(failed, dead);
        assert!(dead.iter().all(|address| error.to_string().contains(address)), "{error}");
        assert!(!error.is_contended());
    }
    no_key_within(&cluster, SOON);

    cluster.servers[..3].iter().for_each(Server::restart);
    all_ready(&redlock);
    redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
    no_key_within(&cluster, SOON);
}

#[test]
fn an_outage_of_hung_nodes_is_reported_too() {
    let cluster = Cluster::start(5);
    let node_timeout = SECOND;
    let redlock = connected(patient().nodes(cluster.urls()).node_timeout(node_timeout));
    cluster.servers[..3].iter().for_each(Server::pause);
    let waiting = |wait| (redlock.acquire("r").wait(wait), node_timeout.max(wait / 4));
    for (request, limit) in
        [(redlock.try_acquire("r"), node_timeout), waiting(4 * node_timeout), waiting(10 * SECOND)]
    {
        let started = Instant::now();
        let error = request.clone().blocking().unwrap_err();
        let elapsed = started.elapsed();
        println!("hung outage reported after {elapsed:?}: {error}");
        assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
        assert!(elapsed < limit + SECOND, "{request:?} took {elapsed:?}");
    }
    cluster.servers[..3].iter().for_each(Server::resume);
    no_key_within(&cluster, SOON);
    all_ready(&redlock);
    redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
}

#[test]
fn one_and_two_hung_nodes_cost_nothing() {
    let cluster = Cluster::start(5);
    let node_timeout = 2 * SECOND;
    let redlock = connected(patient().nodes(cluster.urls()).node_timeout(node_timeout));
    for hung in 0..2 {
        cluster[hung].pause();
        (0..3).for_each(|_| undisturbed(&redlock, node_timeout));
    }
    cluster.servers[..2].iter().for_each(Server::resume);
    no_key_within(&cluster, SOON);
}

/// A runtime whose timers for a connection panic, as a library may while it connects, for as long as that is wanted.
#[derive(Debug)]
struct Panicky {
    inner: TokioRuntime,
    connect_timeout: Duration,
    panics: AtomicBool,
}

impl Alter for Panicky {
    fn inner(&self) -> &dyn Runtime {
        &self.inner
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        let connects = at.saturating_since(self.now()) > self.connect_timeout - SECOND;
        let panics = connects && self.panics.load(Ordering::Relaxed);
        assert!(!panics, "a library panics");
        self.inner.sleep_until(at)
    }
}

#[test]
fn a_panic_while_connecting_is_the_reason_why_a_node_is_down_until_it_is_over() {
    let cluster = Cluster::start(3);
    // Longer than whatever else the engine waits for.
    let connect_timeout = 60 * SECOND;
    let inner = TokioRuntime::dedicated().unwrap();
    let panicky = Panicky { inner, connect_timeout, panics: AtomicBool::new(true) };
    let runtime = Arc::new(Altered(panicky));
    let builder = patient().nodes(cluster.urls()).connect_timeout(connect_timeout);
    let redlock = builder.runtime(Arc::clone(&runtime) as Arc<dyn Runtime>).build().unwrap();
    eventually("the panic is told", SOON, || {
        redlock.nodes().iter().all(|node| {
            matches!(&node.state, NodeState::Down { reason } if reason.contains("a library panics"))
        })
    });
    runtime.panics.store(false, Ordering::Relaxed);
    all_ready(&redlock);
    redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
}

#[test]
fn a_late_set_on_a_resumed_node_is_followed_by_its_release() {
    let cluster = Cluster::start(5);
    // A plain SET, which cannot say until when it is of use.
    let redlock = connected(plain().classic().nodes(cluster.urls()));
    let mut monitor = Monitor::start(&cluster[0]);
    cluster[0].pause();
    let lease = redlock.try_acquire("late").ttl(60 * SECOND).blocking().unwrap();
    let owner = lease.owner().to_string();
    lease.blocking_release().unwrap();
    cluster[0].resume();
    let set = monitor.next(&owner);
    assert!(set.contains("\"SET\" \"late\""), "the late SET is executed: {set}");
    let release = monitor.next(&owner);
    assert!(release.contains("EVAL"), "and undone: {release}");
    no_key_within(&cluster, SOON);
}

#[test]
fn late_sets_of_a_connection_that_was_given_up_are_released_too() {
    let cluster = Cluster::start(5);
    let redlock = connected(plain().classic().nodes(cluster.urls()).node_timeout(100 * MS));
    let mut monitor = Monitor::start(&cluster[0]);
    cluster[0].pause();
    let mut round = 0;
    eventually("the silent connection is given up", SOON, || {
        round += 1;
        let lease = redlock.try_acquire(format!("late:{round}")).ttl(60 * SECOND).blocking();
        // On a busy machine the others may be late, too. What is sent to the first is the same.
        drop(lease);
        matches!(redlock.nodes()[0].state, NodeState::Down { .. })
    });
    cluster[0].resume();
    let set = monitor.next("\"SET\" \"late:1\"");
    assert!(set.contains("\"PX\" \"60000\""), "{set}");
    // Sooner than they would expire.
    no_key_within(&cluster, SOON);
    all_ready(&redlock);
}

#[test]
fn connections_closed_by_the_server_leave_nothing_behind() {
    let cluster = Cluster::start(5);
    let mut confirmed = 0;
    for _ in 0..20 {
        let redlock = connect(&cluster);
        let lease = redlock.try_acquire("r").ttl(60 * SECOND).blocking().unwrap();
        assert!(cluster.iter().all(|server| server.kill_clients() >= 1));
        confirmed += u32::from(lease.blocking_release().is_ok());
        no_key_within(&cluster, SECOND);
    }
    println!("{confirmed} of 20 releases confirmed in spite of CLIENT KILL");
}

#[test]
fn a_signal_that_is_kept_keeps_no_connection() {
    let cluster = Cluster::start(3);
    let clients = |server: &Server| {
        let list: String = redis::from_redis_value(server.run(&["CLIENT", "LIST"])).unwrap();
        list.lines().count()
    };
    let before: Vec<usize> = cluster.iter().map(clients).collect();
    let redlock = connect(&cluster);
    let lease = redlock.acquire("r").blocking().unwrap();
    let signal = lease.signal();
    let kept = signal.clone();
    // One that is being awaited, too.
    let waiting = std::thread::spawn(move || futures::executor::block_on(signal.lost()).reason);
    let connected: Vec<usize> = cluster.iter().map(clients).collect();
    assert!(before.iter().zip(&connected).all(|(before, now)| before < now), "{connected:?}");
    drop((redlock, lease));
    assert_eq!(waiting.join().unwrap(), LossReason::Released);
    eventually("every connection is closed", SOON, || {
        cluster.iter().map(clients).eq(before.iter().copied())
    });
    assert!(kept.is_lost());
    assert_eq!(futures::executor::block_on(kept.lost()).reason, LossReason::Released);
    assert!(kept.token().is_ok());
}

//! Goal: a minority of dead, hung, silent or cut-off nodes does not matter, a majority is reported at
//! once and by name, and nothing of ours stays behind on any of them.
//!
//! Method: SIGKILL, SIGSTOP and `CLIENT KILL` on real servers, and faulty proxies in front of them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{
    AcquireError, NodeOutcome, Redlock,
    node::{NodeError, NodeState, Refusal},
    protocol::{LossReason, Timestamp},
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, Proxy, Server, eventually, redis};

use super::{
    MS, Monitor, SECOND, SOON, all_ready, connect, connected, is_down, no_key_within, patient,
    plain,
};

/// Five servers, each behind a proxy.
fn proxied() -> (Cluster, Vec<Proxy>) {
    let cluster = Cluster::start(5);
    let proxies = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    (cluster, proxies)
}

fn urls(proxies: &[Proxy]) -> Vec<String> {
    proxies.iter().map(Proxy::url).collect()
}

/// Acquires and releases without ever waiting for a node that does not answer.
fn undisturbed(redlock: &Redlock, node_timeout: Duration) {
    let started = Instant::now();
    let lease = redlock.try_acquire("r").ttl(60 * SECOND).blocking().unwrap();
    let acquired = started.elapsed();
    lease.release_blocking().unwrap();
    let released = started.elapsed();
    assert!(released < node_timeout, "acquired after {acquired:?}, released after {released:?}");
}

#[test]
fn a_lock_stays_held_while_two_of_five_nodes_are_killed() {
    let cluster = Cluster::start(5);
    let (a, b) = (connect(&cluster), connect(&cluster));
    let lease = a.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    cluster.servers[..2].iter().for_each(Server::kill);
    let busy = b.try_acquire("r").blocking().unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    lease.release_blocking().unwrap();
    no_key_within(&cluster, SOON);
    // And with two nodes gone everything goes on.
    b.try_acquire("r").blocking().unwrap().release_blocking().unwrap();
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
    redlock.try_acquire("r").blocking().unwrap().release_blocking().unwrap();
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
    redlock.try_acquire("r").blocking().unwrap().release_blocking().unwrap();
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
    redlock.try_acquire("r").blocking().unwrap().release_blocking().unwrap();
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
    lease.release_blocking().unwrap();
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
        drop(lease.expect("four nodes are a quorum"));
        matches!(redlock.nodes()[0].state, NodeState::Down { .. })
    });
    cluster[0].resume();
    let set = monitor.next("\"SET\" \"late:1\"");
    assert!(set.contains("\"PX\" \"60000\""), "{set}");
    no_key_within(&cluster, 10 * SECOND);
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
        confirmed += u32::from(lease.release_blocking().is_ok());
        no_key_within(&cluster, SECOND);
    }
    println!("{confirmed} of 20 releases confirmed in spite of CLIENT KILL");
}

#[test]
fn a_lost_reply_is_no_lost_key() {
    let (cluster, proxies) = proxied();
    let node_timeout = 2 * SECOND;
    let redlock = connected(patient().nodes(urls(&proxies)).node_timeout(node_timeout));
    // The servers have been given the release script at the connect, and the other one now: a lost NOSCRIPT
    // would keep it back.
    undisturbed(&redlock, node_timeout);
    eventually("all five have seen it", SOON, || {
        cluster.iter().all(|server| server.command_calls("set") >= 1)
    });
    no_key_within(&cluster, SOON);
    proxies[..2].iter().for_each(|proxy| proxy.drop_replies(true));
    let before = cluster[0].command_calls("set");
    undisturbed(&redlock, node_timeout);
    // The requests do arrive, so the key was there, and the replies to its release are lost as well.
    eventually("the SET arrived", SOON, || cluster[0].command_calls("set") > before);
    no_key_within(&cluster, SOON);
    proxies.iter().for_each(Proxy::heal);
    all_ready(&redlock);
    undisturbed(&redlock, node_timeout);
    no_key_within(&cluster, SOON);
}

#[test]
fn what_a_cut_has_left_is_released_once_it_is_healed() {
    let (cluster, proxies) = proxied();
    let redlock = connected(patient().nodes(urls(&proxies)));
    let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    proxies[..2].iter().for_each(Proxy::cut);
    lease.release_blocking().unwrap();
    (0..2).for_each(|node| is_down(&redlock, node));
    eventually("three are released", SOON, || cluster.locks_left().len() == 2);
    proxies.iter().for_each(Proxy::heal);
    no_key_within(&cluster, 10 * SECOND);
    all_ready(&redlock);
    undisturbed(&redlock, 2 * SECOND);
}

#[test]
fn a_black_hole_costs_nothing_and_keeps_nothing() {
    let (cluster, proxies) = proxied();
    let node_timeout = 2 * SECOND;
    let redlock = connected(patient().nodes(urls(&proxies)).node_timeout(node_timeout));
    proxies[..2].iter().for_each(|proxy| proxy.blackhole(true));
    (0..3).for_each(|_| undisturbed(&redlock, node_timeout));
    // What was swallowed is delivered now, late, and must not stay.
    proxies.iter().for_each(Proxy::heal);
    no_key_within(&cluster, 10 * SECOND);
    all_ready(&redlock);
    undisturbed(&redlock, node_timeout);
}

#[test]
fn servers_that_exchange_their_addresses_are_ready_behind_the_other_one() {
    let cluster = Cluster::start(3);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let redlock = connected(patient().nodes(urls(&proxies)));
    let identities = || redlock.nodes().into_iter().map(|node| node.identity).collect::<Vec<_>>();
    let mut exchanged = identities();
    exchanged.swap(0, 1);
    proxies[..2].iter().for_each(Proxy::cut);
    proxies[0].retarget(cluster[1].port());
    proxies[1].retarget(cluster[0].port());
    proxies[..2].iter().for_each(Proxy::heal);
    eventually("both are behind the other address", SOON, || identities() == exchanged);
    all_ready(&redlock);
    redlock.try_acquire("r").blocking().unwrap().release_blocking().unwrap();
}

/// What other programs may have put in the place of the marker.
const CORRUPTED: [(&str, &[&str]); 2] = [
    ("WRONGTYPE", &["SET", "quorlock:node", "mine"]),
    ("WRONGTYPE", &["RPUSH", "quorlock:node", "mine"]),
];

/// A field that makes no sense is written anew: the node joins again, by itself.
#[test]
fn a_node_with_a_field_that_others_have_corrupted_votes_again() {
    for field in ["era", "max_ttl", "seal", "state"] {
        let cluster = Cluster::start(3);
        drop(connect(&cluster));
        cluster[0].run(&["HSET", "quorlock:node", field, "abc"]);
        let redlock = connected(patient().nodes(cluster.urls()));
        all_ready(&redlock);
        cluster[1].kill();
        is_down(&redlock, 1);
        let lease = redlock.try_acquire("r").blocking().unwrap();
        lease.release_blocking().unwrap();
    }
}

#[test]
fn a_node_whose_marker_others_have_corrupted_is_shown_with_the_reason_until_it_is_mended() {
    for (reason, corrupt) in CORRUPTED {
        let cluster = Cluster::start(3);
        drop(connect(&cluster));
        cluster[0].run(&["DEL", "quorlock:node"]);
        cluster[0].run(corrupt);
        let redlock = patient().nodes(cluster.urls()).build().unwrap();
        eventually("it is shown why it does not vote", SOON, || {
            let state = redlock.nodes()[0].state.clone();
            let NodeState::Down { reason: shown } = &state else { return false };
            shown.contains("its marker cannot be read or set") && shown.contains(reason)
        });
        eventually("the others vote", SOON, || {
            redlock.nodes()[1..].iter().all(|node| node.state == NodeState::Ready)
        });
        // The two others are asked, and this one is not: nothing can be left there.
        let lease = redlock.try_acquire("r").blocking().unwrap();
        lease.release_blocking().unwrap();
        cluster[1].kill();
        is_down(&redlock, 1);
        let error = redlock.try_acquire("r").blocking().unwrap_err();
        let report = error.nodes().unwrap().iter().next().unwrap();
        let NodeOutcome::Failed(error) = &report.outcome else { panic!("{corrupt:?}: {report}") };
        assert!(matches!(error, NodeError::MarkerUnreadable { .. }), "{corrupt:?}: {error}");
        assert!(!error.sent() && error.to_string().contains(reason), "{corrupt:?}: {error}");
        cluster[0].run(&["DEL", "quorlock:node"]);
        eventually("it votes again", SOON, || redlock.nodes()[0].state == NodeState::Ready);
    }
}

/// For as long as the one keeps its connection, the other must not vote for the same server.
#[test]
fn a_server_that_is_reached_by_a_second_address_votes_once_it_has_left_the_first() {
    let cluster = Cluster::start(3);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let redlock = connected(patient().nodes(urls(&proxies)));
    let state = |node: usize| redlock.nodes()[node].state.clone();
    proxies[0].cut();
    proxies[0].retarget(cluster[1].port());
    proxies[0].heal();
    eventually("it is the same server as the other node", SOON, || {
        matches!(state(0), NodeState::Refused(Refusal::SameServer { .. }))
    });
    assert_eq!(state(1), NodeState::Ready);
    proxies[1].cut();
    eventually("it takes the other's place", SOON, || state(0) == NodeState::Ready);
    proxies[1].retarget(cluster[0].port());
    proxies[1].heal();
    all_ready(&redlock);
}

#[test]
fn slow_replies_take_validity_and_nothing_else() {
    let (cluster, proxies) = proxied();
    let redlock = connected(patient().nodes(urls(&proxies)));
    proxies.iter().for_each(|proxy| proxy.delay(50 * MS));
    let lease = redlock.try_acquire("r").ttl(10 * SECOND).blocking().unwrap();
    // One round trip is two delays; the drift is 102 ms.
    assert!(lease.validity() <= 10 * SECOND - 202 * MS, "{:?}", lease.validity());
    proxies.iter().for_each(Proxy::heal);
    lease.release_blocking().unwrap();
    no_key_within(&cluster, SOON);
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
    assert!(kept.fencing_token().is_some());
}

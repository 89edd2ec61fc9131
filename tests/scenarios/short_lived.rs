//! Goal: processes none of which lives as long as a quarantine get a new deployment admitted, together and no earlier
//! than one alone.
//!
//! Method: real processes, which are killed after a while, one after the other, on servers that nobody has admitted. Each
//! asks for a lease; the test sees who gets it. The same once more, where what a process has told the nodes of its time
//! is deleted when it ends: then nobody gets it.

use std::{
    io::{BufRead as _, BufReader},
    sync::mpsc,
    time::{Duration, Instant},
};

use quorlock::{
    Redlock,
    node::{MemoryNode, NodeSpec, NodeState},
};
use quorlock_harness::{Cluster, Companion, Server};

use super::{MARKER, SECOND, quarantine_by_default};

/// What the second process is told: its longest ttl in ms, or `-` for the defaults, and the nodes.
const ORDERS: &str = "QUORLOCK_SHORT_LIVED";

/// What the second process does, until it is killed.
fn ask(orders: &str) {
    let mut words = orders.split(' ');
    let ttl = words.next().and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    let builder = Redlock::builder().nodes(words);
    let builder = ttl.into_iter().fold(builder, |builder, ttl| builder.ttl(ttl).max_ttl(ttl));
    let redlock = builder.blocking_connect().unwrap();
    let lease = redlock.acquire("job").blocking().unwrap();
    println!("\nthe lease is held");
    // Until the end.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(lease);
}

/// Runs processes that live for so long, one after the other, until one has the lease. Returns how many there were, and
/// how long that took.
fn one_after_the_other(
    test: &str,
    cluster: &Cluster,
    ttl: Option<Duration>,
    life: Duration,
    most: usize,
    after_each: impl Fn(),
) -> Option<(usize, Duration)> {
    let began = Instant::now();
    let ttl = ttl.map_or_else(|| "-".to_owned(), |ttl| ttl.as_millis().to_string());
    let orders = format!("{ttl} {}", cluster.urls().join(" "));
    for process in 1..=most {
        let born = Instant::now();
        let mut second = Companion::start(test, ORDERS, &orders);
        let output = BufReader::new(second.output());
        let (hold, held) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = output.lines().map_while(Result::ok);
            if lines.any(|line| line == "the lease is held") {
                let _ = hold.send(());
            }
        });
        let left = life.saturating_sub(born.elapsed());
        if held.recv_timeout(left).is_ok() {
            return Some((process, began.elapsed()));
        }
        // Killed, without a word.
        drop(second);
        after_each();
    }
    None
}

#[test]
fn ten_processes_of_three_seconds_get_a_new_deployment_admitted_with_the_defaults() {
    if let Ok(orders) = std::env::var(ORDERS) {
        return ask(&orders);
    }
    let cluster = Cluster::start(3);
    let test = "short_lived::ten_processes_of_three_seconds_get_a_new_deployment_admitted_with_the_defaults";
    let got = one_after_the_other(test, &cluster, None, 3 * SECOND, 10, || ());
    let (process, took) = got.expect("one of them has the lease");
    println!("process {process} has the lease after {took:?}");
    assert!(process > 1 && took >= quarantine_by_default(10 * SECOND), "{process}: {took:?}");
}

#[test]
fn a_job_that_runs_for_a_second_now_and_then_gets_a_new_deployment_admitted() {
    if let Ok(orders) = std::env::var(ORDERS) {
        return ask(&orders);
    }
    let cluster = Cluster::start(3);
    let test =
        "short_lived::a_job_that_runs_for_a_second_now_and_then_gets_a_new_deployment_admitted";
    let pause = || std::thread::sleep(SECOND / 2);
    let ttl = 2 * SECOND;
    let got = one_after_the_other(test, &cluster, Some(ttl), SECOND, 15, pause);
    let (process, took) = got.expect("one of them has the lease");
    println!("process {process} has the lease after {took:?}");
    assert!(process > 2 && took >= quarantine_by_default(ttl), "{process}: {took:?}");
}

/// The control: each process begins its wait anew.
#[test]
fn processes_whose_time_is_forgotten_get_nothing_admitted() {
    if let Ok(orders) = std::env::var(ORDERS) {
        return ask(&orders);
    }
    let cluster = Cluster::start(3);
    let forget = || {
        for server in &cluster {
            server.run(&["HDEL", MARKER, "waited"]);
        }
    };
    let test = "short_lived::processes_whose_time_is_forgotten_get_nothing_admitted";
    assert_eq!(one_after_the_other(test, &cluster, Some(2 * SECOND), SECOND, 10, forget), None);
}

/// A client that comes later goes on from what another one has counted, on nodes of either kind.
fn goes_on(restart: impl Fn(), spec: impl Fn() -> NodeSpec) {
    let connect = || Redlock::builder().node(spec()).blocking_connect().unwrap();
    let remaining = |redlock: &Redlock| match redlock.nodes()[0].state {
        NodeState::Quarantined { remaining } => remaining,
        ref other => panic!("{other:?}"),
    };
    let whole = quarantine_by_default(10 * SECOND);
    restart();
    let first = connect();
    let began = Instant::now();
    while remaining(&first) > whole - 2 * SECOND {
        std::thread::sleep(SECOND / 20);
    }
    drop(first);
    let left = remaining(&connect());
    let passed = began.elapsed();
    println!("{left:?} are left after {passed:?}");
    assert!(left < whole - SECOND, "{left:?} are left");
    assert!(left >= whole - passed - SECOND / 10, "{left:?} are left after {passed:?}");
    restart();
    let left = remaining(&connect());
    assert!(left > whole - SECOND, "{left:?} are left, though it has forgotten again");
}

#[test]
fn who_comes_later_goes_on_from_what_was_counted_on_a_server() {
    let server = Server::start();
    goes_on(|| server.restart_empty(), || NodeSpec::from(server.url()));
}

#[test]
fn who_comes_later_goes_on_from_what_was_counted_on_a_node_in_memory() {
    let node = MemoryNode::new();
    goes_on(|| node.restart(), || NodeSpec::from(&node));
}

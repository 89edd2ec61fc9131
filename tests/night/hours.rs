//! Outages that last, and nodes that come and go, for hours of virtual time.

use std::{future::IntoFuture, sync::Arc};

use futures::future::join_all;
use quorlock::{Lease, Redlock, node::MemoryNode, runtime::Runtime as _};
use quorlock_harness::SimRuntime;
use tracing::Level;

use super::{Log, MS, SECOND};

const MINUTES: usize = 60;

/// Five nodes in virtual time that have been admitted, whose log is told at `level`.
pub(super) fn five(
    level: Level,
    test: impl FnOnce(&SimRuntime, &[MemoryNode], &Redlock),
) -> Vec<String> {
    virtual_nodes(level, |runtime, nodes| {
        let builder = Redlock::builder().nodes(nodes).ttl(200 * MS).max_ttl(200 * MS);
        let redlock = builder.runtime(Arc::new(runtime.clone())).build().unwrap();
        runtime.pass(SECOND);
        test(runtime, nodes, &redlock);
    })
}

/// The same without a handle.
pub(super) fn virtual_nodes(
    level: Level,
    test: impl FnOnce(&SimRuntime, &[MemoryNode]),
) -> Vec<String> {
    let log = Log::default();
    tracing::subscriber::with_default(log.subscriber(level), || {
        let runtime = SimRuntime::new(1);
        let node = |_| {
            let clock = runtime.clone();
            MemoryNode::with_clock(move || clock.now())
        };
        let nodes: Vec<MemoryNode> = (0..5).map(node).collect();
        test(&runtime, &nodes);
        runtime.shut_down();
    });
    log.lines()
}

pub(super) fn count(lines: &[String], word: &str) -> usize {
    lines.iter().filter(|line| line.contains(word)).count()
}

#[test]
fn a_quarantine_says_which_max_ttl_it_is_that_long_for() {
    for raised in [None, Some(2 * SECOND)] {
        let lines = five(Level::INFO, |runtime, nodes, _redlock| {
            if let Some(max_ttl) = raised {
                // A process that was configured otherwise, and is gone again.
                let other = Redlock::builder().nodes(nodes).ttl(SECOND).max_ttl(max_ttl);
                let other = other.runtime(Arc::new(runtime.clone())).build().unwrap();
                // Nodes are looked at every ten seconds.
                runtime.pass(11 * SECOND);
                drop(other);
            }
            nodes[..3].iter().for_each(MemoryNode::kill);
            runtime.pass(SECOND);
            nodes[..3].iter().for_each(MemoryNode::restart);
            runtime.pass(10 * SECOND);
        });
        let found: Vec<&String> =
            lines.iter().filter(|line| line.contains("nobody can acquire for up to")).collect();
        let max_ttl = format!("max_ttl={:?}", raised.unwrap_or(200 * MS));
        assert!(found.len() == 1 && found[0].contains(&max_ttl), "{max_ttl}: {found:#?}");
    }
}

#[test]
fn an_outage_of_an_hour_is_told_once_a_minute_with_the_time_that_it_has_lasted() {
    let lines = five(Level::INFO, |runtime, nodes, redlock| {
        nodes[..3].iter().for_each(MemoryNode::kill);
        let end = runtime.now().saturating_add(3602 * SECOND);
        while runtime.now() < end {
            // A client tries all the time, which is no line of its own.
            let request = redlock.acquire("r").wait(500 * MS);
            runtime.block_on(request.into_future()).unwrap_err();
            runtime.pass(500 * MS);
        }
        nodes[..3].iter().for_each(MemoryNode::restart);
        runtime.pass(10 * SECOND);
    });
    println!(
        "{} lines, of which the last are\n{}",
        lines.len(),
        lines[lines.len() - 14..].join("\n")
    );
    // At once, and after each minute.
    assert_eq!(count(&lines, "quorum lost"), MINUTES + 1);
    for node in 0..3 {
        let told = lines.iter().filter(|line| line.contains(&format!("node={node} ")));
        let told: Vec<&String> = told.filter(|line| line.contains("node down")).collect();
        assert_eq!(told.len(), MINUTES + 1);
        assert!(told[0].contains("times=1 lasted=0ns"), "{}", told[0]);
        assert!(told[2].contains("times=0 lasted=120"), "it is the same outage: {}", told[2]);
    }
    assert_eq!(count(&lines, "nobody can acquire for up to"), 1);
    assert_eq!((count(&lines, "quarantine over"), count(&lines, "quorum back")), (1, 1));
    assert_eq!(count(&lines, "node votes"), 5 + 3);
    // The start, three nodes and the quorum in each minute, and the end, where each is admitted and votes.
    assert_eq!(lines.len(), 5 + 4 * (MINUTES + 1) + 3 + 2 * 3);
}

#[test]
fn a_node_that_comes_and_goes_for_an_hour_costs_a_few_lines_a_minute_and_is_counted() {
    let lines = five(Level::DEBUG, |runtime, nodes, _| {
        for _ in 0..MINUTES * 60 {
            nodes[1].kill();
            runtime.pass(200 * MS);
            nodes[1].restart();
            runtime.pass(800 * MS);
        }
    });
    println!(
        "{} lines, of which the last are\n{}",
        lines.len(),
        lines[lines.len() - 8..].join("\n")
    );
    // Down, in quarantine, admitted, and voting.
    assert!(lines.len() <= 5 + 4 * (MINUTES + 3), "{}", lines.len());
    let down: Vec<&String> = lines.iter().filter(|line| line.contains("node down")).collect();
    assert!(down.len() >= MINUTES - 1, "{}", down.len());
    assert!(down[5].contains("times=60 ") || down[5].contains("times=61 "), "{}", down[5]);
    assert_eq!(count(&lines, "quorum"), 0, "the others voted all the time");
}

#[test]
fn nothing_is_told_of_nodes_that_are_well() {
    let lines = five(Level::INFO, |runtime, _, redlock| {
        for _ in 0..100 {
            let lease = runtime.block_on(redlock.acquire("r").into_future()).unwrap();
            runtime.block_on(lease.release()).unwrap();
            runtime.pass(60 * SECOND);
        }
    });
    assert_eq!((lines.len(), count(&lines, "node votes")), (5, 5), "{lines:#?}");
}

/// Another process that holds all of these.
fn other(runtime: &SimRuntime, nodes: &[MemoryNode], resources: &[String]) -> Vec<Lease> {
    let other = Redlock::builder().nodes(nodes).ttl(200 * MS).max_ttl(200 * MS);
    let other = other.runtime(Arc::new(runtime.clone())).build().unwrap();
    runtime.pass(SECOND);
    let acquire = |name: &String| runtime.block_on(other.acquire(name).into_future()).unwrap();
    resources.iter().map(acquire).collect()
}

#[test]
fn who_asks_again_and_again_for_a_minute_is_told_of_once() {
    let lines = five(Level::INFO, |runtime, nodes, redlock| {
        let _held = other(runtime, nodes, &["r".to_owned()]);
        let end = runtime.now().saturating_add(600 * SECOND);
        // As a loop of a service does it: it does not wait for the resource in between.
        while runtime.now() < end {
            let request = redlock.acquire("r").wait(4 * SECOND);
            assert!(runtime.block_on(request.into_future()).unwrap_err().is_contended());
            runtime.pass(SECOND);
        }
    });
    let told: Vec<&String> = lines.iter().filter(|line| line.contains("still waiting")).collect();
    assert!((10..=11).contains(&told.len()), "{} lines\n{}", told.len(), told[0]);
    assert!(told[3].contains("times=12 ") || told[3].contains("times=13 "), "{}", told[3]);
}

#[test]
fn a_crowd_that_waits_for_as_many_resources_does_not_fill_the_log() {
    let lines = five(Level::INFO, |runtime, nodes, redlock| {
        let resources: Vec<String> = (0..200).map(|number| format!("r{number}")).collect();
        let _held = other(runtime, nodes, &resources);
        let request = |name| redlock.acquire(name).wait(5 * SECOND).into_future();
        let all = runtime.block_on(join_all(resources.iter().map(request)));
        assert!(all.into_iter().all(|refused| refused.unwrap_err().is_busy()));
    });
    assert_eq!(count(&lines, "still waiting"), 20);
    // Ten more say that the nodes vote, to each of two clients.
    assert!(lines.len() <= 40, "{} lines", lines.len());
}

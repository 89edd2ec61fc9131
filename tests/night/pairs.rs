//! Each loss is told again when it is over: an alert on the one line finds the other.

use std::sync::Arc;

use quorlock::{Redlock, node::MemoryNode, runtime::Runtime as _};
use quorlock_harness::SimRuntime;
use tracing::Level;

use super::{
    MS, SECOND,
    hours::{count, five, virtual_nodes},
};

type World<'a> = (&'a SimRuntime, &'a [MemoryNode]);
type Outage = (&'static str, fn(World<'_>));

/// An outage of a majority that lasts, a few that come and go, and all sorts of ends.
const OUTAGES: [Outage; 6] = [
    ("the network is gone for a while", |(runtime, nodes)| {
        nodes[..3].iter().for_each(MemoryNode::disconnect);
        runtime.pass(5 * SECOND);
        nodes[..3].iter().for_each(MemoryNode::reconnect);
    }),
    ("a majority restarts, and waits its quarantine", |(runtime, nodes)| {
        nodes[..3].iter().for_each(MemoryNode::kill);
        runtime.pass(5 * SECOND);
        nodes[..3].iter().for_each(MemoryNode::restart);
    }),
    ("all have forgotten, and nobody was away", |(_, nodes)| {
        nodes.iter().for_each(MemoryNode::restart);
    }),
    ("one of those in quarantine dies", |(runtime, nodes)| {
        nodes.iter().for_each(MemoryNode::restart);
        runtime.pass(150 * MS);
        nodes[..3].iter().for_each(MemoryNode::kill);
        runtime.pass(SECOND);
        nodes[..3].iter().for_each(MemoryNode::reconnect);
        nodes[..3].iter().for_each(MemoryNode::restart);
    }),
    ("it comes and goes, and is there in the end", |(runtime, nodes)| {
        for _ in 0..100 {
            nodes[..3].iter().for_each(MemoryNode::disconnect);
            runtime.pass(SECOND);
            nodes[..3].iter().for_each(MemoryNode::reconnect);
            runtime.pass(SECOND);
        }
    }),
    ("the same for an uneven time, with quarantines", |(runtime, nodes)| {
        for turn in 1..40 {
            nodes[..3].iter().for_each(MemoryNode::kill);
            runtime.pass(turn * 300 * MS);
            nodes[..3].iter().for_each(MemoryNode::restart);
            runtime.pass(turn * 200 * MS);
        }
    }),
];

/// Each of these begins something that the other ends.
const PAIRS: [(&str, &str); 3] = [
    ("quorum lost", "quorum back"),
    ("nobody can acquire for up to", "quarantine over"),
    ("no quorum yet", "quorum there"),
];

#[track_caller]
fn come_in_pairs(what: &str, lines: &[String]) {
    for (begins, ends) in PAIRS {
        let mut is_open = false;
        for line in lines {
            if line.contains(begins) {
                is_open = true;
            } else if line.contains(ends) {
                assert!(is_open, "{what}: `{ends}` without `{begins}`: {lines:#?}");
                is_open = false;
            }
        }
        assert!(!is_open, "{what}: `{begins}` without `{ends}`: {lines:#?}");
    }
}

#[test]
fn whatever_of_a_quorum_is_told_as_lost_is_told_as_found() {
    for (what, outage) in OUTAGES {
        let lines = five(Level::INFO, |runtime, nodes, _| {
            outage((runtime, nodes));
            runtime.pass(200 * SECOND);
        });
        assert!(count(&lines, "quorum lost") > 0, "{what}: {lines:#?}");
        come_in_pairs(what, &lines);
        let of = |word: &str, level: &str| {
            let mut of = lines.iter().filter(|line| line.contains(word));
            assert!(of.all(|line| line.starts_with(level)), "{what}: {lines:#?}");
        };
        // Nothing can be acquired: an error. One bad node is none.
        of("quorum lost", "ERROR");
        of("quorum back", "INFO");
        of("node down", "WARN");
    }
}

#[test]
fn a_node_that_was_told_as_down_is_told_as_voting() {
    let lines = five(Level::INFO, |runtime, nodes, _| {
        for turn in 1..200 {
            nodes[1].disconnect();
            runtime.pass(turn % 7 * SECOND);
            nodes[1].reconnect();
            runtime.pass(turn % 5 * SECOND + 100 * MS);
        }
        runtime.pass(200 * SECOND);
    });
    let of: Vec<&String> = lines.iter().filter(|line| line.contains("node=1 ")).collect();
    let mut was_down = true;
    for line in &of {
        let votes = line.contains("node votes");
        assert!(votes || line.contains("node down"), "{line}");
        assert!(!votes || was_down, "it was told twice: {of:#?}");
        was_down = !votes;
    }
    assert!(!was_down && of.len() > 10, "{of:#?}");
}

/// Before there was a quorum it cannot be lost: another line tells of it.
#[test]
fn a_quorum_that_never_was_is_an_error_and_found_once() {
    let lines = virtual_nodes(Level::INFO, |runtime, nodes| {
        nodes[..3].iter().for_each(MemoryNode::disconnect);
        let builder = Redlock::builder().nodes(nodes).ttl(200 * MS).max_ttl(200 * MS);
        let redlock = builder.runtime(Arc::new(runtime.clone())).build().unwrap();
        runtime.pass(150 * SECOND);
        nodes[..3].iter().for_each(MemoryNode::reconnect);
        let found = runtime.now();
        runtime.pass(150 * SECOND);
        drop((redlock, found));
    });
    let errors: Vec<&String> = lines.iter().filter(|line| line.starts_with("ERROR")).collect();
    assert!(errors.iter().all(|line| line.contains("no quorum yet")), "{errors:#?}");
    assert_eq!(errors.len(), 3, "at once, and after each minute: {errors:#?}");
    assert_eq!(count(&lines, "quorum there"), 1, "{lines:#?}");
    assert_eq!(count(&lines, "quorum lost") + count(&lines, "quorum back"), 0, "{lines:#?}");
    come_in_pairs("from the start", &lines);
}

/// Operators of nodes that are kept read these lines; settings for throwaway nodes stand in the documents.
#[test]
fn no_line_recommends_what_gives_up_the_promise() {
    let mut lines = five(Level::TRACE, |runtime, nodes, _| {
        nodes[..3].iter().for_each(MemoryNode::restart);
        runtime.pass(10 * SECOND);
        nodes[4].restart();
        runtime.pass(10 * SECOND);
    });
    assert!(count(&lines, "may have forgotten leases") >= 2, "{lines:#?}");
    lines.retain(|line| line.contains("danger"));
    assert_eq!(lines, Vec::<String>::new());
}

//! Goal: a marker that other programs have corrupted costs no more than its node's vote, and nobody has to guess why.
//!
//! Method: real servers, whose markers the test overwrites past the code under test.

use quorlock::{
    NodeOutcome,
    node::{NodeError, NodeState},
};
use quorlock_harness::{Cluster, all_ready, connected, eventually};

use super::{SOON, connect, is_down, patient};

/// What other programs may have put in the place of the marker.
const CORRUPTED: [(&str, &[&str]); 2] = [
    ("WRONGTYPE", &["SET", "quorlock:node", "mine"]),
    ("WRONGTYPE", &["RPUSH", "quorlock:node", "mine"]),
];

/// A field that makes no sense is written anew: the node joins again, by itself.
#[test]
fn a_node_with_a_field_that_others_have_corrupted_votes_again() {
    for field in ["epoch", "max_ttl", "seal", "state"] {
        let cluster = Cluster::start(3);
        drop(connect(&cluster));
        cluster[0].run(&["HSET", "quorlock:node", field, "abc"]);
        let redlock = connected(patient().nodes(cluster.urls()));
        all_ready(&redlock);
        cluster[1].kill();
        is_down(&redlock, 1);
        let lease = redlock.try_acquire("r").blocking().unwrap();
        lease.blocking_release().unwrap();
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
        lease.blocking_release().unwrap();
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

//! Goal: later evidence outweighs what a node said before: an older answer neither votes nor makes it ready.

use std::{
    future::IntoFuture,
    sync::{Arc, mpsc},
    time::Duration,
};

use quorlock::{
    Redlock,
    node::{MemoryNode, Node, NodeSpec, NodeState},
    runtime::Runtime as _,
};
use quorlock_harness::eventually;

use super::{
    MS, SECOND, SOON,
    slow::{Slow, ask, in_virtual_time},
};

/// The regular look at all nodes has heard that this one is ready before its clock jumped, and hears of the others
/// afterwards.
#[test]
fn a_look_at_all_nodes_does_not_make_one_ready_whose_clock_jumped_meanwhile() {
    let (runtime, slow, redlock) = in_virtual_time(3);
    let (asked, asking) = mpsc::channel();
    slow[2].plan().hold = Some(asked);
    let mut waited = Duration::ZERO;
    let held = loop {
        runtime.pass(10 * MS);
        waited += 10 * MS;
        match asking.try_recv() {
            Ok(held) => break held,
            Err(_) => assert!(waited < 60 * SECOND, "all are looked at now and then"),
        }
    };
    slow[0].plan().jump = true;
    ask(&runtime, &redlock);
    assert!(!slow[0].plan().jump, "the jump was seen");
    // The third one does not answer in time, and the look ends.
    runtime.pass(SECOND);
    drop(held);
    assert_ne!(slow[0].plan().forced, [], "it has to join again");
    runtime.shut_down();
}

/// The node answers a command that was sent before its clock was seen to jump: the answer is no vote.
#[test]
fn an_answer_on_its_way_is_no_vote_once_the_clock_of_its_node_is_known_to_have_jumped() {
    for extends in [false, true] {
        let (runtime, slow, redlock) = in_virtual_time(3);
        slow[2].cut(true);
        runtime.pass(10 * MS);
        let acquire = |name: &str| redlock.try_acquire(name).without_renewal().into_future();
        let lease = runtime.block_on(acquire("early")).unwrap();
        let (asked, asking) = mpsc::channel();
        slow[0].plan().answer_later = Some(asked);
        let (done, outcome) = mpsc::channel();
        let late = acquire("late");
        runtime.spawn(Box::pin(async move {
            let granted = if extends { lease.extend().await.is_ok() } else { late.await.is_ok() };
            let _ = done.send((granted, lease));
        }));
        let go = loop {
            assert!(runtime.step(), "it is asked");
            if let Ok(go) = asking.try_recv() {
                break go;
            }
        };
        slow[0].plan().jump = true;
        ask(&runtime, &redlock);
        assert!(!slow[0].plan().jump, "the jump was seen");
        go.send(()).unwrap();
        // A single round that met a node in another state than it knew is begun once more.
        runtime.pass(SECOND);
        let (granted, lease) = outcome.try_recv().expect("it is answered");
        assert!(!granted, "two votes, one of them from before the jump");
        drop(lease);
        runtime.pass(SECOND);
        runtime.shut_down();
    }
}

#[test]
fn a_node_whose_clock_jumped_is_not_ready_by_an_answer_from_before() {
    let slow = Slow::new(MemoryNode::new());
    let restarted = MemoryNode::new();
    let redlock = Redlock::builder()
        .node(restarted.clone())
        .node(NodeSpec::new(Arc::clone(&slow) as Arc<dyn Node>))
        .node(MemoryNode::new())
        .max_ttl(Duration::from_millis(20))
        .ttl(Duration::from_millis(20))
        // A held answer has to come within this, and a quarantine is twice as long and a little more.
        .node_timeout(Duration::from_secs(1))
        .blocking_connect()
        .unwrap();
    restarted.restart();
    eventually("it is quarantined", SOON, || {
        matches!(redlock.nodes()[0].state, NodeState::Quarantined { .. })
    });
    // The client that admits it asks the others first.
    let (asked, asking) = mpsc::channel();
    slow.plan().hold = Some(asked);
    let go = asking.recv_timeout(SOON).expect("the others are asked");
    slow.plan().jump = true;
    let _ = redlock.try_acquire("r").blocking();
    assert!(!slow.plan().jump, "the jump was seen");
    assert_eq!(slow.plan().forced, []);
    go.send(()).unwrap();
    eventually("the node is made to join again", SOON, || !slow.plan().forced.is_empty());
}

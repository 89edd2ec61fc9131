//! Goal: what has been seen of a node outweighs an answer that the node gave before.
//!
//! Method: nodes in memory behind a node of our own that holds back an answer, and says of one command that the
//! clock has jumped. Nothing is timed: the answer is let go when what must come first has happened.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests are free to")]

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use futures::channel::oneshot;
use quorlock::{
    Redlock,
    node::{
        MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState,
        NodeStatus,
    },
    protocol::{Command, Floor, Marker},
};
use quorlock_harness::eventually;

const SOON: Duration = Duration::from_secs(20);

/// What the next commands meet.
#[derive(Debug, Default)]
struct Plan {
    /// The next look at the marker tells of itself, and is answered once this is answered.
    hold: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// The next acquire shows a clock that has jumped.
    jump: bool,
    /// The epochs in which the node has been made to join again.
    forced: Vec<u64>,
}

/// A node in memory that does not answer at once.
#[derive(Debug)]
struct Slow {
    memory: MemoryNode,
    plan: Mutex<Plan>,
}

impl Node for Slow {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        let acquire = matches!(command, Command::Acquire { .. });
        if acquire && std::mem::take(&mut self.plan.lock().unwrap().jump) {
            return Box::pin(std::future::ready(Err(NodeError::ClockJumped)));
        }
        self.memory.call(command)
    }

    fn join(&self, max_ttl: Duration, force: Option<u64>) -> NodeFuture<Marker> {
        let answer = self.memory.join(max_ttl, force);
        let mut plan = self.plan.lock().unwrap();
        plan.forced.extend(force);
        let Some(asked) = plan.hold.take() else { return answer };
        let (go, held) = oneshot::channel();
        asked.send(go).unwrap();
        Box::pin(async move {
            let _ = held.await;
            answer.await
        })
    }

    fn admit(&self, epoch: u64, floor: Floor) -> NodeFuture<bool> {
        self.memory.admit(epoch, floor)
    }

    fn status(&self) -> NodeStatus {
        self.memory.status()
    }
}

#[test]
fn a_node_whose_clock_jumped_is_not_ready_by_an_answer_from_before() {
    let slow = Arc::new(Slow { memory: MemoryNode::new(), plan: Mutex::default() });
    let restarted = MemoryNode::new();
    let redlock = Redlock::builder()
        .node(restarted.clone())
        .node(NodeSpec::new(Arc::clone(&slow) as Arc<dyn Node>))
        .node(MemoryNode::new())
        .max_ttl(Duration::from_millis(20))
        .ttl(Duration::from_millis(20))
        // A held answer has to come within this, and a quarantine is twice as long and a little more.
        .node_timeout(Duration::from_secs(1))
        .connect_blocking()
        .unwrap();
    restarted.restart();
    eventually("it is quarantined", SOON, || {
        matches!(redlock.nodes()[0].state, NodeState::Quarantined { .. })
    });
    // Whoever admits it asks the others first.
    let (asked, asking) = mpsc::channel();
    slow.plan.lock().unwrap().hold = Some(asked);
    let go = asking.recv_timeout(SOON).expect("the others are asked");
    slow.plan.lock().unwrap().jump = true;
    let _ = redlock.try_acquire("r").blocking();
    assert!(!slow.plan.lock().unwrap().jump, "the jump was seen");
    assert_eq!(slow.plan.lock().unwrap().forced, []);
    go.send(()).unwrap();
    eventually("the node is made to join again", SOON, || {
        !slow.plan.lock().unwrap().forced.is_empty()
    });
}

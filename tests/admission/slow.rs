//! A node in memory that holds back an answer, says of a command that the clock has jumped, or is cut off; and a
//! redlock on such nodes in virtual time.
//!
//! It does only what its plan says, and notes what it was asked; what that must lead to is for the tests to say.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc},
    time::Duration,
};

use futures::channel::oneshot;
use quorlock::runtime::Runtime as _;
use quorlock::{
    Redlock,
    node::{
        MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState,
        NodeStatus,
    },
    protocol::{Command, Floor, Join, Marker, Serves},
};
use quorlock_harness::SimRuntime;

use super::MS;

/// What the next commands meet.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The next look at the marker tells of itself, and is answered once this is answered.
    pub(crate) hold: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// The next acquire shows a clock that has jumped.
    pub(crate) jump: bool,
    /// It cannot be reached.
    pub(crate) cut: bool,
    /// What comes of a look at the marker.
    pub(crate) unreadable: Option<NodeError>,
    /// The next acquire or extension is executed, tells of itself, and is answered once this is answered.
    pub(crate) answer_later: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// The acquires that it has been asked for.
    pub(crate) acquires: usize,
    /// The looks at its marker.
    pub(crate) looks: usize,
    /// The epochs in which the node has been made to join again.
    pub(crate) forced: Vec<u64>,
}

/// A node in memory that does not answer at once.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) memory: MemoryNode,
    plan: Mutex<Plan>,
    pub(crate) context: OnceLock<NodeContext>,
}

impl Slow {
    pub(crate) fn new(memory: MemoryNode) -> Arc<Self> {
        Arc::new(Self { memory, plan: Mutex::default(), context: OnceLock::new() })
    }

    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    /// Cuts it off, or lets it be reached again.
    pub(crate) fn cut(&self, cut: bool) {
        self.plan().cut = cut;
        self.context.get().unwrap().changed();
    }
}

impl Node for Slow {
    fn start(&self, context: NodeContext) {
        self.memory.start(context.clone());
        self.context.set(context).unwrap();
    }

    fn reachable(&self) -> Result<(), NodeError> {
        if self.plan().cut {
            return Err(NodeError::NotConnected { reason: Arc::from("cut off") });
        }
        Ok(())
    }

    fn call(&self, command: Command) -> NodeCall {
        if let Err(error) = self.reachable() {
            return Box::pin(std::future::ready(Err(error)));
        }
        let acquire = matches!(command, Command::Acquire { .. });
        self.plan().acquires += usize::from(acquire);
        if acquire && std::mem::take(&mut self.plan().jump) {
            return Box::pin(std::future::ready(Err(NodeError::ClockJumped)));
        }
        let votes = acquire || matches!(command, Command::Extend { .. });
        let answer = self.memory.call(command);
        let later = if votes { self.plan().answer_later.take() } else { None };
        let Some(asked) = later else { return answer };
        let (go, held) = oneshot::channel();
        asked.send(go).unwrap();
        Box::pin(async move {
            let reply = answer.await;
            let _ = held.await;
            reply
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        if let Err(error) = self.reachable() {
            return Box::pin(std::future::ready(Err(error)));
        }
        if let Some(error) = self.plan().unreadable.clone() {
            return Box::pin(std::future::ready(Err(error)));
        }
        let answer = self.memory.join(join);
        let mut plan = self.plan();
        plan.forced.extend(join.force);
        plan.looks += 1;
        let Some(asked) = plan.hold.take() else { return answer };
        let (go, held) = oneshot::channel();
        asked.send(go).unwrap();
        Box::pin(async move {
            let _ = held.await;
            answer.await
        })
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.memory.admit(epoch, floor, serves)
    }

    fn counts_ranges(&self) -> bool {
        self.memory.counts_ranges()
    }

    fn status(&self) -> NodeStatus {
        let mut status = self.memory.status();
        if self.plan().cut {
            status.state = NodeState::Down { reason: Arc::from("cut off") };
        }
        status
    }
}

/// A redlock on such nodes, in virtual time, all of them ready.
pub(crate) fn in_virtual_time(nodes: usize) -> (SimRuntime, Vec<Arc<Slow>>, Redlock) {
    in_virtual_time_with(nodes, 20 * MS)
}

/// The same with leases of a fleet that may be that long.
pub(crate) fn in_virtual_time_with(
    nodes: usize,
    max_ttl: Duration,
) -> (SimRuntime, Vec<Arc<Slow>>, Redlock) {
    let runtime = SimRuntime::new(1);
    let node = |_| {
        let clock = runtime.clone();
        Slow::new(MemoryNode::with_clock(move || clock.now()))
    };
    let slow: Vec<Arc<Slow>> = (0..nodes).map(node).collect();
    let redlock = Redlock::builder()
        .nodes(slow.iter().map(|node| NodeSpec::new(Arc::clone(node) as Arc<dyn Node>)))
        .ttl(20 * MS)
        .max_ttl(max_ttl)
        .node_timeout(50 * MS)
        .runtime(Arc::new(runtime.clone()))
        .build()
        .unwrap();
    runtime.pass(100 * MS);
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));
    (runtime, slow, redlock)
}

/// Asks for something, whatever comes of it.
pub(crate) fn ask(runtime: &SimRuntime, redlock: &Redlock) {
    drop(runtime.block_on(redlock.try_acquire("r").into_future()));
}

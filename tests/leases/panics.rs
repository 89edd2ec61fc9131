//! Goal: a node that panics is one node that failed: others, and all leases, are seen to as before.
//!
//! Method: three nodes in memory, one of which panics once, when it is asked or when its answer is polled or dropped.

use futures::future::join_all;
use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll},
    time::Duration,
};

use quorlock::{
    Lease, Redlock,
    node::{
        MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState,
        NodeStatus,
    },
    protocol::{Command, Floor, Join, Marker, Reply, Serves},
    runtime::Runtime as _,
};

use crate::fixture::{MS, Machine, SECOND, all_held};

const NODE_TIMEOUT: Duration = Duration::from_millis(20);

/// What a node is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verb {
    Call,
    CallMany,
    Join,
    Admit,
    Reachable,
    Status,
}

/// When it panics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    /// When it is asked.
    Asked,
    /// When its answer is first polled.
    Polled,
    /// It never answers, and panics when the answer is not waited for any more.
    Dropped,
}

const ALL: [When; 3] = [When::Asked, When::Polled, When::Dropped];

/// A node in memory that panics once, or as often as it has been armed.
#[derive(Clone)]
struct Panicky {
    memory: MemoryNode,
    armed: Arc<Mutex<Vec<(Verb, When)>>>,
    /// How many commands came together, each time.
    together: Arc<Mutex<Vec<usize>>>,
}

impl Panicky {
    fn arm(&self, verb: Verb, when: When) {
        self.armed.lock().unwrap().push((verb, when));
    }

    fn has_panicked(&self) -> bool {
        self.armed.lock().unwrap().is_empty()
    }

    /// Whether it is to panic at this; then it is not to do so again for the same reason.
    fn fires(&self, verb: Verb) -> Option<When> {
        let mut armed = self.armed.lock().unwrap();
        let place = armed.iter().position(|(armed, _)| *armed == verb)?;
        Some(armed.swap_remove(place).1)
    }

    fn answer<T: Send + 'static>(
        &self,
        verb: Verb,
        answer: impl FnOnce() -> NodeFuture<T>,
    ) -> NodeFuture<T> {
        match self.fires(verb) {
            None => answer(),
            Some(When::Asked) => panic!("scripted: {verb:?}"),
            Some(When::Polled) => Box::pin(async move { panic!("scripted: {verb:?}") }),
            Some(When::Dropped) => Box::pin(Burden { verb, answer: std::marker::PhantomData }),
        }
    }
}

/// An answer that never comes, and panics when it is dropped.
struct Burden<T> {
    verb: Verb,
    answer: std::marker::PhantomData<fn() -> T>,
}

impl<T> Future for Burden<T> {
    type Output = Result<T, NodeError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

impl<T> Drop for Burden<T> {
    fn drop(&mut self) {
        panic!("scripted: {:?}", self.verb);
    }
}

impl Node for Panicky {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        self.answer(Verb::Call, || self.memory.call(command))
    }

    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        self.together.lock().unwrap().push(commands.len());
        self.answer(Verb::CallMany, || self.memory.call_many(commands))
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.answer(Verb::Join, || self.memory.join(join))
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.answer(Verb::Admit, || self.memory.admit(epoch, floor, serves))
    }

    fn reachable(&self) -> Result<(), NodeError> {
        assert_eq!(self.fires(Verb::Reachable), None, "scripted");
        self.memory.reachable()
    }

    fn counts_ranges(&self) -> bool {
        self.memory.counts_ranges()
    }

    fn takes_sets(&self) -> bool {
        self.memory.takes_sets()
    }

    fn takes_readers(&self) -> bool {
        self.memory.takes_readers()
    }

    fn picks_slots(&self) -> bool {
        self.memory.picks_slots()
    }

    fn status(&self) -> NodeStatus {
        assert_eq!(self.fires(Verb::Status), None, "scripted");
        self.memory.status()
    }
}

impl fmt::Debug for Panicky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node that panics")
    }
}

struct World {
    machine: Machine,
    nodes: Vec<Panicky>,
    redlock: Redlock,
}

impl World {
    fn new() -> Self {
        let machine = Machine::new();
        let node = |_| {
            let clock = machine.clone();
            let memory = MemoryNode::with_clock(move || clock.now());
            Panicky { memory, armed: Arc::default(), together: Arc::default() }
        };
        let nodes: Vec<Panicky> = (0..3).map(node).collect();
        let redlock = Redlock::builder()
            .nodes(nodes.iter().map(|node| NodeSpec::new(Arc::new(node.clone()))))
            .ttl(SECOND)
            .max_ttl(SECOND)
            .node_timeout(NODE_TIMEOUT)
            .runtime(Arc::new(machine.clone()))
            .build()
            .unwrap();
        machine.pass(MS);
        Self { machine, nodes, redlock }
    }

    fn acquire(&self, resource: &str) -> Lease {
        let acquired = self.ends(self.redlock.acquire(resource).into_future());
        acquired.unwrap_or_else(|error| panic!("{resource}: {error}"))
    }

    /// What comes of it within a few node timeouts, whatever tasks panic meanwhile.
    #[track_caller]
    fn ends<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, ended) = mpsc::channel();
        let task = async move { sender.send(future.await).unwrap() };
        self.machine.sim.spawn(Box::pin(task));
        self.machine.pass(4 * NODE_TIMEOUT);
        ended.try_recv().expect("an end")
    }

    #[track_caller]
    fn all_ready(&self, what: &str) {
        let states: Vec<_> = self.redlock.nodes().into_iter().map(|node| node.state).collect();
        assert!(states.iter().all(|state| *state == NodeState::Ready), "{what}: {states:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.machine.sim.shut_down();
    }
}

#[test]
fn nodes_are_admitted_after_one_has_panicked() {
    let cases = ALL
        .into_iter()
        .flat_map(|when| [(Verb::Join, when), (Verb::Admit, when)])
        .chain([(Verb::Status, When::Asked)]);
    for (verb, when) in cases {
        let what = format!("{verb:?}, {when:?}");
        let world = World::new();
        world.all_ready(&what);
        world.nodes[0].arm(verb, when);
        // Both have to be admitted, one by a task that has seen the panic of the other; but a node that panics at a
        // look has to be looked at again.
        if verb == Verb::Status {
            // A node in memory tells of its end and of its start, and is looked at twice each time.
            (0..5).for_each(|_| world.nodes[0].arm(verb, when));
        } else {
            world.nodes[1].memory.restart();
        }
        world.nodes[0].memory.restart();
        world.machine.pass(10 * SECOND);
        assert!(world.nodes[0].has_panicked(), "{what}: it was asked");
        world.all_ready(&what);
        drop(world.acquire("r"));
    }
}

#[test]
fn leases_are_renewed_together_after_a_node_has_panicked() {
    let polled = ALL.into_iter().map(|when| (Verb::CallMany, when));
    for (verb, when) in polled.chain([(Verb::Reachable, When::Asked)]) {
        let world = World::new();
        let all = (0..5).map(|i| world.redlock.acquire(format!("r{i}")).into_future());
        let leases: Vec<Lease> =
            world.ends(join_all(all)).into_iter().map(Result::unwrap).collect();
        world.nodes[0].arm(verb, when);
        world.machine.pass(5 * SECOND);
        assert!(world.nodes[0].has_panicked(), "{verb:?}, {when:?}: it was asked");
        assert_eq!(world.machine.panics(), 0, "{verb:?}, {when:?}: it ends no task");
        all_held(&leases);
        for node in &world.nodes {
            assert_eq!(node.memory.keys().len(), 5, "{verb:?}, {when:?}: and it goes on");
            let together = node.together.lock().unwrap().clone();
            assert_eq!(together.last(), Some(&5), "{verb:?}, {when:?}: {together:?}");
        }
    }
}

#[test]
fn an_acquire_is_granted_by_the_others_when_a_node_panics_and_nothing_is_left_behind() {
    let polled = ALL.into_iter().map(|when| (Verb::Call, when));
    for (verb, when) in polled.chain([(Verb::Reachable, When::Asked)]) {
        let what = format!("{verb:?}, {when:?}");
        let world = World::new();
        world.nodes[0].arm(verb, when);
        let lease = world.acquire("r");
        world.machine.pass(2 * NODE_TIMEOUT);
        assert!(world.nodes[0].has_panicked(), "{what}: it was asked");
        // And when a release panics, it is sent again.
        world.nodes[0].arm(verb, when);
        world.ends(lease.release()).unwrap_or_else(|error| panic!("{what}: {error}"));
        // The node may have been on the way with it: it is released there once more when that is over.
        world.machine.pass(2 * SECOND);
        let redlock = world.redlock.clone();
        let closed = world.ends(async move { redlock.close().await });
        assert_eq!(closed.map(|closed| closed.held), Ok(0), "{what}");
        for node in &world.nodes {
            assert_eq!(node.memory.keys(), Vec::<Vec<u8>>::new(), "{what}");
        }
    }
}

#[test]
fn a_node_that_panics_when_it_is_looked_at_is_shown_as_down() {
    let world = World::new();
    world.nodes[0].arm(Verb::Status, When::Asked);
    let states = world.redlock.nodes();
    assert!(
        matches!(&states[0].state, NodeState::Down { reason } if reason.contains("panicked")),
        "{states:?}"
    );
    assert_eq!(states[1].state, NodeState::Ready);
    world.all_ready("afterwards");
}

#[test]
fn the_report_of_a_round_names_the_panic() {
    let world = World::new();
    world.nodes[1..].iter().for_each(|node| node.memory.pause());
    world.nodes[0].arm(Verb::Call, When::Polled);
    let error = world.ends(world.redlock.try_acquire("r").into_future()).unwrap_err().to_string();
    assert!(error.contains("the node panicked") && error.contains("scripted: Call"), "{error}");
}

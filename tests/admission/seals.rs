//! Goal: under a seal the other nodes say where the counters of a node that has forgotten go on, whatever is granted
//! meanwhile.
//!
//! Method: nodes in memory behind nodes of our own that note in which order they are sealed and admitted. Another
//! client is granted something just before a node is sealed, which what it said before does not tell.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::executor::block_on;
use quorlock::runtime::Runtime as _;
use quorlock::{
    Redlock,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeSpec, NodeState, NodeStatus},
    protocol::{
        Command, FencingToken, Floor, Granted, Join, Marker, Owner, Reply, Resource, Serves,
    },
};
use quorlock_harness::SimRuntime;

use super::MS;

/// A quarter of an hour ahead of the virtual clock: counters go on from there one by one.
const HINT: u64 = 900_000_000;

/// What has happened at one of the nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Event {
    /// A node was sealed, and another client had been granted this just before.
    Sealed { node: usize, granted: FencingToken },
    /// A node is let to vote again, above this.
    Admitted { node: usize, known: u64 },
}

#[derive(Debug)]
struct Noting {
    index: usize,
    memory: MemoryNode,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Noting {
    /// Another client's round, far above every counter so far.
    fn grant(&self) -> FencingToken {
        let mark = block_on(self.memory.join(Join::look(Duration::ZERO))).unwrap().mark();
        let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([7; 16]));
        let release = Command::Release { target: resource.clone().into(), owner, keep: None };
        let hint = Some(HINT);
        let acquire = Command::Acquire {
            target: resource.into(),
            owner,
            ttl: MS,
            hint,
            count: 1,
            first: 0,
            mark,
            note: None,
            stand: None,
        };
        let reply = block_on(self.memory.call(acquire)).unwrap();
        block_on(self.memory.call(release)).unwrap();
        let Reply::Granted(Granted { token: Some(token), .. }) = reply else { panic!("{reply:?}") };
        token
    }
}

impl Node for Noting {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        self.memory.call(command)
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        let ready = || block_on(self.memory.join(Join::look(Duration::ZERO))).unwrap().ready;
        if join.seal && ready() {
            let granted = self.grant();
            self.events.lock().unwrap().push(Event::Sealed { node: self.index, granted });
        }
        self.memory.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        let event = Event::Admitted { node: self.index, known: floor.known };
        self.events.lock().unwrap().push(event);
        self.memory.admit(epoch, floor, serves)
    }

    fn counts_ranges(&self) -> bool {
        self.memory.counts_ranges()
    }

    fn status(&self) -> NodeStatus {
        self.memory.status()
    }
}

#[test]
fn a_node_that_has_forgotten_goes_on_above_what_the_others_say_under_a_seal() {
    for nodes in [3, 5] {
        let runtime = SimRuntime::new(1);
        let events = Arc::new(Mutex::new(Vec::new()));
        let node = |index| {
            let clock = runtime.clone();
            let memory = MemoryNode::with_clock(move || clock.now());
            Arc::new(Noting { index, memory, events: Arc::clone(&events) })
        };
        let noting: Vec<Arc<Noting>> = (0..nodes).map(node).collect();
        let redlock = Redlock::builder()
            .nodes(noting.iter().map(|node| NodeSpec::new(Arc::clone(node) as Arc<dyn Node>)))
            .ttl(20 * MS)
            .max_ttl(20 * MS)
            .node_timeout(50 * MS)
            .runtime(Arc::new(runtime.clone()))
            .build()
            .unwrap();
        let all_ready = || redlock.nodes().iter().all(|node| node.state == NodeState::Ready);
        runtime.pass(100 * MS);
        assert!(all_ready());
        // Counters run ahead of every clock, so that what is granted meanwhile raises the high-water marks.
        for node in &noting {
            node.grant();
        }
        events.lock().unwrap().clear();
        noting[0].memory.restart();
        let mut passed = Duration::ZERO;
        let admitted = |event: &Event| matches!(event, Event::Admitted { .. });
        while !events.lock().unwrap().iter().any(admitted) {
            runtime.pass(MS);
            passed += MS;
            assert!(
                passed < Duration::from_secs(60),
                "it is never admitted: {:?}",
                (redlock.nodes(), events.lock().unwrap())
            );
        }
        let events = events.lock().unwrap().clone();
        let place = events.iter().position(admitted).unwrap();
        let Event::Admitted { node: 0, known } = events[place] else { panic!("{events:?}") };
        let mut sealed = vec![None; nodes];
        for event in &events[..place] {
            if let Event::Sealed { node, granted } = event {
                sealed[*node] = sealed[*node].max(Some(granted.get()));
            }
        }
        let needed = nodes / 2 + 1;
        assert!(sealed.iter().flatten().count() >= needed, "{events:?}");
        let most = sealed.into_iter().flatten().max().unwrap();
        assert!(known >= most, "{known}, and {most} was granted: {events:?}");
        runtime.pass(Duration::from_secs(1));
        assert!(all_ready());
        assert!(noting[0].grant().get() > most);
        runtime.shut_down();
    }
}

//! Goal: an admission costs the rounds that are under way another try, and no caller an error: at whatever moment the
//! nodes are sealed, whatever is asked for, and also where the wait is over by then.
//!
//! Method: several clients in virtual time, on nodes in memory behind links that are milliseconds long, each of another
//! length. A node restarts empty, and each client lets it in when its quarantine is over, by whom the others are sealed.
//! Around that time one client asks for something every half of a millisecond. Nothing that it asks for is in anybody's
//! way, so that all of it is granted.

use std::{
    collections::VecDeque,
    future::{Future, IntoFuture, pending},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorlock::runtime::Runtime as _;
use quorlock::{
    Redlock,
    node::{
        MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState,
        NodeStatus,
    },
    protocol::{Command, Floor, Join, Marker, Serves, Timestamp},
};
use quorlock_harness::SimRuntime;

use super::{MS, SECOND};

/// Every acquire begins so long after the one before.
const STEP: Duration = Duration::from_micros(500);

/// A wait that the first round uses up: the nearest quorum is further away.
const USED_UP: Duration = MS;

/// A node in memory as one client reaches it: every command arrives later, and every answer.
#[derive(Debug)]
struct Far {
    memory: MemoryNode,
    runtime: SimRuntime,
    /// How long a command is under way, and its answer.
    way: Duration,
    /// When the command arrives that was sent last: they arrive in the order in which they were sent.
    last: Mutex<Timestamp>,
    /// How many acquires it has refused since it was sealed.
    refused: Arc<AtomicUsize>,
    /// It answers nothing.
    hangs: Arc<AtomicBool>,
}

impl Far {
    /// Asks when the question arrives, and answers when the answer does.
    fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(MemoryNode) -> NodeFuture<T> + Send + 'static,
    ) -> NodeFuture<T> {
        let arrival = {
            let mut last = self.last.lock().unwrap();
            let next = last.saturating_add(Duration::from_nanos(1));
            *last = self.runtime.now().saturating_add(self.way).max(next);
            *last
        };
        let (runtime, memory, way) = (self.runtime.clone(), self.memory.clone(), self.way);
        if self.hangs.load(Ordering::Relaxed) {
            return Box::pin(pending());
        }
        Box::pin(async move {
            runtime.sleep_until(arrival).await;
            let answer = ask(memory).await;
            runtime.sleep(way).await;
            answer
        })
    }
}

impl Node for Far {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        let acquires = matches!(command, Command::Acquire { .. });
        let answer = self.ask(move |memory| memory.call(command));
        let refused = Arc::clone(&self.refused);
        Box::pin(async move {
            let answer = answer.await;
            let is_refused = acquires && matches!(answer, Err(NodeError::NotAdmitted));
            refused.fetch_add(usize::from(is_refused), Ordering::Relaxed);
            answer
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.ask(move |memory| memory.join(join))
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.ask(move |memory| memory.admit(epoch, floor, serves))
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

    fn reachable(&self) -> Result<(), NodeError> {
        self.memory.reachable()
    }

    fn status(&self) -> NodeStatus {
        self.memory.status()
    }
}

/// Nodes, the client that asks, and others that see to the nodes as it does.
struct World {
    runtime: SimRuntime,
    nodes: Vec<MemoryNode>,
    asks: Redlock,
    others: Vec<Redlock>,
    refused: Arc<AtomicUsize>,
    lost: Arc<Mutex<Vec<String>>>,
    answered: Arc<AtomicUsize>,
    /// Whether the nearest node answers nothing.
    hangs: Arc<AtomicBool>,
}

impl World {
    fn new(nodes: usize, others: usize) -> Self {
        let hangs = Arc::new(AtomicBool::new(false));
        let runtime = SimRuntime::new(1);
        let memory = |_| {
            let clock = runtime.clone();
            MemoryNode::with_clock(move || clock.now())
        };
        let nodes: Vec<MemoryNode> = (0..nodes).map(memory).collect();
        let refused = Arc::new(AtomicUsize::new(0));
        let client = |own: u32, refused: &Arc<AtomicUsize>| {
            let process = runtime.process();
            let far = |(place, memory): (u32, &MemoryNode)| {
                let way = (1 + place + own) * MS;
                let hangs = if place == 0 { Arc::clone(&hangs) } else { Arc::default() };
                let (memory, last) = (memory.clone(), Mutex::new(Timestamp::ORIGIN));
                let (runtime, refused) = (process.clone(), Arc::clone(refused));
                let far = Far { memory, runtime, way, last, refused, hangs };
                NodeSpec::new(Arc::new(far) as Arc<dyn Node>)
            };
            Redlock::builder()
                .nodes((0..).zip(&nodes).map(far))
                .ttl(SECOND)
                .max_ttl(SECOND)
                .node_timeout(100 * MS)
                .runtime(Arc::new(process.clone()))
                .build()
                .unwrap()
        };
        let asks = client(0, &refused);
        let others = (1..).take(others).map(|own| client(own, &Arc::default())).collect();
        let (lost, answered) = (Arc::default(), Arc::default());
        let world =
            Self { runtime: runtime.clone(), nodes, asks, others, refused, lost, answered, hangs };
        world.runtime.pass(SECOND);
        assert!(world.are_all_ready());
        world
    }

    fn are_all_ready(&self) -> bool {
        let is_ready =
            |client: &Redlock| client.nodes().iter().all(|node| node.state == NodeState::Ready);
        is_ready(&self.asks) && self.others.iter().all(is_ready)
    }

    /// The last node restarts empty. Returns how long its quarantine is, less a moment in which rounds can begin.
    fn restart(&self) {
        self.nodes.last().unwrap().restart();
        self.runtime.pass(100 * MS);
        let NodeState::Quarantined { remaining } = self.asks.nodes().last().unwrap().state else {
            panic!("{:?}", self.asks.nodes())
        };
        self.runtime.pass(remaining.saturating_sub(40 * MS));
    }

    /// Something is asked for; what comes of it is noted.
    fn ask<T: Send + 'static>(
        &self,
        what: String,
        asking: impl Future<Output = Result<T, quorlock::AcquireError>> + Send + 'static,
    ) {
        let (lost, answered) = (Arc::clone(&self.lost), Arc::clone(&self.answered));
        let (runtime, begun) = (self.runtime.clone(), self.runtime.now());
        self.runtime.spawn(Box::pin(async move {
            if let Err(error) = asking.await {
                let after = runtime.now().saturating_since(begun);
                lost.lock().unwrap().push(format!("{what} after {after:?}: {error}"));
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }));
    }

    /// All that was asked for was granted, some of it after it had been refused.
    fn all_were_granted(&self, asked: usize) {
        self.runtime.pass(SECOND);
        assert_eq!(self.answered.load(Ordering::Relaxed), asked);
        assert_eq!(self.asks.nodes().last().unwrap().state, NodeState::Ready);
        let (refused, lost) = (self.refused.load(Ordering::Relaxed), self.lost.lock().unwrap());
        println!("{asked} asked for, {refused} answers were refusals, {} lost", lost.len());
        assert!(refused > 0, "no round has met a seal");
        let shown = lost.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(lost.is_empty(), "{} of {asked} were lost:\n{shown}", lost.len());
    }
}

/// Asks once, for as long as the first round takes, or for long; for each kind of thing.
fn ask_for(world: &World, kind: usize, name: &str) {
    let (asks, what) = (&world.asks, format!("{kind}"));
    let others = format!("{name}:too");
    let permits = || asks.semaphore(name, 3).unwrap();
    match kind {
        0 => world.ask(what, asks.try_acquire(name).into_future()),
        1 => world.ask(what, asks.acquire(name).wait(USED_UP).into_future()),
        2 => world.ask(what, asks.acquire(name).wait_without_deadline().into_future()),
        3 => world.ask(what, asks.try_acquire_all([name, &others]).into_future()),
        4 => world.ask(what, asks.acquire_all([name, &others]).wait(USED_UP).into_future()),
        5 => world.ask(what, asks.try_read(name).into_future()),
        6 => world.ask(what, asks.read(name).wait(USED_UP).into_future()),
        7 => world.ask(what, permits().try_acquire().into_future()),
        _ => world.ask(what, permits().acquire().wait(USED_UP).into_future()),
    }
}

const KINDS: usize = 9;

fn in_any_moment(nodes: usize, others: usize, hangs: bool) {
    // A client that looks at a hung node waits for its answer for a node timeout, and then goes on: that takes longer.
    let (moments, step) = if hangs { (300, 3 * STEP) } else { (160, STEP) };
    // Each kind has its turn in each of the moments.
    for first in 0..KINDS {
        let world = World::new(nodes, others);
        world.restart();
        world.hangs.store(hangs, Ordering::Relaxed);
        for moment in 0..moments {
            ask_for(&world, (first + moment) % KINDS, &format!("r{moment}"));
            world.runtime.pass(step);
        }
        world.all_were_granted(moments);
        world.runtime.shut_down();
    }
}

#[test]
fn an_admission_in_any_moment_of_a_round_costs_no_caller_an_error() {
    for (nodes, others) in [(3, 1), (5, 1), (5, 6)] {
        in_any_moment(nodes, others, false);
    }
}

#[test]
fn nor_does_it_beside_a_node_that_hangs() {
    in_any_moment(5, 3, true);
}

/// The round that begins when the holder has gone ends after the wait is over. A caller that is too late is told that
/// it was held, and not of an outage.
#[test]
fn nor_one_who_has_waited_for_a_holder_up_to_its_deadline() {
    for nodes in [3, 5] {
        let world = World::new(nodes, 1);
        let hold = |name: String| {
            let request = world.others[0].acquire(name).into_future();
            world.runtime.block_on(request).unwrap()
        };
        let moments = 160;
        let mut held: VecDeque<_> = (0..moments).map(|moment| hold(format!("h{moment}"))).collect();
        world.restart();
        // They stand in line on the nodes by then.
        let ahead = 60 * MS;
        for moment in 0..moments + 120 {
            if moment < moments {
                let name = format!("h{moment}");
                let quorum = (nodes / 2 + 1) as u32;
                let told = (1 + quorum) * MS;
                let request = world.asks.acquire(name).wait(ahead + told + 3 * MS);
                // The nodes' line is advice: it may say too late that the key is free.
                world.ask(format!("{moment}"), async move {
                    match request.await {
                        Err(held) if held.is_contended() => Ok(None),
                        answer => answer.map(Some),
                    }
                });
            }
            if moment >= 120 {
                drop(held.pop_front());
            }
            world.runtime.pass(STEP);
        }
        world.all_were_granted(moments);
        world.runtime.shut_down();
    }
}

//! Goal: what has been seen of a node outweighs an answer that the node gave before, and nobody is blamed, or
//! forgiven, for lack of evidence.
//!
//! Method: nodes in memory behind a node of our own that holds back an answer, says of one command that the clock
//! has jumped, or is cut off. Where times matter they are virtual; an answer is let go when what must come first
//! has happened.
#![cfg(feature = "tracing")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    future::IntoFuture,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures::channel::oneshot;
use quorlock::runtime::Runtime as _;
use quorlock::{
    Redlock,
    node::{
        MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeSpec, NodeState,
        NodeStatus, Refusal,
    },
    protocol::{Command, Floor, Join, Marker},
};
use quorlock_harness::{SimRuntime, eventually};
use tracing_subscriber::{Layer, layer::SubscriberExt as _};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(20);

/// What the next commands meet.
#[derive(Debug, Default)]
struct Plan {
    /// The next look at the marker tells of itself, and is answered once this is answered.
    hold: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// The next acquire shows a clock that has jumped.
    jump: bool,
    /// It cannot be reached.
    cut: bool,
    /// What comes of a look at the marker.
    unreadable: Option<NodeError>,
    /// The next acquire or extension is executed, tells of itself, and is answered once this is answered.
    answer_later: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// The acquires that it has been asked for.
    acquires: usize,
    /// The looks at its marker.
    looks: usize,
    /// The eras in which the node has been made to join again.
    forced: Vec<u64>,
}

/// A node in memory that does not answer at once.
#[derive(Debug)]
struct Slow {
    memory: MemoryNode,
    plan: Mutex<Plan>,
    context: OnceLock<NodeContext>,
}

impl Slow {
    fn new(memory: MemoryNode) -> Arc<Self> {
        Arc::new(Self { memory, plan: Mutex::default(), context: OnceLock::new() })
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    /// Cuts it off, or lets it be reached again.
    fn cut(&self, cut: bool) {
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

    fn admit(&self, era: u64, floor: Floor) -> NodeFuture<bool> {
        self.memory.admit(era, floor)
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
fn in_virtual_time(nodes: usize) -> (SimRuntime, Vec<Arc<Slow>>, Redlock) {
    in_virtual_time_with(nodes, 20 * MS)
}

/// The same with leases of a fleet that may be that long.
fn in_virtual_time_with(nodes: usize, max_ttl: Duration) -> (SimRuntime, Vec<Arc<Slow>>, Redlock) {
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
fn ask(runtime: &SimRuntime, redlock: &Redlock) {
    drop(runtime.block_on(redlock.try_acquire("r").into_future()));
}

/// Whoever looks at all nodes now and then has heard that this one is ready before its clock jumped, and hears of
/// the others afterwards.
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

/// Something else to see to every few seconds does not put it off.
#[test]
fn all_nodes_are_looked_at_every_ten_seconds_whatever_else_happens() {
    let (runtime, slow, redlock) = in_virtual_time(3);
    for every in [3 * SECOND, 7 * SECOND, 9 * SECOND + 900 * MS, 60 * SECOND] {
        let (mut woken, mut looked, mut looks) = (runtime.now(), runtime.now(), 0);
        let until = runtime.now().saturating_add(60 * SECOND);
        while runtime.now() < until {
            runtime.pass(100 * MS);
            let now = runtime.now();
            if now.saturating_since(woken) >= every {
                woken = now;
                slow[0].context.get().unwrap().changed();
            }
            if slow[2].plan().looks > looks {
                looks = slow[2].plan().looks;
                looked = now;
            }
            let since = now.saturating_since(looked);
            assert!(
                since <= 10 * SECOND + 200 * MS,
                "{since:?} without a look, woken every {every:?}"
            );
        }
    }
    drop(redlock);
    runtime.shut_down();
}

/// What a node answers to is what it was asked before its clock was seen to jump: it is no vote.
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

/// Two of five clocks have jumped, and two nodes cannot be asked: one that goes on as it should is no evidence
/// that ours does, and no evidence that it does not.
#[test]
fn nodes_whose_clocks_jumped_do_not_vote_until_the_others_can_be_asked() {
    let max_ttl = 3 * SECOND;
    let (runtime, slow, redlock) = in_virtual_time_with(5, max_ttl);
    slow[3].cut(true);
    slow[4].cut(true);
    runtime.pass(10 * MS);
    slow[0].plan().jump = true;
    slow[1].plan().jump = true;
    ask(&runtime, &redlock);
    let asked = [slow[0].plan().acquires, slow[1].plan().acquires];
    for _ in 0..20 {
        runtime.pass(100 * MS);
        ask(&runtime, &redlock);
    }
    assert_eq!([slow[0].plan().acquires, slow[1].plan().acquires], asked, "they are not asked");
    assert!(slow.iter().all(|node| node.plan().forced.is_empty()), "and not blamed");
    slow[3].cut(false);
    slow[4].cut(false);
    runtime.pass(SECOND);
    assert!(slow[..2].iter().all(|node| !node.plan().forced.is_empty()), "now they are");
    assert!(slow[2..].iter().all(|node| node.plan().forced.is_empty()));
    runtime.pass(max_ttl + SECOND);
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));
    runtime.shut_down();
}

/// The others are away for good.
#[test]
fn nodes_whose_clocks_jumped_vote_again_when_no_lease_of_before_lasts() {
    let max_ttl = 3 * SECOND;
    let quarantine = max_ttl + max_ttl / 10 + 100 * MS;
    let (runtime, slow, redlock) = in_virtual_time_with(5, max_ttl);
    slow[3].cut(true);
    slow[4].cut(true);
    runtime.pass(10 * MS);
    slow[0].plan().jump = true;
    slow[1].plan().jump = true;
    let jumped = runtime.now();
    ask(&runtime, &redlock);
    let acquires = || [slow[0].plan().acquires, slow[1].plan().acquires];
    let asked = acquires();
    while runtime.now().saturating_since(jumped) < quarantine {
        assert_eq!(acquires(), asked, "they are not asked");
        runtime.pass(50 * MS);
        ask(&runtime, &redlock);
    }
    runtime.pass(SECOND);
    ask(&runtime, &redlock);
    assert!(acquires().iter().zip(asked).all(|(now, before)| *now > before), "they are asked");
    assert!(slow.iter().all(|node| node.plan().forced.is_empty()), "and nobody was blamed");
    assert!(redlock.nodes()[..3].iter().all(|node| node.state == NodeState::Ready));
    runtime.shut_down();
}

/// A clock of our own that stood still makes all nodes look as if they had jumped.
#[test]
fn nobody_is_blamed_where_a_majority_seems_to_have_jumped() {
    let (runtime, slow, redlock) = in_virtual_time(5);
    slow[..3].iter().for_each(|node| node.plan().jump = true);
    ask(&runtime, &redlock);
    runtime.pass(SECOND);
    assert!(slow.iter().all(|node| node.plan().forced.is_empty()));
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready));
    runtime.shut_down();
}

/// How a node is shown that was ready before, and whose marker cannot be read any more for this reason.
fn shown(error: NodeError) -> NodeState {
    let (runtime, slow, redlock) = in_virtual_time(3);
    slow[0].plan().unreadable = Some(error);
    slow[0].memory.restart();
    runtime.pass(SECOND);
    let state = redlock.nodes()[0].state.clone();
    slow[0].plan().unreadable = None;
    runtime.pass(10 * SECOND);
    assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready), "after {state:?}");
    runtime.shut_down();
    state
}

#[test]
fn whatever_keeps_a_marker_from_being_read_and_does_not_pass_by_itself_is_shown() {
    let text = || Arc::<str>::from("scripted");
    let lasting = [
        NodeError::Rejected { sent: true, code: text(), message: text() },
        NodeError::Unexpected { message: text() },
        NodeError::Panicked { sent: true, message: text() },
        NodeError::CounterExhausted,
    ];
    for error in lasting {
        let state = shown(error.clone());
        let NodeState::Down { reason } = &state else { panic!("{error}: {state:?}") };
        assert!(reason.contains(&error.to_string()), "{error}: {reason}");
    }
    let refusal = || Refusal::Unidentified;
    assert_eq!(shown(NodeError::Refused(refusal())), NodeState::Refused(refusal()));
    // What passes is nothing to be told of.
    for error in [NodeError::TimedOut, NodeError::Overloaded, NodeError::NotAdmitted] {
        assert_eq!(shown(error.clone()), NodeState::Connecting, "{error}");
    }
}

/// A log that looks at the nodes whenever it is told something, and panics the first time that it is told of a
/// quarantine.
struct Curious {
    redlock: Arc<OnceLock<Redlock>>,
    looks: Arc<AtomicUsize>,
    panicked: AtomicBool,
}

impl<S: tracing::Subscriber> Layer<S> for Curious {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let Some(redlock) = self.redlock.get() else { return };
        drop(redlock.nodes());
        self.looks.fetch_add(1, Ordering::Relaxed);
        let quarantined = event.metadata().fields().field("quarantine").is_some();
        assert!(!quarantined || self.panicked.swap(true, Ordering::Relaxed), "a log that panics");
    }
}

#[test]
fn a_log_that_looks_at_the_nodes_and_panics_stops_no_admission() {
    let (done, ended) = mpsc::channel();
    // It would hang, not fail, if the log were told under a lock.
    let test = std::thread::spawn(move || {
        let (redlock, looks) = (Arc::<OnceLock<Redlock>>::default(), Arc::<AtomicUsize>::default());
        let panicked = AtomicBool::new(false);
        let log = Curious { redlock: Arc::clone(&redlock), looks: Arc::clone(&looks), panicked };
        let subscriber = tracing_subscriber::registry().with(log);
        tracing::subscriber::with_default(subscriber, || {
            let (runtime, slow, ready) = in_virtual_time(3);
            redlock.set(ready.clone()).unwrap();
            slow[0].memory.restart();
            runtime.pass(10 * SECOND);
            assert!(looks.load(Ordering::Relaxed) > 1, "it has been told");
            assert!(ready.nodes().iter().all(|node| node.state == NodeState::Ready));
            runtime.shut_down();
        });
        let _ = done.send(());
    });
    assert_ne!(ended.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    test.join().unwrap();
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
        .connect_blocking()
        .unwrap();
    restarted.restart();
    eventually("it is quarantined", SOON, || {
        matches!(redlock.nodes()[0].state, NodeState::Quarantined { .. })
    });
    // Whoever admits it asks the others first.
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

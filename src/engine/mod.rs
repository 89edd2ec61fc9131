//! The engine: it runs the state machines of `protocol` on the nodes and the runtime.
//!
//! It hands verdicts to callers, and counts the work under way. `protocol` decides each verdict; `node` decides how a
//! command travels.

mod acquire;
mod activity;
mod admission;
mod calls;
mod client;
mod driver;
mod election;
mod events;
mod extend;
mod fanout;
#[cfg(feature = "metrics")]
mod gauges;
mod grant;
mod held;
mod holder;
#[cfg(feature = "inspect")]
mod inspect;
mod line;
mod probe;
mod readiness;
mod release;
mod resources;
mod shield;
mod shift;
mod watch;

use std::{
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::ThreadId,
    time::Duration,
};

#[cfg(feature = "inspect")]
pub(crate) use self::inspect::Scanned;
pub(crate) use self::{
    acquire::{AcquireSpec, Acquiring},
    election::Proclamation,
    grant::{Grant, HeldTerm, LeaseTerm, ReleaseAnswer, WeakTerm},
    holder::{Completions, Sightings, answered},
    readiness::ready,
};
use self::{
    acquire::{Met, Request},
    activity::{Activity, Counted},
    client::SharedClient,
    driver::Driver,
    held::Outcomes,
    shield::Shielded,
    watch::{Repeats, Waiters},
};
use crate::{
    config::Config,
    lock::Lock,
    node::{Fleet, Node, NodeContext, NodeError, NodeSettings, NodeState, NodeStatus},
    protocol::{
        Admission, AdmissionPolicy, ClientId, ClientSettings, Members, NodeId, Quorum,
        RttEstimator, Timestamp, UnloadedTrip,
    },
    runtime::{Process, Runtime, Task},
    shield::{persist, shielded},
    telemetry::{self, metrics::Labelled},
};

/// How long work that must go on pauses after a panic of the runtime.
const AFTER_PANIC: Duration = Duration::from_millis(500);

/// What all leases and requests of one [`Redlock`](crate::Redlock) share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) quorum: Quorum,
    nodes: Box<[NodeSlot]>,
    /// The first node that cannot take several resources at once.
    takes_no_sets: Option<NodeId>,
    /// The first node that cannot take readers.
    takes_no_readers: Option<NodeId>,
    /// The first node that cannot pick slots.
    picks_no_slots: Option<NodeId>,
    /// The first node that cannot give a key from one owner to another.
    hands_nothing_over: Option<NodeId>,
    /// The first node that keeps nothing of what is done.
    keeps_no_completions: Option<NodeId>,
    runtime: Arc<dyn Runtime>,
    /// The process in which its tasks run.
    process: Process,
    fleet: Arc<Fleet>,
    round_trip: RttEstimator,
    unloaded: UnloadedTrip,
    admission: Lock<Admission>,
    /// The list of nodes that it is configured with.
    #[cfg(feature = "inspect")]
    pub(crate) members: Members,
    /// It has withdrawn from the nodes: its looks claim none any more.
    withdrawn: AtomicBool,
    /// It only looks: its looks claim no node, and end no claim.
    only_looks: AtomicBool,
    /// The state machine of held grants and of requests.
    client: SharedClient,
    /// The threads that carry out events.
    carrying_out: Lock<Vec<ThreadId>>,
    /// How to reach the driver, the one task of the engine.
    driver: Arc<Driver>,
    /// The results of leases that a shutdown ended.
    outcomes: Arc<Outcomes>,
    active: Activity,
    /// Repeated events, and when each was last logged.
    repeats: Lock<Repeats>,
    waiters: Lock<Waiters>,
    closed: AtomicBool,
}

/// A node, with the engine's knowledge of it.
#[derive(Debug)]
struct NodeSlot {
    node: Shielded,
    address: Arc<str>,
    round_trip: RttEstimator,
    /// Why its marker could last not be read or set, if that did not pass by itself. `admission` knows whether this
    /// still holds.
    trouble: Lock<Option<NodeError>>,
}

/// What the nodes are told of the configuration.
fn node_settings(config: &Config, members: Members, client: ClientId) -> NodeSettings {
    NodeSettings {
        skips_quarantine: config.admission == AdmissionPolicy::DangerSkip,
        connect_timeout: config.connect_timeout,
        node_timeout: config.node_timeout,
        allow_eviction: config.allow_eviction,
        classic: config.classic,
        counter_retention: config.counter_retention,
        members,
        key_prefix: config.key_prefix.clone(),
        client,
    }
}

impl Engine {
    /// Starts every node.
    pub(crate) fn start(
        config: Config,
        nodes: Vec<Arc<dyn Node>>,
        (members, quorum): (Members, Quorum),
        runtime: Arc<dyn Runtime>,
    ) -> Arc<Self> {
        let fleet = Arc::new(Fleet::default());
        let [a, b, c, d, e, f, g, h, ..] = runtime.random();
        let client = ClientId::new([a, b, c, d, e, f, g, h]);
        let settings = Arc::new(node_settings(&config, members, client));
        for (index, node) in nodes.iter().enumerate() {
            node.start(NodeContext::new(
                NodeId::new(index),
                Arc::clone(&runtime),
                Arc::clone(&fleet),
                Arc::clone(&settings),
            ));
        }
        let slot = |node: Arc<dyn Node>| NodeSlot {
            address: node.status().address,
            node: Shielded::new(node),
            round_trip: RttEstimator::default(),
            trouble: Lock::new(None),
        };
        let process = Process::current();
        let nodes: Box<[NodeSlot]> = nodes.into_iter().map(slot).collect();
        let moves_within =
            nodes.iter().map(|slot| slot.node.moves_within()).fold(Duration::ZERO, Duration::max);
        let admission = Admission::new(
            quorum,
            config.admission,
            config.longest_ttl(),
            config.node_timeout.saturating_mul(2).saturating_add(moves_within),
        )
        .with_members(settings.members.clone());
        let counts_ranges = nodes.iter().all(|slot| slot.node.counts_ranges());
        let (node_timeout, drift, max_ttl) =
            (config.node_timeout, config.drift(), config.most_ttl());
        let adapts = true;
        let settings_of_client =
            ClientSettings { quorum, client, node_timeout, drift, max_ttl, adapts, counts_ranges };
        let here = SharedClient::new(process, settings_of_client);
        // The listener must not keep the engine alive: the engine keeps the fleet, and the fleet the listener.
        let listener = resources::listen(&fleet);
        let fenced = !config.classic;
        let engine = Arc::new(Self {
            config,
            quorum,
            takes_no_readers: nodes
                .iter()
                .position(|slot| !slot.node.takes_readers())
                .map(NodeId::new),
            picks_no_slots: nodes.iter().position(|slot| !slot.node.picks_slots()).map(NodeId::new),
            keeps_no_completions: nodes
                .iter()
                .position(|slot| !slot.node.keeps_completions())
                .map(NodeId::new),
            hands_nothing_over: nodes
                .iter()
                .position(|slot| !slot.node.hands_over())
                .map(NodeId::new),
            takes_no_sets: nodes.iter().position(|slot| !slot.node.takes_sets()).map(NodeId::new),
            nodes,
            runtime,
            process,
            fleet,
            round_trip: RttEstimator::default(),
            unloaded: UnloadedTrip::default(),
            admission: Lock::new(admission),
            #[cfg(feature = "inspect")]
            members: settings.members.clone(),
            withdrawn: AtomicBool::new(false),
            only_looks: AtomicBool::new(false),
            client: here,
            carrying_out: Lock::default(),
            driver: Arc::default(),
            outcomes: Arc::default(),
            active: Activity::default(),
            repeats: Lock::default(),
            waiters: Lock::new(watch::waiters()),
            closed: AtomicBool::new(false),
        });
        let _ = listener.set(Arc::downgrade(&engine));
        // Not counted as under way. It runs as long as the engine lives, and does not keep it alive.
        let weak = Arc::downgrade(&engine);
        engine.runtime.spawn(Box::pin(async move {
            let begin = || probe::attend(Weak::clone(&weak), fenced);
            persist(begin, || after_panic(&weak)).await;
        }));
        telemetry::metrics::describe();
        telemetry::metrics::begin();
        #[cfg(feature = "metrics")]
        {
            let weak = Arc::downgrade(&engine);
            engine.spawn_uncounted(async move {
                let begin = || gauges::attend(Weak::clone(&weak));
                persist(begin, || after_panic(&weak)).await;
            });
        }
        if telemetry::IS_ON {
            let weak = Arc::downgrade(&engine);
            // If the runtime refuses this task, only the log lines are lost.
            engine.spawn_uncounted(async move {
                let begin = || watch::attend(Weak::clone(&weak));
                persist(begin, || after_panic(&weak)).await;
            });
        }
        engine
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.runtime.now()
    }

    /// The same for what is only counted: where the clock, which is user code, panics, nothing is.
    pub(crate) fn now_to_count(&self) -> Option<Timestamp> {
        let mut now = None;
        if cfg!(feature = "metrics") {
            shielded(|| now = Some(self.now()));
        }
        now
    }

    fn steady(&self) -> Timestamp {
        self.runtime.steady()
    }

    /// Whether work begun now will run. If not, nothing may be waited for: a lock or a turn may be held for ever, such
    /// as by a thread of the parent process alone. The process is checked too, since a runtime need not notice a fork.
    pub(crate) fn is_served(&self) -> bool {
        self.process.is_here() && self.runtime.serves()
    }

    /// The process in which requests are answered.
    pub(crate) const fn process(&self) -> Process {
        self.process
    }

    /// Whether this is the thread that runs the tasks.
    pub(crate) fn runs_here(&self) -> bool {
        self.runtime.runs_here()
    }

    /// A random number.
    #[cfg(feature = "inspect")]
    pub(crate) fn number(&self) -> u32 {
        let [a, b, c, d, ..] = self.runtime.random();
        u32::from_be_bytes([a, b, c, d])
    }

    /// The wall clock, in microseconds.
    pub(crate) fn wall_us(&self) -> u64 {
        self.runtime.wall_us()
    }

    pub(crate) fn sleep_until(&self, at: Timestamp) -> Task {
        self.runtime.sleep_until(at)
    }

    pub(crate) fn statuses(&self) -> Vec<NodeStatus> {
        if !self.process.is_here() {
            // The connections are the parent's, and a thread of the parent may hold their locks.
            let reason: Arc<str> =
                Arc::from("this process was forked, build a `Redlock` of its own");
            let down = |slot: &NodeSlot| {
                let state = NodeState::Down { reason: Arc::clone(&reason) };
                NodeStatus::new(Arc::clone(&slot.address), state)
            };
            return self.nodes.iter().map(down).collect();
        }
        let status = |slot: &NodeSlot| {
            let mut status = slot.node.status().unwrap_or_else(|error| {
                let reason = Arc::from(error.to_string());
                NodeStatus::new(Arc::clone(&slot.address), NodeState::Down { reason })
            });
            status.round_trip = status.round_trip.or_else(|| slot.round_trip.round_trip());
            status
        };
        let mut statuses: Vec<NodeStatus> = self.nodes.iter().map(status).collect();
        for (index, status) in statuses.iter_mut().enumerate() {
            let node = NodeId::new(index);
            // A node knows its connection; the engine knows whether the node may vote.
            if status.state == NodeState::Ready
                && let Some(state) = self.standing_as_state(node, status.identity.as_ref())
            {
                status.state = state;
            }
        }
        statuses
    }

    fn slot(&self, node: NodeId) -> Option<&NodeSlot> {
        self.nodes.get(node.index())
    }

    /// The metric labels of a node.
    fn labelled<'a>(&'a self, slot: &'a NodeSlot) -> Labelled<'a> {
        Labelled { fleet: &self.config.fleet, address: &slot.address }
    }

    /// Runs a task on the runtime that closing does not wait for. If the runtime panics over it, the task is dropped:
    /// its waiter notices, and nothing else suffers.
    fn spawn_uncounted(&self, task: impl Future<Output = ()> + Send + 'static) {
        shielded(|| self.runtime.spawn(Box::pin(task)));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// The pause after a panic of the runtime. It does not keep the engine alive.
async fn after_panic(engine: &Weak<Engine>) {
    let sleep =
        engine.upgrade().map(|engine| engine.sleep_until(engine.now().saturating_add(AFTER_PANIC)));
    if let Some(sleep) = sleep {
        sleep.await;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // In a forked child no task is left to hear it, and another thread may have held a lock on the way.
        let is_here = self.process.is_here();
        if is_here {
            // Tasks that do not keep this engine alive learn that it is gone.
            self.fleet.attention.notify_one();
        }
        if self.is_served() {
            self.fleet.tell();
        }
        self.abandon_kept();
        if is_here {
            self.end_driver();
        }
    }
}

//! A node that follows a script: what it does to an acquire, and to the first release after it.
//!
//! What is set on it is kept by a `MemoryNode`, so that the tests look at a server's answers and not at a
//! mock's. It keeps the contract of `Node`: commands of one connection are executed in the order in which
//! they were first polled (N1), once or never (N2), and nothing is sent before the first poll (N4).

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use quorlock::{
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeState, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Owner, Reply, Resource, Serves, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use crate::MS;

/// What a node does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Behaviour {
    /// It answers after a millisecond.
    Ok,
    /// Another program holds the resource there, without a ttl.
    Denied,
    /// The first command of each owner finds no connection; later ones do.
    NotSent,
    /// The first command of each owner is executed and its answer lost; so is that of the second.
    Unknown,
    /// The connection breaks under each acquire and each restore, which the server executes later all the
    /// same: a release that was sent meanwhile, on the next connection, has overtaken it.
    Overtaken,
    /// It stands still for longer than the node timeout, and then executes what came, in order.
    Slow,
    /// It is stopped, takes everything and answers nothing, until [`ScriptedNode::revive`].
    Never,
    /// A restore is executed, and its answer shows that the node's clock has jumped.
    Jumped,
    /// Its user may not touch the key; it answers later than the others.
    NotAllowed,
    /// A release makes the node panic.
    Panics,
    /// It executes one command after the other, each of which takes a quarter of a millisecond.
    Busy,
    /// It is far away: it answers much later than the others, and in time.
    Far,
}

impl Behaviour {
    /// Those that an acquire and a release can meet.
    pub(crate) const ALL: [Self; 7] = [
        Self::Ok,
        Self::Denied,
        Self::NotSent,
        Self::Unknown,
        Self::Overtaken,
        Self::Slow,
        Self::Never,
    ];
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sort {
    Acquire,
    Release,
    /// It changes nothing unless the key stands there already.
    Other,
}

/// What was sent, in the order of the first polls.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Sent {
    owner: Owner,
    what: Sort,
    /// Whether the node was certainly not changed by it.
    harmless: bool,
}

#[derive(Clone)]
pub(crate) struct ScriptedNode {
    index: usize,
    behaviour: Arc<Mutex<Behaviour>>,
    runtime: SimRuntime,
    memory: MemoryNode,
    log: Arc<Mutex<Log>>,
    context: Arc<OnceLock<NodeContext>>,
    /// How often a client has left the line.
    left: Arc<Mutex<usize>>,
}

#[derive(Default)]
struct Log {
    sent: Vec<Sent>,
    /// When the command before this one is executed: the next one is executed after it.
    last: Timestamp,
    /// The last time at which this node stands still, once it has been asked.
    frozen_until: Option<Timestamp>,
}

/// By how much a release may overtake an acquire: less than a node timeout, after which it is repeated.
const OVERTAKEN_BY: Duration = crate::NODE_TIMEOUT.saturating_sub(Duration::from_millis(2));

/// How far away a node is that is far away.
pub(crate) const FAR: Duration = crate::NODE_TIMEOUT.saturating_sub(Duration::from_millis(3));

const OTHER: &[u8] = b"another program";

impl ScriptedNode {
    pub(crate) fn new(index: usize, behaviour: Behaviour, runtime: SimRuntime) -> Self {
        let clock = runtime.clone();
        let memory = MemoryNode::with_clock(move || clock.now());
        if behaviour == Behaviour::Denied {
            memory.set("r", OTHER, None);
            // A slot of two, so that this node picks the other one.
            memory.set("s/0", OTHER, None);
        }
        let behaviour = Arc::new(Mutex::new(behaviour));
        let (log, context, left) = (Arc::default(), Arc::default(), Arc::default());
        Self { index, behaviour, runtime, memory, log, context, left }
    }

    fn behaviour(&self) -> Behaviour {
        *self.behaviour.lock().unwrap()
    }

    /// From now on it behaves otherwise.
    pub(crate) fn turn(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
        self.begin();
    }

    /// The other program holds the resource here too.
    pub(crate) fn deny(&self) {
        self.memory.set("r", OTHER, None);
    }

    /// It tells that the resource is free here, whether or not it is.
    pub(crate) fn tell_freed(&self) {
        self.context.get().unwrap().freed(&Resource::new("r").unwrap());
    }

    /// The key of `resource` is gone, as by somebody's `DEL`.
    pub(crate) fn forget(&self, resource: &str) {
        self.memory.set(resource, "", Some(Duration::ZERO));
    }

    /// From now on it behaves as it is to: until then it could be admitted, as any node.
    pub(crate) fn begin(&self) {
        if self.behaviour() == Behaviour::Never {
            self.memory.pause();
        }
    }

    /// The keys that are not the other program's.
    pub(crate) fn our_keys(&self) -> Vec<Vec<u8>> {
        let keys = self.memory.keys().into_iter();
        keys.filter(|key| self.memory.get(key).as_deref() != Some(OTHER)).collect()
    }

    /// The acquires that may have been executed, or may yet be, without a release behind them.
    pub(crate) fn not_released(&self) -> Vec<Sent> {
        let log = self.log.lock().unwrap();
        let needs_release = |(place, sent): (usize, &Sent)| {
            let behind = &log.sent[place..];
            let is_its_release =
                |later: &Sent| later.what == Sort::Release && later.owner == sent.owner;
            let released = behind.iter().any(is_its_release);
            (sent.what == Sort::Acquire && !sent.harmless && !released).then(|| sent.clone())
        };
        log.sent.iter().enumerate().filter_map(needs_release).collect()
    }

    /// Whether a key was sent behind the release of its own owner.
    pub(crate) fn set_after_release(&self) -> bool {
        let log = self.log.lock().unwrap();
        let released = |(place, sent): (usize, &Sent)| {
            let is_release =
                |earlier: &Sent| earlier.what == Sort::Release && earlier.owner == sent.owner;
            sent.what == Sort::Acquire && log.sent[..place].iter().any(is_release)
        };
        log.sent.iter().enumerate().any(released)
    }

    /// A stopped node goes on, and executes whatever it has been sent, in order.
    pub(crate) fn revive(&self) {
        self.memory.resume();
    }

    /// Raises the counters of `r` and of two slots by this and a minute at least, so that no hint is above it and nodes with
    /// different numbers have to confirm each other's.
    pub(crate) fn count(&self, number: u8) {
        ["r", "s/0", "s/1"].into_iter().for_each(|name| self.count_of(name, number));
    }

    fn count_of(&self, name: &str, number: u8) {
        let resource = Resource::new(name).unwrap();
        let look = self.memory.join(Join::look(Duration::ZERO));
        let mark = futures::executor::block_on(look).unwrap().mark();
        for index in 0..=number {
            let owner = Owner::from_random([index; 16]);
            let (resource, hint) = (resource.clone(), Some(u64::MAX));
            let release = Command::Release { target: resource.clone().into(), owner, keep: None };
            let acquire = Command::Acquire {
                target: resource.into(),
                owner,
                ttl: 10 * MS,
                hint,
                count: 1,
                first: 0,
                mark,
                note: None,
                stand: None,
            };
            for command in [acquire, release] {
                futures::executor::block_on(self.memory.call(command)).unwrap();
            }
        }
    }

    /// How often it was asked to confirm or to extend.
    pub(crate) fn confirms(&self) -> usize {
        self.log.lock().unwrap().sent.iter().filter(|sent| sent.what == Sort::Other).count()
    }

    /// What was sent to it, in order.
    pub(crate) fn sorts(&self) -> Vec<Sort> {
        self.log.lock().unwrap().sent.iter().map(|sent| sent.what).collect()
    }

    /// How often a client has left its line.
    pub(crate) fn left(&self) -> usize {
        *self.left.lock().unwrap()
    }

    /// Everything that was sent to it.
    pub(crate) fn sent(&self) -> usize {
        self.log.lock().unwrap().sent.len()
    }

    /// Notes a command at its first poll. Returns how many its owner had sent before, and when this one is
    /// to be executed.
    fn note(&self, command: &Command) -> (usize, Timestamp) {
        let (owner, what) = match command {
            Command::Acquire { owner, .. } | Command::Restore { owner, .. } => {
                (*owner, Sort::Acquire)
            }
            Command::Release { owner, .. } => (*owner, Sort::Release),
            Command::Confirm { owner, .. } | Command::Extend { owner, .. } => (*owner, Sort::Other),
            other => panic!("a command that these tests do not know: {other:?}"),
        };
        let (now, behaviour) = (self.runtime.now(), self.behaviour());
        let mut log = self.log.lock().unwrap();
        let before = log.sent.iter().filter(|sent| sent.owner == owner).count();
        let not_sent = behaviour == Behaviour::NotSent && before == 0;
        let harmless = matches!(behaviour, Behaviour::Denied | Behaviour::NotAllowed) || not_sent;
        log.sent.push(Sent { owner, what, harmless });
        if behaviour == Behaviour::Overtaken && what == Sort::Acquire {
            return (before, now.saturating_add(OVERTAKEN_BY));
        }
        let far = behaviour == Behaviour::Far;
        let mut at = now.saturating_add(if far { FAR } else { MS });
        if behaviour == Behaviour::Slow {
            let frozen_until = *log.frozen_until.get_or_insert_with(|| now.saturating_add(35 * MS));
            at = at.max(frozen_until);
        }
        let takes = match behaviour {
            Behaviour::Busy => MS / 4,
            _ => Duration::from_nanos(1),
        };
        at = at.max(log.last.saturating_add(takes));
        log.last = at;
        (before, at)
    }

    /// It has told that an acquire has set nothing, such as since a key of the same client still stands there.
    fn handle_denied(&self, owner: Owner) {
        let mut log = self.log.lock().unwrap();
        let acquires = log.sent.iter_mut().filter(|sent| sent.owner == owner);
        acquires.filter(|sent| sent.what == Sort::Acquire).for_each(|sent| sent.harmless = true);
    }

    /// Executes a command at its time, whether or not anybody still waits for the answer.
    async fn execute(self, command: Command, at: Timestamp) -> Result<Reply, NodeError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let this = self.clone();
        self.runtime.spawn(Box::pin(async move {
            this.runtime.sleep_until(at).await;
            let _ = answer.send(this.memory.call(command).await);
        }));
        answered.await.expect("the answer is always sent")
    }
}

impl Node for ScriptedNode {
    fn start(&self, context: NodeContext) {
        let _ = self.context.set(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        // It has no owner, and sets and deletes no key.
        if let Command::Leave { .. } = &command {
            *self.left.lock().unwrap() += 1;
            return self.memory.call(command);
        }
        let this = self.clone();
        Box::pin(async move {
            let (before, at) = this.note(&command);
            match this.behaviour() {
                Behaviour::NotSent if before == 0 => {
                    Err(NodeError::NotConnected { reason: Arc::from("scripted") })
                }
                Behaviour::Unknown if before < 2 => {
                    let executed = this.execute(command, at).await;
                    let reason = Arc::from("scripted");
                    executed.and(Err(NodeError::ConnectionLost { reason }))
                }
                Behaviour::Overtaken
                    if matches!(command, Command::Acquire { .. } | Command::Restore { .. }) =>
                {
                    let runtime = this.runtime.clone();
                    let executed = this.execute(command, at);
                    runtime.spawn(Box::pin(async move { drop(executed.await) }));
                    runtime.sleep_until(runtime.now().saturating_add(MS)).await;
                    Err(NodeError::ConnectionLost { reason: Arc::from("scripted") })
                }
                Behaviour::NotAllowed => {
                    let late = this.runtime.now().saturating_add(5 * MS);
                    this.runtime.sleep_until(late).await;
                    let (code, message) = (Arc::from("NOPERM"), Arc::from("scripted"));
                    Err(NodeError::Rejected { sent: false, code, message })
                }
                Behaviour::Panics if matches!(command, Command::Release { .. }) => {
                    panic!("scripted")
                }
                Behaviour::Jumped if matches!(command, Command::Restore { .. }) => {
                    this.execute(command, at).await.and(Err(NodeError::ClockJumped))
                }
                _ => {
                    let acquires = match &command {
                        Command::Acquire { owner, .. } => Some(*owner),
                        _ => None,
                    };
                    let reply = this.clone().execute(command, at).await;
                    if let (Some(owner), Ok(Reply::Denied(_))) = (acquires, &reply) {
                        this.handle_denied(owner);
                    }
                    reply
                }
            }
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.memory.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.memory.admit(epoch, floor, serves)
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
        NodeStatus::new(Arc::from(format!("scripted:{}", self.index)), NodeState::Ready)
    }
}

impl fmt::Debug for ScriptedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({:?})", self.index, self.behaviour())
    }
}

//! A node in memory, with the answers of a Redis server: for unit tests, the quickstart and simulation.
//!
//! It decides what a server would decide, and nothing more. One suite of tests runs against it and
//! against real servers, and fails where they differ (`tests/redis/conformance.rs`).

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Node, NodeCall, NodeContext, NodeError, NodeState, NodeStatus, Watcher};
use crate::{
    protocol::{Command, Denial, Reply, Timestamp, validity},
    runtime,
};

/// An independent master in this process.
///
/// A clone is the same node. Several [`Redlock`](crate::Redlock)s may share it, and then exclude each
/// other. It can be killed, restarted empty, paused and resumed, as a test would do to a server.
///
/// ```
/// use quorlock::{Redlock, node::MemoryNode};
///
/// # futures::executor::block_on(async {
/// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
/// let redlock = Redlock::connect(&nodes).await?;
/// nodes[0].kill();
/// let lease = redlock.try_acquire("invoice:42").await?;
/// assert_eq!(nodes[1].keys(), [b"invoice:42"]);
/// lease.release().await?;
/// assert!(nodes[1].keys().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryNode {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: HashMap<Vec<u8>, Entry>,
    mode: Mode,
    /// Commands that arrived while the node was paused, in order.
    queue: Vec<(Command, oneshot::Sender<Reply>)>,
    /// Who wants to know when the node is killed or back.
    watchers: Vec<Watcher>,
}

struct Entry {
    value: Vec<u8>,
    expires: Option<Timestamp>,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Mode {
    #[default]
    Running,
    Paused,
    Killed,
}

impl MemoryNode {
    /// A running, empty node on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(runtime::system_now)
    }

    /// A running, empty node on a clock of the caller's, such as that of a simulation.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(Shared { clock: Box::new(clock), state: Mutex::default() }) }
    }

    /// Ends the node as `kill -9` would end a server without persistence: its keys are gone, and
    /// commands that it had not answered get no answer.
    pub fn kill(&self) {
        self.set_mode(Mode::Killed);
    }

    /// Starts the node again after [`kill`](MemoryNode::kill), empty.
    pub fn restart(&self) {
        self.set_mode(Mode::Killed);
        self.set_mode(Mode::Running);
    }

    /// Stops the node as SIGSTOP would: commands arrive and are not executed. A killed node stays killed.
    pub fn pause(&self) {
        if self.state().mode == Mode::Running {
            self.set_mode(Mode::Paused);
        }
    }

    /// Lets a paused node go on: what had arrived is executed now, in order, whether or not anybody still
    /// waits for the answer.
    pub fn resume(&self) {
        if self.state().mode == Mode::Paused {
            self.set_mode(Mode::Running);
        }
    }

    /// Sets a key, as another program would. Without a ttl it never expires.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Option<Duration>) {
        let now = self.now();
        let expires = ttl.map(|ttl| now.saturating_add(ttl));
        let entry = Entry { value: value.as_ref().to_vec(), expires };
        self.state().keys.insert(key.as_ref().to_vec(), entry);
    }

    /// The value of a key, if it has not expired.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let now = self.now();
        let mut state = self.state();
        state.expire(now);
        state.keys.get(key.as_ref()).map(|entry| entry.value.clone())
    }

    /// All keys that have not expired, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let now = self.now();
        let mut state = self.state();
        state.expire(now);
        let mut keys: Vec<_> = state.keys.keys().cloned().collect();
        keys.sort();
        keys
    }

    fn set_mode(&self, mode: Mode) {
        let now = self.now();
        let mut state = self.state();
        state.mode = mode;
        match mode {
            Mode::Killed => {
                state.keys.clear();
                state.queue.clear();
            }
            Mode::Running => {
                for (command, answer) in std::mem::take(&mut state.queue) {
                    // Nobody may be waiting for it any more; it is executed all the same.
                    let _ = answer.send(state.execute(command, now));
                }
            }
            Mode::Paused => {}
        }
        state.watchers.retain(Watcher::changed);
    }

    fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryNode {
    fn default() -> Self {
        Self::new()
    }
}

impl Node for MemoryNode {
    fn start(&self, context: NodeContext) {
        self.state().watchers.push(context.watcher());
    }

    fn call(&self, command: Command) -> NodeCall {
        let this = self.clone();
        Box::pin(async move {
            let now = this.now();
            let answer = {
                let mut state = this.state();
                match state.mode {
                    Mode::Running => return Ok(state.execute(command, now)),
                    Mode::Killed => {
                        let reason = Arc::from("the node has been killed");
                        return Err(NodeError::NotConnected { reason });
                    }
                    Mode::Paused => {
                        let (sender, receiver) = oneshot::channel();
                        state.queue.push((command, sender));
                        receiver
                    }
                }
            };
            answer.await.map_err(|_| NodeError::ConnectionLost {
                reason: Arc::from("the node was killed before it answered"),
            })
        })
    }

    fn reachable(&self) -> Result<(), NodeError> {
        match self.state().mode {
            Mode::Running | Mode::Paused => Ok(()),
            Mode::Killed => {
                Err(NodeError::NotConnected { reason: Arc::from("the node has been killed") })
            }
        }
    }

    fn status(&self) -> NodeStatus {
        let address = format!("memory:{:p}", Arc::as_ptr(&self.shared));
        let state = match self.state().mode {
            Mode::Running | Mode::Paused => NodeState::Ready,
            Mode::Killed => NodeState::Down { reason: Arc::from("the node has been killed") },
        };
        NodeStatus::new(Arc::from(address), state)
    }
}

impl State {
    fn expire(&mut self, now: Timestamp) {
        self.keys.retain(|_, entry| entry.expires.is_none_or(|expires| now < expires));
    }

    fn execute(&mut self, command: Command, now: Timestamp) -> Reply {
        self.expire(now);
        match command {
            Command::Acquire { resource, owner, ttl } => {
                if let Some(entry) = self.keys.get(resource.as_bytes()) {
                    return Reply::Denied(entry.denial(now));
                }
                let ttl = Duration::from_millis(validity::wire_millis(ttl));
                let value = owner.to_hex().to_vec();
                let expires = Some(now.saturating_add(ttl));
                self.keys.insert(resource.as_bytes().to_vec(), Entry { value, expires });
                Reply::Granted
            }
            Command::Release { resource, owner } => {
                match self.keys.get(resource.as_bytes()).map(|entry| entry.value == owner.to_hex())
                {
                    Some(true) => {
                        self.keys.remove(resource.as_bytes());
                        Reply::Granted
                    }
                    Some(false) | None => Reply::Denied(Denial::default()),
                }
            }
        }
    }
}

impl Entry {
    fn denial(&self, now: Timestamp) -> Denial {
        let remaining = self.expires.map(|expires| expires.saturating_since(now));
        Denial::new(Some(self.value.clone().into_boxed_slice()), remaining)
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").finish_non_exhaustive()
    }
}

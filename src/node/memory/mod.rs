//! A node in memory, with the answers of a Redis server: for unit tests, the quickstart and simulation.
//!
//! It decides what a server would decide, and nothing more. A test asks it what real servers are asked, and fails where
//! they differ (`src/node/alike_test`).

#[cfg(feature = "inspect")]
mod scan;
mod state;

use std::{
    fmt,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use self::state::{Mode, State, refused, tell, wall_us};
use super::{Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeState, NodeStatus};
#[cfg(feature = "inspect")]
use super::{NodeLine, Page, Scan, ServerFacts};
use crate::{
    lock::Lock,
    protocol::{
        Command, Completed, Floor, Join, Marker, NodeKey, Resource, Serves, Sighting, Timestamp,
    },
    runtime,
};

/// An independent master in this process.
///
/// A clone is the same node. Several [`Redlock`](crate::Redlock)s may share it, and then exclude each
/// other. It can be killed, restarted empty, paused and resumed, as a test would do to a server. A new one
/// may vote at once; after a restart it is quarantined, as a server would be.
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
    /// Its place in a fleet under test, which names it better than an address in memory.
    #[cfg(feature = "testing")]
    place: Option<usize>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    state: Lock<State>,
}

impl MemoryNode {
    /// A running, empty node on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(runtime::system_now)
    }

    /// A running, empty node on the caller's clock, such as that of a simulation.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                #[cfg(feature = "testing")]
                place: None,
                clock: Box::new(clock),
                state: Lock::new(State::new()),
            }),
        }
    }

    /// The same, named by its place in a fleet.
    #[cfg(feature = "testing")]
    pub(crate) fn at_place(
        place: usize,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let mut node = Self::with_clock(clock);
        if let Some(shared) = Arc::get_mut(&mut node.shared) {
            shared.place = Some(place);
        }
        node
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

    /// Cuts the node off, as a broken network would: no client reaches it, and it keeps its data. Commands that it had
    /// not answered get no answer. A killed node stays killed.
    pub fn disconnect(&self) {
        if self.state().mode != Mode::Killed {
            self.set_mode(Mode::Disconnected);
        }
    }

    /// Lets a node be reached again after [`disconnect`](MemoryNode::disconnect), with its data.
    pub fn reconnect(&self) {
        if self.state().mode == Mode::Disconnected {
            self.set_mode(Mode::Running);
        }
    }

    /// Stops the node as SIGSTOP would: commands arrive and are not executed. A killed or disconnected node stays so.
    pub fn pause(&self) {
        if self.state().mode == Mode::Running {
            self.set_mode(Mode::Paused);
        }
    }

    /// Lets a paused node go on: commands that had arrived are executed now, in order, whether or not a caller still
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
        let entry = NodeKey::new(value.as_ref().to_vec(), expires);
        self.state().store.keys(now).insert(key.as_ref().to_vec(), entry);
    }

    /// The value of a key, if it has not expired.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let now = self.now();
        self.state().store.keys(now).get(key.as_ref()).map(|entry| entry.value.clone())
    }

    /// All keys that have not expired, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let now = self.now();
        let mut keys: Vec<_> = self.state().store.keys(now).keys().cloned().collect();
        keys.sort();
        keys
    }

    /// The entries of a line, as a server has them, and its remaining life.
    #[cfg(test)]
    pub(crate) fn line(&self, resource: &Resource) -> Option<(Vec<(String, i64)>, Duration)> {
        let now = self.now();
        self.state().store.line(resource).and_then(|line| line.shown(now))
    }

    fn set_mode(&self, mode: Mode) {
        let now = self.now();
        let change = self.state().enter(mode, now);
        // Told without the lock: a woken waiter may look at this node.
        change.tell();
    }

    fn address(&self) -> String {
        #[cfg(feature = "testing")]
        if let Some(place) = self.shared.place {
            return format!("testing:{place}");
        }
        format!("memory:{:p}", Arc::as_ptr(&self.shared))
    }

    fn running(&self) -> Result<MutexGuard<'_, State>, NodeError> {
        let state = self.state();
        if state.mode == Mode::Running {
            return Ok(state);
        }
        let paused = || Arc::from("the node has been paused");
        Err(NodeError::NotConnected { reason: state.mode.unreachable().unwrap_or_else(paused) })
    }

    fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }
}

impl Default for MemoryNode {
    fn default() -> Self {
        Self::new()
    }
}

impl Node for MemoryNode {
    fn start(&self, context: NodeContext) {
        self.state().watch(context.watcher());
    }

    fn call(&self, command: Command) -> NodeCall {
        let this = self.clone();
        Box::pin(async move {
            let now = this.now();
            let answer = {
                let mut state = this.state();
                match state.mode {
                    Mode::Running => {
                        let (reply, news) = state.execute(command, now);
                        if news.is_empty() {
                            return reply;
                        }
                        let watchers = state.watchers.clone();
                        // Without the lock, as above.
                        drop(state);
                        tell(&news, &watchers);
                        return reply;
                    }
                    mode @ (Mode::Disconnected | Mode::Killed) => {
                        let reason = mode.unreachable().unwrap_or_default();
                        return Err(NodeError::NotConnected { reason });
                    }
                    Mode::Paused => state.keep(command),
                }
            };
            answer.await.unwrap_or_else(|_| {
                let reason = Arc::from("the node was killed or disconnected before it answered");
                Err(NodeError::ConnectionLost { reason })
            })
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        let now = self.now();
        let joined = self.running().map(|mut state| state.store.join(join, now));
        Box::pin(std::future::ready(joined))
    }

    fn admit(&self, epoch: u64, floor: Floor, _: Serves) -> NodeFuture<bool> {
        let now = wall_us(self.now());
        let admitted = self.running().map(|mut state| state.store.admit(epoch, floor, now));
        Box::pin(std::future::ready(admitted))
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        let now = self.now();
        let seen = self
            .running()
            .and_then(|mut state| state.store.holder(&resource, fenced, now).map_err(refused));
        Box::pin(std::future::ready(seen))
    }

    fn completed(
        &self,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> NodeFuture<Option<Completed>> {
        let now = self.now();
        let seen = self.running().and_then(|mut state| {
            state.store.completed(&resource, every, done, now).map_err(refused)
        });
        Box::pin(std::future::ready(seen))
    }

    #[cfg(feature = "inspect")]
    fn examine(&self, _over: Duration) -> NodeFuture<ServerFacts> {
        Box::pin(std::future::ready(self.running().map(|_| scan::facts())))
    }

    #[cfg(feature = "inspect")]
    fn scan(&self, scan: Scan) -> NodeFuture<Page<Box<[u8]>>> {
        // Read before the lock is taken: the clock is user code.
        let now = self.now();
        let page = self.running().map(|mut state| scan::keys(&mut state.store, &scan, now));
        Box::pin(std::future::ready(page))
    }

    #[cfg(feature = "inspect")]
    fn scan_lines(&self, scan: Scan) -> NodeFuture<Page<NodeLine>> {
        let now = self.now();
        let page = self.running().map(|mut state| scan::lines(&mut state.store, &scan, now));
        Box::pin(std::future::ready(page))
    }

    fn takes_sets(&self) -> bool {
        true
    }

    fn takes_readers(&self) -> bool {
        true
    }

    fn picks_slots(&self) -> bool {
        true
    }

    fn hands_over(&self) -> bool {
        true
    }

    fn keeps_completions(&self) -> bool {
        true
    }

    fn counts_ranges(&self) -> bool {
        true
    }

    fn reachable(&self) -> Result<(), NodeError> {
        let unreachable = self.state().mode.unreachable();
        unreachable.map_or(Ok(()), |reason| Err(NodeError::NotConnected { reason }))
    }

    fn status(&self) -> NodeStatus {
        let state = self.state();
        let unreachable = state.mode.unreachable();
        let shown = unreachable.map_or(NodeState::Ready, |reason| NodeState::Down { reason });
        let mut status = NodeStatus::new(Arc::from(self.address()), shown);
        status.identity = Some(Arc::from(format!("life {}", state.life)));
        status
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").finish_non_exhaustive()
    }
}

//! The mode of a node in memory: running, paused, cut off or killed, and what becomes of its commands then.
//!
//! It decides which commands are executed, kept or forgotten when the mode changes. It must tell nobody while the
//! node's lock is held: it returns what is to be told.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    node::{NodeError, Watcher},
    protocol::{ClientId, Command, NodeNews, NodeRefusal, NodeStore, Reply, Timestamp},
    runtime,
};

pub(super) struct State {
    pub(super) store: NodeStore,
    pub(super) mode: Mode,
    /// Counts the lives of the node: each restart is another process.
    pub(super) life: u64,
    /// Commands that arrived while the node was paused, in order.
    queue: Vec<(Command, Answer)>,
    /// Told when the node is killed or back, and when a key has been released.
    pub(super) watchers: Vec<Watcher>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Mode {
    Running,
    Paused,
    /// It runs, and no client reaches it.
    Disconnected,
    Killed,
}

impl Mode {
    /// Why no client reaches it, if so.
    pub(super) fn unreachable(self) -> Option<Arc<str>> {
        match self {
            Self::Running | Self::Paused => None,
            Self::Disconnected => Some(Arc::from("the node has been disconnected")),
            Self::Killed => Some(Arc::from("the node has been killed")),
        }
    }
}

impl State {
    /// Running and empty, and it may vote at once.
    pub(super) fn new() -> Self {
        Self {
            store: NodeStore::new(),
            mode: Mode::Running,
            life: 0,
            queue: Vec::new(),
            watchers: Vec::new(),
        }
    }

    /// Adds a watcher, and drops those without a fleet.
    pub(super) fn watch(&mut self, watcher: Watcher) {
        self.watchers.retain(Watcher::is_needed);
        self.watchers.push(watcher);
    }

    /// Keeps a command that arrives while paused. The node executes these in order when it goes on (N1).
    pub(super) fn keep(&mut self, command: Command) -> oneshot::Receiver<Result<Reply, NodeError>> {
        let (sender, receiver) = oneshot::channel();
        self.queue.push((command, sender));
        receiver
    }

    /// Enters a mode, and returns what is to be told.
    pub(super) fn enter(&mut self, mode: Mode, now: Timestamp) -> Change {
        let (mut executed, mut forgotten, mut news) = (Vec::new(), Vec::new(), Vec::new());
        self.mode = mode;
        match mode {
            Mode::Killed => {
                self.life += 1;
                self.store = NodeStore::in_life(self.life);
                forgotten = std::mem::take(&mut self.queue);
            }
            Mode::Running => {
                for (command, answer) in std::mem::take(&mut self.queue) {
                    let (reply, told) = self.execute(command, now);
                    executed.push((answer, reply));
                    news.extend(told);
                }
            }
            // Unread commands never arrive.
            Mode::Disconnected => forgotten = std::mem::take(&mut self.queue),
            Mode::Paused => {}
        }
        self.watchers.retain(Watcher::is_needed);
        Change { executed, forgotten, news, watchers: self.watchers.clone() }
    }

    /// Executes a command, and returns the news to tell once the node's lock is free.
    pub(super) fn execute(
        &mut self,
        command: Command,
        now: Timestamp,
    ) -> (Result<Reply, NodeError>, Vec<NodeNews>) {
        let watchers = &self.watchers;
        let hears = |client: ClientId| {
            watchers.iter().any(|watcher| watcher.client() == client && watcher.is_needed())
        };
        let (reply, news) = self.store.execute(command, now, wall_us(now), &hears);
        (reply.map_err(refused), news)
    }
}

/// Where the answer to a command goes.
type Answer = oneshot::Sender<Result<Reply, NodeError>>;

/// The effects of a new mode, to be told once the node's lock is free.
#[must_use]
pub(super) struct Change {
    executed: Vec<(Answer, Result<Reply, NodeError>)>,
    forgotten: Vec<(Command, Answer)>,
    news: Vec<NodeNews>,
    watchers: Vec<Watcher>,
}

impl Change {
    pub(super) fn tell(self) {
        // Dropping a sender wakes its receiver too.
        drop(self.forgotten);
        for (answer, reply) in self.executed {
            // The caller may be gone; the command was executed all the same.
            let _ = answer.send(reply);
        }
        self.watchers.iter().for_each(Watcher::changed);
        tell(&self.news, &self.watchers);
    }
}

/// The error that a caller is given.
pub(super) const fn refused(refusal: NodeRefusal) -> NodeError {
    match refusal {
        NodeRefusal::NotAdmitted => NodeError::NotAdmitted,
        NodeRefusal::CounterExhausted => NodeError::CounterExhausted,
    }
}

/// Tells clients what a command has changed.
pub(super) fn tell(news: &[NodeNews], watchers: &[Watcher]) {
    for news in news {
        for watcher in watchers {
            match news {
                NodeNews::Line { resource, client, hint } if watcher.client() == *client => {
                    watcher.line(resource, *hint);
                }
                NodeNews::Line { .. } => {}
                NodeNews::Freed(resource) => watcher.freed(resource),
            }
        }
    }
}

/// The node's clock in microseconds, by which it judges hints.
pub(super) fn wall_us(now: Timestamp) -> u64 {
    // The later of the two: a simulation's hints come from its own clock, which may be ahead of the system's.
    let system = runtime::system_wall_us();
    let simulated = u64::try_from(now.since_origin().as_micros()).unwrap_or(u64::MAX);
    system.max(simulated)
}

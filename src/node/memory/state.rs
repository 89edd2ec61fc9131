//! What a node in memory is at a time: running, paused, cut off or killed, and what becomes of its commands then.
//!
//! It decides which commands are executed, kept or forgotten when that changes. It must tell nobody while the node's lock
//! is held: what is to be told it hands out.

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
    /// Who wants to know when the node is killed or back, and when a key has been released.
    pub(super) watchers: Vec<Watcher>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Mode {
    Running,
    Paused,
    /// It runs, and nobody reaches it.
    Disconnected,
    Killed,
}

impl Mode {
    /// Why nobody reaches it, if that is so.
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

    /// One more wants to know.
    pub(super) fn watch(&mut self, watcher: Watcher) {
        self.watchers.retain(Watcher::is_needed);
        self.watchers.push(watcher);
    }

    /// The node is paused: what arrives is kept in this order, and executed in it when the node goes on (N1).
    pub(super) fn keep(&mut self, command: Command) -> oneshot::Receiver<Result<Reply, NodeError>> {
        let (sender, receiver) = oneshot::channel();
        self.queue.push((command, sender));
        receiver
    }

    /// From now on it is in this mode.
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
            // What it had not read yet never arrives.
            Mode::Disconnected => forgotten = std::mem::take(&mut self.queue),
            Mode::Paused => {}
        }
        self.watchers.retain(Watcher::is_needed);
        Change { executed, forgotten, news, watchers: self.watchers.clone() }
    }

    /// Executes a command, and returns what is to be told because of it, once the node's lock is free.
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

/// What has come of another mode, to be told once the node's lock is free.
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
            // Nobody may be waiting for it any more; it was executed all the same.
            let _ = answer.send(reply);
        }
        self.watchers.iter().for_each(Watcher::changed);
        tell(&self.news, &self.watchers);
    }
}

/// What a user of the node is told.
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
    // The later of the two: hints of a simulation come from its own clock, which may be ahead of the system's.
    let system = runtime::system_wall_us();
    let simulated = u64::try_from(now.since_origin().as_micros()).unwrap_or(u64::MAX);
    system.max(simulated)
}

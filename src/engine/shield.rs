//! Shields a user's node: a panic of its code is an error of this node alone.
//!
//! It decides nothing. The engine calls all node code through here, since a panic that came out of it would end a task
//! on which other nodes and leases rely.

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

#[cfg(feature = "inspect")]
use crate::node::{NodeLine, Page, Scan, ServerFacts};
use crate::{
    node::{Node, NodeError, NodeFuture, NodeStatus},
    protocol::{
        Command, Completed, Floor, Join, Marker, NodeClock, Reply, Resource, Serves, Sighting,
    },
};

/// A node whose panics are errors.
pub(super) struct Shielded(Arc<dyn Node>);

impl Shielded {
    pub(super) fn new(node: Arc<dyn Node>) -> Self {
        Self(node)
    }

    pub(super) fn call(&self, command: Command) -> Answering<Reply> {
        Answering::to(|| self.0.call(command))
    }

    pub(super) fn call_many(
        &self,
        commands: Vec<Command>,
    ) -> Answering<Vec<Result<Reply, NodeError>>> {
        Answering::to(|| self.0.call_many(commands))
    }

    pub(super) fn join(&self, join: Join) -> Answering<Marker> {
        Answering::to(|| self.0.join(join))
    }

    pub(super) fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> Answering<bool> {
        Answering::to(|| self.0.admit(epoch, floor, serves))
    }

    pub(super) fn holder(&self, resource: Resource, fenced: bool) -> Answering<Sighting> {
        Answering::to(|| self.0.holder(resource, fenced))
    }

    pub(super) fn completed(
        &self,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> Answering<Option<Completed>> {
        Answering::to(|| self.0.completed(resource, every, done))
    }

    #[cfg(feature = "inspect")]
    pub(super) fn examine(&self, over: Duration) -> Answering<ServerFacts> {
        Answering::to(|| self.0.examine(over))
    }

    #[cfg(feature = "inspect")]
    pub(super) fn scan(&self, scan: Scan) -> Answering<Page<Box<[u8]>>> {
        Answering::to(|| self.0.scan(scan))
    }

    #[cfg(feature = "inspect")]
    pub(super) fn scan_lines(&self, scan: Scan) -> Answering<Page<NodeLine>> {
        Answering::to(|| self.0.scan_lines(scan))
    }

    /// Whether it counts ranges of tokens; `false` if it panicked.
    pub(super) fn counts_ranges(&self) -> bool {
        caught(false, || self.0.counts_ranges()).unwrap_or(false)
    }

    /// Whether it takes several resources at once; `false` if it panicked.
    pub(super) fn takes_sets(&self) -> bool {
        caught(false, || self.0.takes_sets()).unwrap_or(false)
    }

    /// Whether it knows of readers; `false` if it panicked.
    pub(super) fn takes_readers(&self) -> bool {
        caught(false, || self.0.takes_readers()).unwrap_or(false)
    }

    /// Whether it picks a free slot; `false` if it panicked.
    pub(super) fn moves_within(&self) -> Duration {
        caught(false, || self.0.moves_within()).unwrap_or_default()
    }

    pub(super) fn picks_slots(&self) -> bool {
        caught(false, || self.0.picks_slots()).unwrap_or(false)
    }

    /// Whether it gives a key from one owner to another; `false` if it panicked.
    pub(super) fn hands_over(&self) -> bool {
        caught(false, || self.0.hands_over()).unwrap_or(false)
    }

    /// Whether it keeps what is done; `false` if it panicked.
    pub(super) fn keeps_completions(&self) -> bool {
        caught(false, || self.0.keeps_completions()).unwrap_or(false)
    }

    pub(super) fn reachable(&self) -> Result<(), NodeError> {
        caught(false, || self.0.reachable())?
    }

    /// The clock that the node compares with ours; none if it panicked.
    pub(super) fn clock(&self) -> Option<NodeClock> {
        caught(false, || self.0.clock()).ok().flatten()
    }

    /// The node's status, or that it panicked.
    pub(super) fn status(&self) -> Result<NodeStatus, NodeError> {
        caught(false, || self.0.status())
    }
}

impl fmt::Debug for Shielded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node's answer on its way; an error if the node panics over it.
pub(super) struct Answering<T> {
    /// `None` once it has ended.
    answer: Option<NodeFuture<T>>,
    /// The error that takes the place of an answer.
    error: Option<NodeError>,
}

impl<T> Answering<T> {
    fn to(ask: impl FnOnce() -> NodeFuture<T>) -> Self {
        caught(true, ask).map_or_else(Self::from, Self::from)
    }

    /// Drops the node's future, which runs its code too.
    fn end(&mut self) {
        let answer = self.answer.take();
        drop(caught(true, || drop(answer)));
    }
}

impl<T> From<NodeFuture<T>> for Answering<T> {
    fn from(answer: NodeFuture<T>) -> Self {
        Self { answer: Some(answer), error: None }
    }
}

impl<T> From<NodeError> for Answering<T> {
    fn from(error: NodeError) -> Self {
        Self { answer: None, error: Some(error) }
    }
}

impl<T> Future for Answering<T> {
    type Output = Result<T, NodeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = self.answer.as_mut() else {
            return self.error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
        };
        let polled = caught(true, || answer.as_mut().poll(cx))
            .unwrap_or_else(|error| Poll::Ready(Err(error)));
        // A future that has ended, or panicked, must not be polled again.
        if polled.is_ready() {
            self.end();
        }
        polled
    }
}

impl<T> Drop for Answering<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Calls node code and catches its panic, which the panic hook reports as any other. `sent` says whether a command may
/// have reached the server by then.
fn caught<T>(sent: bool, code: impl FnOnce() -> T) -> Result<T, NodeError> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| NodeError::panicked(sent, panic))
}

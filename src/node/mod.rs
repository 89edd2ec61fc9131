//! The seam to one node: how one command reaches one independent master, and how its answer comes back.
//!
//! It decides nothing about locks. A node executes each command at most once, never retries one, and
//! never makes a caller wait for a reconnect.

mod context;
mod error;
mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod status;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

pub(crate) use self::context::{Fleet, Watcher};
pub use self::{
    context::{Claim, NodeContext},
    error::{NodeError, Refusal},
    memory::MemoryNode,
    status::{ClockOffset, NodeState, NodeStatus},
};
use crate::protocol::{Command, Floor, Join, Marker, NodeClock, Reply};

/// An answer of a node, on its way.
pub type NodeFuture<T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send>>;

/// The answer to one command, on its way.
pub type NodeCall = NodeFuture<Reply>;

/// One independent master.
///
/// There are two in this crate: the Redis node, made from a URL, and [`MemoryNode`]. Another transport is
/// another implementation of this trait; `examples/custom_node.rs` is one.
///
/// # The contract
///
/// - **N1 Order.** Commands take effect in the order in which their futures were first polled, as long as
///   the connection lasts. A release that follows an unanswered acquire undoes it.
/// - **N2 At most once.** A command is executed once or not at all. Nothing is sent again.
/// - **N3 No waiting for a connection.** Without one, the future ends at once with an error whose
///   [`sent`](NodeError::sent) is false.
/// - **N4 Drop.** A future that is dropped before its first poll has sent nothing. One that is dropped
///   later has timed out: the command may still be executed.
/// - **N5 Truth.** `Granted` and `Denied` are said only of what the node itself has answered. Whatever is
///   not certain is an error.
///
/// A panic of a node's code is an error of that node ([`NodeError::Panicked`]): it costs no other node, and no lease,
/// anything. `start` is called by whoever builds, and panics there.
pub trait Node: Send + Sync + fmt::Debug + 'static {
    /// Called once, before the first command: connect now, and say so through the context.
    fn start(&self, context: NodeContext);

    /// Sends one command.
    fn call(&self, command: Command) -> NodeCall;

    /// Sends several commands that are due together; the answers are in their order. By default each is
    /// sent by itself.
    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Reply>> {
        let calls: Vec<NodeCall> = commands.into_iter().map(|command| self.call(command)).collect();
        Box::pin(futures::future::try_join_all(calls))
    }

    /// Reads the node's marker, marks a node that was not admitted as joining, and does what else [`Join`] asks
    /// for. By default the node keeps no marker and may always vote: right for one that never forgets.
    fn join(&self, join: Join) -> NodeFuture<Marker> {
        Box::pin(std::future::ready(Ok(Marker::new(true, join.max_ttl, 0))))
    }

    /// Lets a node vote that is joining since `era`, with counters above `floor`. False says that it was not
    /// joining, or not since then.
    fn admit(&self, era: u64, floor: Floor) -> NodeFuture<bool> {
        let _ = (era, floor);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Whether a command would be sent, without asking the node: the error that it would end with otherwise.
    /// A round that cannot be won is then not begun. By default it would.
    ///
    /// # Errors
    ///
    /// One whose [`sent`](NodeError::sent) is false.
    fn reachable(&self) -> Result<(), NodeError> {
        Ok(())
    }

    /// What the replies have shown of the node's clock, where the node guards it and says
    /// [`NodeError::ClockJumped`]. By it, a jump is told from one of our own clock. Without it, which is the default,
    /// a node is blamed where no more nodes seem to have jumped than not.
    fn clock(&self) -> Option<NodeClock> {
        None
    }

    /// How the node is, without asking it.
    fn status(&self) -> NodeStatus;
}

/// A node as it stands in a configuration: a URL, or something that is a node already.
///
/// URLs are `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS (with a TLS feature),
/// and `unix:///path/to/socket`; `valkey://` and `valkeys://` mean the same. IPv6 addresses stand in
/// brackets.
#[derive(Clone, Debug)]
pub struct NodeSpec(pub(crate) Spec);

#[derive(Clone)]
pub(crate) enum Spec {
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "refused at build"))]
    Url(String),
    Node(Arc<dyn Node>),
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A URL may carry a password.
            Self::Url(_) => f.write_str("Url(..)"),
            Self::Node(node) => node.fmt(f),
        }
    }
}

impl NodeSpec {
    /// A node of any kind, shared with other users of it.
    pub fn new(node: Arc<dyn Node>) -> Self {
        Self(Spec::Node(node))
    }
}

impl From<&str> for NodeSpec {
    fn from(url: &str) -> Self {
        Self(Spec::Url(url.to_owned()))
    }
}

impl From<&String> for NodeSpec {
    fn from(url: &String) -> Self {
        Self(Spec::Url(url.clone()))
    }
}

impl From<String> for NodeSpec {
    fn from(url: String) -> Self {
        Self(Spec::Url(url))
    }
}

impl From<MemoryNode> for NodeSpec {
    fn from(node: MemoryNode) -> Self {
        Self::new(Arc::new(node))
    }
}

impl From<&MemoryNode> for NodeSpec {
    fn from(node: &MemoryNode) -> Self {
        Self::new(Arc::new(node.clone()))
    }
}

//! The seam to one node: how one command reaches one independent master, and how its answer comes back.
//!
//! It decides nothing about locks. A node executes each command at most once, never retries one, and
//! never makes a caller wait for a reconnect.

#[cfg(test)]
#[cfg(all(feature = "redis", unix))]
mod alike_test;
mod context;
mod error;
#[cfg(feature = "inspect")]
mod facts;
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only a server is connected to"))]
mod haste;
mod memory;
#[cfg(feature = "inspect")]
mod pattern;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod refusal;
mod spec;
mod status;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

#[cfg(feature = "inspect")]
pub use self::facts::{
    ClockSample, ConnectedClient, MarkerFacts, NodeLine, Page, Scan, ServerFacts,
};
pub use self::{
    context::{Claim, NodeContext},
    error::NodeError,
    memory::MemoryNode,
    refusal::Refusal,
    spec::NodeSpec,
    status::{ClockOffset, LineState, NodeState, NodeStatus},
};
pub(crate) use self::{
    context::{Fleet, NodeSettings, Watcher},
    haste::Hurries,
    spec::Spec,
};
use crate::protocol::{
    Command, Completed, Floor, Join, Marker, NodeClock, Reply, Resource, Serves, Sighting,
};

/// The future of a node's answer.
pub type NodeFuture<T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send>>;

/// The future of the answer to one command.
pub type NodeCall = NodeFuture<Reply>;

/// One independent master.
///
/// This crate has two implementations: the Redis node, made from a URL, and [`MemoryNode`]. Another transport is
/// another implementation of this trait; `examples/custom_node.rs` is one.
///
/// # The contract
///
/// - **N1 Order.** Commands take effect in the order in which their futures were first polled, as long as
///   the connection lasts. A release that follows an unanswered acquire undoes it.
/// - **N2 At most once.** A command is executed once or not at all. Nothing is sent again.
/// - **N3 No waiting for a connection.** Without one, the future ends at once with an error whose
///   [`sent`](NodeError::sent) is false.
/// - **N4 Drop.** A future that is dropped before its first poll has sent nothing. A future that is dropped later has
///   timed out: the command may still be executed.
/// - **N5 Truth.** `Granted` and `Denied` report only what the node itself has answered. Everything uncertain is an
///   error.
/// - **N6 Late is not less.** When its connection was given up, a command may run after commands that were sent later.
///   It reduces none of their effect: an extension keeps a later end of a key.
///
/// A panic in a node's code becomes an error of that node ([`NodeError::Panicked`]); no other node and no lease is
/// affected. A panic in `start` reaches the caller that builds the handle.
pub trait Node: Send + Sync + fmt::Debug + 'static {
    /// Called once, before the first command: connect now, and report it through the context.
    fn start(&self, context: NodeContext);

    /// Sends one command.
    fn call(&self, command: Command) -> NodeCall;

    /// Sends several commands that are due together. The answers come in the order of the commands. Each is what
    /// [`call`] would have answered: a failed command says nothing of the others. A command whose answer is missing at
    /// the end is unknown. An error for the whole means that no command has an answer. By default each command is sent
    /// by itself.
    ///
    /// [`call`]: Node::call
    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        // All calls are made, in order, before any is awaited (N1).
        let calls: Vec<NodeCall> = commands.into_iter().map(|command| self.call(command)).collect();
        Box::pin(async move { Ok(futures::future::join_all(calls).await) })
    }

    /// Whether it keeps the list of its fleet's nodes, so that a fleet may change that while clients run
    /// ([`Builder::nodes_before`](crate::Builder::nodes_before)). The default says no.
    fn keeps_members(&self) -> bool {
        false
    }

    /// Reads the node's marker, marks an unadmitted node as joining, and does what else [`Join`] asks for. Through it a
    /// node that restarted without its data does not vote against leases that it has forgotten. A node that cannot
    /// forget returns [`never_forgets`]. Classic mode does not call this.
    fn join(&self, join: Join) -> NodeFuture<Marker>;

    /// Lets a node vote that has been joining since `epoch`, with counters above `floor`, and serve so the clients of a
    /// fleet that changes its list. A node that keeps no list ignores that. `false` means that it was not
    /// joining, or not since then. The default fails: a node that reports joining without implementing this never
    /// votes. A node that never forgets is not asked.
    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        let _ = (epoch, floor, serves);
        let message =
            Arc::from("this node says that it is joining, and does not implement `admit`");
        let error = NodeError::Rejected { sent: false, code: Arc::from("ERR"), message };
        Box::pin(std::future::ready(Err(error)))
    }

    /// Reads who holds the key of `resource` on this node, and for how long. It changes nothing. With `fenced` only an
    /// admitted node answers, as for a vote. The default fails, and the node counts as one that has not answered.
    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        let _ = (resource, fenced);
        let message =
            Arc::from("this node cannot tell who holds a key: it does not implement `holder`");
        let error = NodeError::Rejected { sent: false, code: Arc::from("ERR"), message };
        Box::pin(std::future::ready(Err(error)))
    }

    /// Reads what is said to be done of `resource` on this node, of the periods of this length: others are other work. With `done`, it keeps that for what is left of its life,
    /// unless what stands there reaches as far, and answers with what stands then. Only an admitted node answers, as for a vote.
    /// The default fails.
    fn completed(
        &self,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> NodeFuture<Option<Completed>> {
        let _ = (resource, every, done);
        let message =
            Arc::from("this node keeps no completions: it does not implement `completed`");
        let error = NodeError::Rejected { sent: false, code: Arc::from("ERR"), message };
        Box::pin(std::future::ready(Err(error)))
    }

    /// For how long a client may go on using the server that this node was, once another client may use the server that
    /// it is now. Every quarantine of the handle is longer by that. The default says zero: the node is always the same
    /// server, or its address is that of one at a time. Asked once, when the handle is built.
    fn moves_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether an acquire for several fencing tokens (`Command::Acquire`, `count`) raises the counter by that many. If
    /// any node of a handle says no, the default, every acquire of the handle asks for one token. Otherwise a token
    /// that one node counts and another does not would be given twice. Asked once, when the handle is built.
    fn counts_ranges(&self) -> bool {
        false
    }

    /// Whether it gives keys from one owner to another (`Command::Adopt`, `Command::HandBack`). If any node of a handle
    /// says no, the default, [`Lease::detach`](crate::Lease::detach) and [`Redlock::adopt`](crate::Redlock::adopt) are
    /// refused. Asked once, when the handle is built.
    fn hands_over(&self) -> bool {
        false
    }

    /// Whether it keeps what is done, by [`completed`](Node::completed). If any node of a handle says no, the default,
    /// [`Acquire::once_per`](crate::Acquire::once_per) is refused. Asked once, when the handle is built.
    fn keeps_completions(&self) -> bool {
        false
    }

    /// Whether a command may name several resources ([`Target::Set`](crate::protocol::Target::Set)). Its acquire sets
    /// all of their keys or none, and all of their counters to the one number that it answers. If any node of a handle
    /// says no, the default, [`Redlock::acquire_all`](crate::Redlock::acquire_all) is refused. Asked once, when the
    /// handle is built.
    fn takes_sets(&self) -> bool {
        false
    }

    /// Whether a command may be a reader's ([`Target::Shared`](crate::protocol::Target::Shared)). Several owners then
    /// share the resource, each with its own end, and exclude everyone else. Their acquire answers with the counter and
    /// does not raise it; their confirm raises it, and never lowers it. A writer may go on as a reader
    /// ([`Target::Downgraded`](crate::protocol::Target::Downgraded)). If any node of a handle says no, the default,
    /// [`Redlock::read`](crate::Redlock::read) is refused. Asked once, when the handle is built.
    fn takes_readers(&self) -> bool {
        false
    }

    /// Whether the node can acquire any slot of a semaphore ([`Target::AnyOf`](crate::protocol::Target::AnyOf)): it
    /// sets the first free slot, and names it ([`Granted::slot`](crate::protocol::Granted::slot)). If any node of a
    /// handle says no, the default, [`Redlock::semaphore`](crate::Redlock::semaphore) is refused. Asked once, when the
    /// handle is built.
    fn picks_slots(&self) -> bool {
        false
    }

    /// Whether a command would be sent, without asking the node. A round that cannot be won is then not begun. The
    /// default says yes.
    ///
    /// # Errors
    ///
    /// The error that a command would end with; its [`sent`](NodeError::sent) is false.
    fn reachable(&self) -> Result<(), NodeError> {
        Ok(())
    }

    /// What the replies have shown of the node's clock, if the node guards it and reports [`NodeError::ClockJumped`].
    /// It tells a jump of the node's clock from one of ours. With `None`, the default, the node counts as jumped or not
    /// jumped, by an unknown amount.
    fn clock(&self) -> Option<NodeClock> {
        None
    }

    /// The state of the node as last seen, without asking it.
    fn status(&self) -> NodeStatus;

    /// What the server reports of itself, even if it may not vote, with samples of its clock for the time `over`. It
    /// changes nothing, and is for people to read. The default fails.
    #[cfg(feature = "inspect")]
    fn examine(&self, over: Duration) -> NodeFuture<ServerFacts> {
        let _ = over;
        Box::pin(std::future::ready(Err(not_implemented("examine"))))
    }

    /// A page of the node's keys that look like locks. It changes nothing, and is for people to read. The default
    /// fails.
    #[cfg(feature = "inspect")]
    fn scan(&self, scan: Scan) -> NodeFuture<Page<Box<[u8]>>> {
        let _ = scan;
        Box::pin(std::future::ready(Err(not_implemented("scan"))))
    }

    /// A page of the lines in which clients wait on this node, for the keys whose names match. It changes nothing, and is for
    /// people to read. The default fails.
    #[cfg(feature = "inspect")]
    fn scan_lines(&self, scan: Scan) -> NodeFuture<Page<NodeLine>> {
        let _ = scan;
        Box::pin(std::future::ready(Err(not_implemented("scan_lines"))))
    }
}

#[cfg(feature = "inspect")]
fn not_implemented(method: &str) -> NodeError {
    let message = Arc::from(format!("this node does not say: it does not implement `{method}`"));
    NodeError::Rejected { sent: false, code: Arc::from("ERR"), message }
}

/// The answer to [`Node::join`] of a node that never forgets what it granted: neither a lease before it has expired,
/// nor a fencing counter, whatever happens to its process and its disk. It may always vote.
///
/// On a node that can forget, such as a server that restarts empty, this gives up exclusion and the order of tokens
/// across its restarts. It reports no counters either, from which another, forgetful node would have to go on: use it
/// only where no node of the fleet forgets.
///
/// ```
/// use quorlock::{node::{NodeFuture, never_forgets}, protocol::{Join, Marker}};
///
/// fn join(join: Join) -> NodeFuture<Marker> {
///     // The keys are in this process, and live as long as their users.
///     never_forgets(join)
/// }
/// # let marker = futures::executor::block_on(join(Join::look(std::time::Duration::ZERO)));
/// # assert!(marker.unwrap().ready);
/// ```
pub fn never_forgets(join: Join) -> NodeFuture<Marker> {
    Box::pin(std::future::ready(Ok(Marker::new(true, join.max_ttl, 0))))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    /// A node that keeps a marker and cannot be admitted.
    #[derive(Debug)]
    struct Joining;

    impl Node for Joining {
        fn start(&self, _: NodeContext) {}

        fn call(&self, _: Command) -> NodeCall {
            Box::pin(std::future::pending())
        }

        fn join(&self, join: Join) -> NodeFuture<Marker> {
            Box::pin(std::future::ready(Ok(Marker::new(false, join.max_ttl, 0))))
        }

        fn status(&self) -> NodeStatus {
            NodeStatus::new(Arc::from("joining"), NodeState::Ready)
        }
    }

    #[test]
    fn a_node_that_does_not_say_how_it_is_admitted_is_not() {
        let admitted = block_on(Joining.admit(1, Floor::default(), Serves::After));
        assert!(matches!(admitted, Err(NodeError::Rejected { sent: false, .. })), "{admitted:?}");
    }
}

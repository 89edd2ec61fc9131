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
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod refusal;
mod spec;
mod status;

#[cfg(feature = "inspect")]
use std::time::Duration;
use std::{fmt, future::Future, pin::Pin, sync::Arc};

#[cfg(feature = "inspect")]
pub use self::facts::{ClockSample, MarkerFacts, Scan, ScanPage, ServerFacts};
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
use crate::protocol::{Command, Floor, Join, Marker, NodeClock, Reply, Resource, Sighting};

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
/// - **N6 Late is not less.** A command may be executed behind others that were sent after it, where its connection was
///   given up meanwhile. It lessens nothing that those have done: an extension leaves a later end of a key as it is.
///
/// A panic of a node's code is an error of that node ([`NodeError::Panicked`]): it costs no other node, and no lease,
/// anything. `start` is called by whoever builds, and panics there.
pub trait Node: Send + Sync + fmt::Debug + 'static {
    /// Called once, before the first command: connect now, and say so through the context.
    fn start(&self, context: NodeContext);

    /// Sends one command.
    fn call(&self, command: Command) -> NodeCall;

    /// Sends several commands that are due together; the answers are in their order, and each is what [`call`] would
    /// have answered: one that failed says nothing of the others. What is left out at the end is unknown. An error
    /// for the whole says that no command has an answer. By default each is sent by itself.
    ///
    /// [`call`]: Node::call
    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        // All are made before any is awaited, and in their order (N1).
        let calls: Vec<NodeCall> = commands.into_iter().map(|command| self.call(command)).collect();
        Box::pin(async move { Ok(futures::future::join_all(calls).await) })
    }

    /// Reads the node's marker, marks a node that was not admitted as joining, and does what else [`Join`] asks
    /// for. On this rests that a node which restarted without its data does not vote against leases that it has
    /// forgotten. A node that cannot forget says [`never_forgets`]. In classic mode it is not asked.
    fn join(&self, join: Join) -> NodeFuture<Marker>;

    /// Lets a node vote that is joining since `epoch`, with counters above `floor`. False says that it was not
    /// joining, or not since then. By default this fails, so that a node which says that it is joining and cannot be
    /// admitted never votes; one that never forgets is not asked.
    fn admit(&self, epoch: u64, floor: Floor) -> NodeFuture<bool> {
        let _ = (epoch, floor);
        let message =
            Arc::from("this node says that it is joining, and does not implement `admit`");
        let error = NodeError::Rejected { sent: false, code: Arc::from("ERR"), message };
        Box::pin(std::future::ready(Err(error)))
    }

    /// Who holds the key of `resource`, and for how long, as this node sees it. It changes nothing. With `fenced` only a
    /// node that has been admitted answers, as for a vote. By default this fails: the node cannot tell, and counts as one
    /// that has not answered.
    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        let _ = (resource, fenced);
        let message =
            Arc::from("this node cannot tell who holds a key: it does not implement `holder`");
        let error = NodeError::Rejected { sent: false, code: Arc::from("ERR"), message };
        Box::pin(std::future::ready(Err(error)))
    }

    /// Whether an acquire that asks for several fencing tokens (`Command::Acquire`, `count`) raises the counter by so
    /// many. Where a node does not, which is the default, every acquire of the handle asks for one: tokens that one node
    /// counts and another does not would be given twice. It is asked once, when the handle is built.
    fn counts_ranges(&self) -> bool {
        false
    }

    /// Whether a command may name several resources ([`Target::Set`](crate::protocol::Target::Set)): an acquire then sets all
    /// of their keys or none, and makes all of their counters the one number that it answers with. Where a node of a handle
    /// does not, which is the default, [`Redlock::acquire_all`](crate::Redlock::acquire_all) is refused. It is asked once,
    /// when the handle is built.
    fn takes_sets(&self) -> bool {
        false
    }

    /// Whether a command may be a reader's ([`Target::Shared`](crate::protocol::Target::Shared)): several owners then have the
    /// resource together, each with an end of its own, and nobody else has it meanwhile. Their acquire does not raise the
    /// counter, and answers with it; their confirm raises it, and never lowers it. A writer may go on as a reader
    /// ([`Target::Downgraded`](crate::protocol::Target::Downgraded)). Where a node of a handle does not know of readers, which is the
    /// default, [`Redlock::read`](crate::Redlock::read) is refused. It is asked once, when the handle is built.
    fn takes_readers(&self) -> bool {
        false
    }

    /// Whether it knows an acquire of any slot of a semaphore ([`Target::AnyOf`](crate::protocol::Target::AnyOf)): it sets the
    /// first slot that is free, and names it ([`Granted::slot`](crate::protocol::Granted::slot)). Where a node of a handle does
    /// not, which is the default, [`Redlock::semaphore`](crate::Redlock::semaphore) is refused. It is asked once, when the handle
    /// is built.
    fn picks_slots(&self) -> bool {
        false
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
    /// the node is counted as jumped or not jumped, and by how much is unknown.
    fn clock(&self) -> Option<NodeClock> {
        None
    }

    /// How the node is, without asking it.
    fn status(&self) -> NodeStatus;

    /// What its server says of itself, also where it may not vote, with looks at its clock over so long a time. It changes
    /// nothing, and is for people to read. By default this fails: the node does not say.
    #[cfg(feature = "inspect")]
    fn examine(&self, over: Duration) -> NodeFuture<ServerFacts> {
        let _ = over;
        Box::pin(std::future::ready(Err(not_implemented("examine"))))
    }

    /// A page of the keys on it that look like locks. It changes nothing, and is for people to read. By default this fails:
    /// the node does not say.
    #[cfg(feature = "inspect")]
    fn scan(&self, scan: Scan) -> NodeFuture<ScanPage> {
        let _ = scan;
        Box::pin(std::future::ready(Err(not_implemented("scan"))))
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
/// With a node that can forget, such as a server that restarts empty, this gives up exclusion and the order of
/// tokens across its restarts. It tells nothing of the node's counters either, from which another node that has
/// forgotten would have to go on: say it only where no node of the fleet forgets.
///
/// ```
/// use quorlock::{node::{NodeFuture, never_forgets}, protocol::{Join, Marker}};
///
/// fn join(join: Join) -> NodeFuture<Marker> {
///     // The keys are in this process, and live as long as whoever asks for them.
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
        let admitted = block_on(Joining.admit(1, Floor::default()));
        assert!(matches!(admitted, Err(NodeError::Rejected { sent: false, .. })), "{admitted:?}");
    }
}

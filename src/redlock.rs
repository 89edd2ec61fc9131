//! The entry: a handle on N nodes, which makes requests.
//!
//! It decides whether enough nodes are connected to begin with, and nothing of locks. A clone shares the connections.

mod adopting;
#[cfg(feature = "inspect")]
mod inspect;
#[cfg(feature = "inspect")]
mod members;
mod not_ready;
mod reading;
mod semaphore;
mod together;

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

pub use self::not_ready::NotReady;
use crate::{
    acquire::Acquire,
    election::Election,
    engine::{Engine, ready},
    error::{CloseError, Closed, ConnectError, NodeStates, Shutdown},
    holder::{Holder, HolderError},
    node::NodeStatus,
    protocol::WaitPolicy,
    runtime::{Process, block_on},
    shield::shield,
};

/// Quorum locks on N independent masters.
///
/// A clone is cheap and shares the connections. Make one per process and fleet, and clone it. A process that was forked
/// makes its own: `docs/deploying.md` says what it may do with its parent's.
///
/// ```no_run
/// use std::time::Duration;
/// use quorlock::Redlock;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let redlock =
///     Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]).await?;
/// match redlock.try_acquire("invoice:42").await {
///     Ok(lease) => lease.release().await?,
///     Err(busy) if busy.is_contended() => println!("later: {busy}"),
///     Err(broken) => return Err(broken.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Redlock {
    engine: Arc<Engine>,
}

impl Redlock {
    pub(crate) const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// A request for a lease on `resource`, which may be any bytes. It waits while another client holds it, up to the
    /// request's deadline. Waiters of this process are served first come, first served.
    ///
    /// See [`Acquire`] for the settings, [`AcquireFuture`](crate::AcquireFuture) for cancel safety, and
    /// [`AcquireError`](crate::AcquireError) for what can go wrong.
    #[doc(alias = "lock")]
    #[doc(alias = "obtain")]
    pub fn acquire(&self, resource: impl AsRef<[u8]>) -> Acquire {
        let wait_policy = WaitPolicy::For(self.engine.config.wait);
        Acquire::new(Arc::clone(&self.engine), resource.as_ref(), wait_policy)
    }

    /// A request for a lease on `resource` in one round: it asks every node once, and does not wait while another
    /// client holds it. It joins no line, and overtakes no waiter:
    ///
    /// - Where this process holds the resource, it says so at once, without asking.
    /// - Where others of this process wait, it is told what they found, or what their round under way finds.
    /// - Where another process waits, the answer is `Contended`, even at the moment at which the resource is free.
    ///
    /// Two things can make it take longer. Where this process has more acquires under way than the nodes answer, it
    /// waits for its turn, for up to a node timeout. And its round is repeated where nodes whose state had just
    /// changed, as when another node was admitted, would have made the difference: that takes another look at them, and
    /// three node timeouts at the most.
    #[doc(alias = "try_lock")]
    pub fn try_acquire(&self, resource: impl AsRef<[u8]>) -> Acquire {
        Acquire::new(Arc::clone(&self.engine), resource.as_ref(), WaitPolicy::OneRound)
    }

    /// An election of this name, which may be any bytes: campaign, lead, or observe the leader. It uses the lock of the
    /// same name: a holder of that lock keeps all candidates out.
    ///
    /// See [`Election`] for the settings and methods. Nothing is sent yet.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election::new(Arc::clone(&self.engine), name.as_ref())
    }

    /// The state of each node, as last seen, in the order of the configuration. Nothing is sent.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.engine.statuses()
    }

    /// The holder of `resource`, by a quorum of all nodes: its owner, its label, since when and for how long at most it
    /// holds, and its token. Every node is asked once, for at most a node timeout. Nothing is changed, no client waits
    /// for it, and it works even on a closed handle.
    ///
    /// It is for people: logs, a page for operators, a question at night. The answer may be out of date when it is
    /// read. Labels are set by [`Builder::label`](crate::Builder::label).
    ///
    /// ```
    /// use quorlock::{Holder, Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let redlock = Redlock::builder().nodes(nodes).label("web-1/4711").connect().await?;
    /// let lease = redlock.acquire("invoice:42").await?;
    /// let Holder::Held(by) = redlock.holder("invoice:42").await? else { panic!("it is held") };
    /// assert_eq!(by.owner, Some(lease.owner()));
    /// assert_eq!(by.label.unwrap().as_bytes(), b"web-1/4711");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`HolderError`]: a name that cannot be locked, or a runtime that has ended. Nodes that do not answer are no error: see
    /// [`Holder::Unclear`].
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any point.
    pub async fn holder(&self, resource: impl AsRef<[u8]>) -> Result<Holder, HolderError> {
        Holder::ask(&self.engine, resource.as_ref()).await
    }

    /// [`holder`](Redlock::holder), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`holder`](Redlock::holder), and [`HolderError::WouldDeadlock`] on the very thread that runs the engine.
    pub fn blocking_holder(&self, resource: impl AsRef<[u8]>) -> Result<Holder, HolderError> {
        if self.runs_here() {
            return Err(HolderError::WouldDeadlock);
        }
        block_on(self.holder(resource))
    }

    /// Refuses new acquires, and waits until everything that is under way has ended: rounds, releases of dropped
    /// leases, releases that a node has not confirmed yet. It returns how many leases are still held.
    ///
    /// Those leases stay valid, are still renewed, and can be released: use it where their holders go on. Before a
    /// process ends, call [`shutdown`](Redlock::shutdown) instead. All clones are closed.
    ///
    /// # Errors
    ///
    /// [`CloseError`] when `close_timeout` has passed first.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the handle stays closed when the future is dropped, and what is under way goes on.
    pub async fn close(&self) -> Result<Closed, CloseError> {
        let closed = self.engine.process().awaits(shield(self.engine.close())).await;
        closed.unwrap_or_else(|| self.engine.result_of_close())
    }

    /// [`close`](Redlock::close), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`close`](Redlock::close); and [`CloseError::WouldDeadlock`] on the very thread that runs the engine, if
    /// there is anything to wait for: it is closed all the same.
    pub fn blocking_close(&self) -> Result<Closed, CloseError> {
        if self.runs_here() {
            // One poll refuses new acquires; what is under way could only end if this thread went on.
            return self.close().now_or_never().unwrap_or(Err(CloseError::WouldDeadlock));
        }
        block_on(self.close())
    }

    /// Ends everything, so that no client has to wait for this process any more: refuses new acquires, releases all
    /// held leases, waits for that, and reports. Call it before the process ends. All clones are shut down.
    ///
    /// [`std::process::exit`] drops nothing, and so releases no lease: without a shutdown before it the keys keep
    /// others out until the ttl and any lock-delay are over.
    ///
    /// Each lease is lost to its holder at once, by [`LossReason::ShutDown`](crate::LossReason::ShutDown). A lease
    /// acquired by [`run`](Acquire::run), [`run_until_lost`](Acquire::run_until_lost) or
    /// [`blocking_run`](Acquire::blocking_run) is released when its work has ended: `run` drops the work, the others
    /// tell it of the loss. Any other lease is released while its holder may still be at work: stop that work before.
    /// Two kinds of leases with a [`lock_delay`](Acquire::lock_delay) are not released, and their keys stand for the
    /// delay: those that were lost before, and those whose work goes on until their deadline has passed.
    ///
    /// It waits for `close_timeout` at most, also for nodes that do not answer. Nodes that are down keep no client out
    /// as long as they are a minority.
    ///
    /// ```
    /// # use quorlock::{LossReason, Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let lease = redlock.acquire("leader").await?;
    /// let done = redlock.shutdown().await?;
    /// assert_eq!(done.released, 1);
    /// assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`CloseError`] where a lease was not released in time. It is lost all the same, and expires after its ttl and any
    /// lock-delay.
    ///
    /// # Cancel safety
    ///
    /// From its first poll on everything ends as described, also when the future is dropped. It may be called again, and
    /// reports on all leases that it has ended.
    pub async fn shutdown(&self) -> Result<Shutdown, CloseError> {
        let ended = self.engine.process().awaits(shield(self.engine.shutdown())).await;
        ended.unwrap_or_else(|| self.engine.result_of_shutdown())
    }

    /// [`shutdown`](Redlock::shutdown), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`shutdown`](Redlock::shutdown); and [`CloseError::WouldDeadlock`] on the very thread that runs the
    /// engine, if there is anything to wait for: all leases are being released all the same.
    pub fn blocking_shutdown(&self) -> Result<Shutdown, CloseError> {
        if self.runs_here() {
            return self.shutdown().now_or_never().unwrap_or(Err(CloseError::WouldDeadlock));
        }
        block_on(self.shutdown())
    }

    /// Whether this thread runs the engine, and so must not block on its answer.
    pub(crate) fn runs_here(&self) -> bool {
        self.engine.runs_here()
    }

    /// The process in which its answers arrive.
    pub(crate) fn process(&self) -> Process {
        self.engine.process()
    }

    /// Waits until a quorum of nodes votes, so that an acquire can be granted. After a start on new servers, or after a
    /// majority may have forgotten leases, that takes a quarantine (with the defaults 11.2 s); otherwise it takes as
    /// long as connecting. Use it, for example, before a service reports that it is ready.
    ///
    /// Nothing requires it: an acquire waits through a quarantine by itself, if its own wait is long enough. It tells
    /// the state of this moment, and promises nothing for later.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let redlock = Redlock::builder().nodes(nodes).build()?;
    /// redlock.ready(Duration::from_secs(30)).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotReady`] when `limit` has passed first, or at once where the engine's runtime has ended. It tells the state
    /// of each node. Connecting and quarantines go on all the same.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn ready(&self, limit: Duration) -> Result<(), NotReady> {
        let begun = self.engine.now();
        let statuses = shield(self.engine.voting(begun.saturating_add(limit)));
        let statuses = self.engine.process().awaits(statuses).await.flatten();
        // A timer fires a little late.
        self.is_ready(self.engine.now().saturating_since(begun).min(limit), statuses)
    }

    /// [`ready`](Redlock::ready), blocking this thread. No runtime is needed. On the very thread that runs the engine
    /// it does not wait, and reports the present state.
    ///
    /// # Errors
    ///
    /// As for [`ready`](Redlock::ready).
    pub fn blocking_ready(&self, limit: Duration) -> Result<(), NotReady> {
        if self.runs_here() {
            return self.is_ready(Duration::ZERO, Some(self.nodes()));
        }
        block_on(self.ready(limit))
    }

    /// Ends the change from [`nodes_before`](crate::Builder::nodes_before) to the present nodes, though no process with the
    /// present nodes alone asks for it. It returns at once; the change ends in the background, in the time of a quarantine.
    /// [`is_changing`](Self::is_changing) says when.
    ///
    /// No process with the nodes before alone may be needed any more: the nodes refuse them from then on.
    pub fn end_change(&self) {
        self.engine.end_change();
    }

    /// How long a node that may have forgotten leases waits before it votes, by the longest ttl that the nodes told so far.
    #[must_use]
    pub fn quarantine(&self) -> Duration {
        self.engine.quarantine()
    }

    /// Whether this handle has [`nodes_before`](crate::Builder::nodes_before), and a node of the present list, by its last
    /// answer, does not serve processes with the present list alone.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.engine.is_changing()
    }

    /// Whether enough of these nodes vote; `None` where the engine does not run any more.
    fn is_ready(
        &self,
        waited: Duration,
        statuses: Option<Vec<NodeStatus>>,
    ) -> Result<(), NotReady> {
        let (quorum, runtime_ended) = (self.engine.quorum, statuses.is_none());
        let statuses = statuses.unwrap_or_default();
        let ready = ready(&statuses);
        if quorum.is_met_by(ready) {
            return Ok(());
        }
        let (votes, needed) = (ready.len(), quorum.needed_beyond(ready));
        let nodes = statuses.into_iter().collect();
        Err(NotReady { waited, votes, needed, runtime_ended, nodes })
    }

    /// Waits until the nodes can be used, or says why they cannot.
    pub(crate) async fn connected(self) -> Result<Self, ConnectError> {
        let (process, needed) = (self.process(), self.engine.quorum.needed());
        let nodes = NodeStates::default();
        let forked = ConnectError::NoQuorum { ready: 0, needed, nodes };
        process.awaits(self.tried()).await.unwrap_or(Err(forked))
    }

    async fn tried(self) -> Result<Self, ConnectError> {
        let config = &self.engine.config;
        let begun = self.engine.now();
        // A node timeout longer, so that a node that does not answer in its time can say so.
        let limit = |time: Duration| begun.saturating_add(time).saturating_add(config.node_timeout);
        let needed = self.engine.quorum.needed();
        let required = if config.require_all_nodes { self.engine.quorum.nodes() } else { needed };
        let refused = |nodes: &NodeStates| nodes.refused().next().is_some();
        // A refusal does not end by itself.
        let hopeless =
            |nodes: &NodeStates| nodes.is_refused() || config.require_all_nodes && refused(nodes);
        let enough = |nodes: &NodeStates| hopeless(nodes) || nodes.usable() >= required;
        let tried = shield(self.engine.tried(limit(config.connect_timeout))).await;
        let mut nodes: NodeStates = tried.into_iter().collect();
        if config.through_outages && !enough(&nodes) {
            let wanted = |seen: &[NodeStatus]| enough(&seen.iter().cloned().collect());
            let seen = shield(self.engine.seen(limit(config.wait), wanted)).await;
            nodes = seen.into_iter().collect();
        }
        let ready = nodes.usable();
        if ready >= required && !hopeless(&nodes) {
            return Ok(self);
        }
        shield(self.engine.withdraw()).await;
        Err(if refused(&nodes) {
            ConnectError::Refused { nodes }
        } else if ready >= needed {
            ConnectError::NotAllNodes { ready, needed: required, nodes }
        } else {
            ConnectError::NoQuorum { ready, needed, nodes }
        })
    }
}

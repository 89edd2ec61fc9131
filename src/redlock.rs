//! The entry: a handle on N nodes, which makes requests.
//!
//! It decides whether enough nodes are connected to begin with, and nothing of locks. A clone is the same fleet.

use std::sync::Arc;

use futures::FutureExt;

use crate::{
    acquire::Acquire,
    engine::Engine,
    error::{CloseError, ConnectError, NodeOutcome, NodeReport, NodeStates, Reports},
    node::{NodeState, NodeStatus},
    protocol::{NodeId, WaitPolicy},
    runtime::block_on,
    shield::shield,
};

/// Quorum locks on N independent masters.
///
/// A clone is cheap and shares the connections. Make one per process and fleet, and clone it. A process that was forked
/// makes its own: `docs/operating.md` says what it may do with its parent's.
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

    /// A request for a lease on `resource`, which may be any bytes. It waits while somebody else holds it,
    /// up to the request's deadline.
    ///
    /// See [`Acquire`] for the settings, [`AcquireFuture`](crate::AcquireFuture) for cancel safety, and
    /// [`AcquireError`](crate::AcquireError) for what can go wrong.
    #[doc(alias = "lock")]
    #[doc(alias = "obtain")]
    pub fn acquire(&self, resource: impl AsRef<[u8]>) -> Acquire {
        let wait_policy = WaitPolicy::For(self.engine.config.wait);
        Acquire::new(Arc::clone(&self.engine), resource.as_ref(), wait_policy)
    }

    /// A request for a lease on `resource` that is one round: it asks every node once, and does not wait while
    /// somebody else holds it.
    ///
    /// Two things can make it take longer, each for up to a node timeout. Where this process has more acquires under
    /// way than the nodes answer, it waits for its turn. And its round is begun again where nodes whose state had
    /// just changed, as when another node was admitted, would have made the difference.
    #[doc(alias = "try_lock")]
    pub fn try_acquire(&self, resource: impl AsRef<[u8]>) -> Acquire {
        Acquire::new(Arc::clone(&self.engine), resource.as_ref(), WaitPolicy::OneRound)
    }

    /// How each node is, as last seen, in the order of the configuration. Nothing is sent.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.engine.statuses()
    }

    /// Refuses new acquires, and waits until everything that is under way has ended: rounds, releases of
    /// dropped leases, releases that a node has not confirmed yet. Call it before the process ends.
    ///
    /// Leases that are still held stay valid, are still renewed, and can be released. All clones are closed.
    ///
    /// # Errors
    ///
    /// [`CloseError`] when `close_timeout` has passed first.
    ///
    /// # Cancel safety
    ///
    /// It stays closed when the future is dropped, and what is under way goes on.
    pub async fn close(&self) -> Result<(), CloseError> {
        shield(self.engine.close()).await
    }

    /// [`close`](Redlock::close), blocking this thread. No runtime is needed. On the very thread that runs the engine
    /// it closes and does not wait.
    ///
    /// # Errors
    ///
    /// As for [`close`](Redlock::close).
    pub fn close_blocking(&self) -> Result<(), CloseError> {
        if self.runs_here() {
            // One poll refuses new acquires; what is under way could only end if this thread went on.
            let closed = self.close().now_or_never();
            return closed.unwrap_or_else(|| self.engine.result_of_close());
        }
        block_on(self.close())
    }

    /// Whether this thread must not wait for an answer, since it has to give it.
    pub(crate) fn runs_here(&self) -> bool {
        self.engine.runs_here()
    }

    /// The reports of a request for which no node was asked.
    pub(crate) fn not_asked(&self) -> Reports {
        let report = |(index, status): (usize, NodeStatus)| NodeReport {
            node: NodeId::new(index),
            address: status.address,
            outcome: NodeOutcome::NotAsked,
        };
        self.nodes().into_iter().enumerate().map(report).collect()
    }

    /// Waits until the nodes can be used, or says why they cannot.
    pub(crate) async fn connected(self) -> Result<Self, ConnectError> {
        let limit = self.engine.now().saturating_add(self.engine.config.connect_timeout);
        let statuses = shield(self.engine.connected(limit)).await;
        // A quarantine ends by itself, and those who acquire meanwhile are told of it.
        let usable = |status: &&NodeStatus| {
            matches!(status.state, NodeState::Ready | NodeState::Quarantined { .. })
        };
        let ready = statuses.iter().filter(usable).count();
        let refused = statuses.iter().any(|status| matches!(status.state, NodeState::Refused(_)));
        let needed = self.engine.quorum.needed();
        if ready >= needed && !refused {
            return Ok(self);
        }
        let states = statuses.into_iter().map(|status| (status.address, status.state));
        let nodes: NodeStates = states.collect();
        Err(if refused {
            ConnectError::Refused { nodes }
        } else {
            ConnectError::NoQuorum { ready, needed, nodes }
        })
    }
}

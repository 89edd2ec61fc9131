//! Notice of the loss of a lease, without holding it.
//!
//! It only tells. It neither keeps a lease nor ends one, and keeps no connection open.

use std::{fmt, time::Duration};

use crate::{
    engine::LeaseTerm,
    error::{LeaseLost, NoToken},
    protocol::FencingToken,
};

/// Tells whether a lease still holds, without holding it. A clone tells of the same lease.
///
/// A release counts as a loss here: work under the lease must stop. A signal may be kept for any time: it keeps neither
/// the lease nor the connections to the nodes.
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let lease = redlock.acquire("invoice:42").await?;
/// let signal = lease.signal();
/// assert!(!signal.is_lost());
/// lease.release().await?;
/// println!("{}", signal.lost().await);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct LeaseSignal {
    pub(super) term: LeaseTerm,
}

impl LeaseSignal {
    pub(super) const fn new(term: LeaseTerm) -> Self {
        Self { term }
    }

    /// Whether the lease is over, by the clock of this moment.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.term.lost().is_some()
    }

    /// Resolves when the lease is over, with the reason. In a process that was forked it resolves at once, with
    /// [`LossReason::Forked`](crate::LossReason::Forked).
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn lost(&self) -> LeaseLost {
        self.term.when_lost().await
    }

    /// Reads the clock, and returns the validity left while the lease holds, as [`Lease::check`](crate::Lease::check)
    /// does.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], with the reason: stop the work.
    pub fn check(&self) -> Result<Duration, LeaseLost> {
        self.term.check()
    }

    /// The guaranteed time left, as [`Lease::validity`](crate::Lease::validity) tells it. Zero means that another
    /// client may hold the resource.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.term.check().unwrap_or_default()
    }

    /// The lease's fencing token, as [`Lease::token`](crate::Lease::token) tells it.
    ///
    /// # Errors
    ///
    /// [`NoToken`], in classic mode and nowhere else.
    pub fn token(&self) -> Result<FencingToken, NoToken> {
        self.term.token().ok_or(NoToken)
    }
}

impl fmt::Debug for LeaseSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseSignal").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

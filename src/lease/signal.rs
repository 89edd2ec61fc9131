//! The loss of a lease, for those who do not hold it.
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
/// A release counts as a loss here: whoever works under the lease has to stop. It may be kept for as long as one
/// likes: it keeps neither the lease nor the connections to the nodes.
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

    /// Ends when the lease is over, with the reason. In a process that was forked it ends at once, with
    /// [`LossReason::Forked`](crate::LossReason::Forked).
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn lost(&self) -> LeaseLost {
        self.term.when_lost().await
    }

    /// Reads the clock and says whether the lease still holds, as [`Lease::check`](crate::Lease::check) does. It returns
    /// the validity that is left.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], with the reason: stop the work.
    pub fn check(&self) -> Result<Duration, LeaseLost> {
        self.term.check()
    }

    /// What is guaranteed to be left, as of [`Lease::validity`](crate::Lease::validity). Zero means that somebody else
    /// may hold the resource.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.term.check().unwrap_or_default()
    }

    /// The lease's fencing token, as of [`Lease::token`](crate::Lease::token).
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

//! The loss of a lease, for those who do not hold it.
//!
//! It only tells. It neither keeps a lease nor ends one, and keeps no connection open.

use std::{fmt, sync::Arc};

use crate::{engine::Grant, error::LeaseLost, protocol::FencingToken};

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
    grant: Arc<Grant>,
}

impl LeaseSignal {
    pub(super) const fn new(grant: Arc<Grant>) -> Self {
        Self { grant }
    }

    /// Whether the lease is over, by the clock of this moment.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.grant.lost().is_some()
    }

    /// Ends when the lease is over, with the reason.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn lost(&self) -> LeaseLost {
        self.grant.wait(Grant::lost).await
    }

    /// The lease's fencing token; `None` in classic mode.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.grant.token()
    }
}

impl fmt::Debug for LeaseSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseSignal").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

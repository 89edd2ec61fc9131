//! Requests for what somebody else has let go of.

use std::sync::Arc;

use super::Redlock;
use crate::{
    acquire::Acquire,
    protocol::{DetachedLease, WaitPolicy},
};

impl Redlock {
    /// A request for a lease that its holder has [detached](crate::Lease::detach): it goes on where that holder has let go,
    /// and nobody has had the resource in between. Of several who adopt the same lease one succeeds at most. Its fencing token
    /// is above the one before.
    ///
    /// All settings of the request apply, and those of the lease before do not. A quorum of nodes must still have its
    /// keys. What a round takes in vain is given back to the detached lease, which ends when it would have. The keys of
    /// the adopted lease live on for what was left of the one before, where that is longer than the ttl. On a node that
    /// cannot be told of a release they stand for as long; so do those of earlier owners on a node that was away for
    /// several adoptions. The adopted lease is not handed on inside the process.
    ///
    /// It waits where nodes do not answer, or others try at the same time, up to the deadline. It does not wait for
    /// a holder: a lease that is over is an error at once, and one that is taken after a node timeout.
    ///
    /// # Errors
    ///
    /// Awaited, [`AcquireError::NotAdopted`](crate::AcquireError::NotAdopted), which says why. A lease of another fleet
    /// or a node that cannot do it is refused, and nothing is sent. For the others see
    /// [`acquire`](Redlock::acquire); `Contended` is none of them.
    /// # Cancel safety
    ///
    /// A future that is dropped gives back what it took to the detached lease. A lease that was granted and not picked up
    /// is released.
    #[doc(alias = "attach")]
    pub fn adopt(&self, lease: &DetachedLease) -> Acquire {
        let wait_policy = WaitPolicy::For(self.engine.config.wait);
        Acquire::adopting(Arc::clone(&self.engine), lease, wait_policy)
    }
}

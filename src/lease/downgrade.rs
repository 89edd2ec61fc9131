//! A writer that goes on as a reader.
//!
//! It decides of which leases that can be asked. What becomes of the grant, and of the nodes, is decided in
//! `engine/grant/downgrading.rs`.

use std::sync::Arc;

use thiserror::Error;

use super::Lease;
use crate::{
    error::{Ability, Unsupported},
    kind::{Exclusive, Shared},
    protocol::Target,
};

impl Lease<Exclusive> {
    /// Goes on as a reader: nobody has written in between, and from now on others may read beside it. To go the other way
    /// there is nothing: release, [`write`](crate::Redlock::write), and look whether what was read is still there.
    ///
    /// It asks nobody and waits for nothing: it is a reader at once, with the validity that there was, and its
    /// [`ReadToken`](crate::ReadToken) is the number of its fencing token. The nodes follow with an extension by its ttl,
    /// which begins here, also of a lease [`without_renewal`](crate::Acquire::without_renewal), and let other readers in
    /// then; where [`max_hold`](crate::Acquire::max_hold) allows none any more,
    /// they do when it is released or ends. What belongs to the request stays as it was: renewal, `max_hold`,
    /// `heartbeat_within`, `hold_at_least`, `lock_delay`.
    ///
    /// As a writer it is over: a [`LeaseSignal`](crate::LeaseSignal) of it says
    /// [`Released`](crate::LossReason::Released). What the writer has sent, and may still arrive, has to be through by
    /// then, or the store has to tell: in the strict form of `docs/kinds.md` it refuses what comes behind the first read.
    /// One that was lost before is a `ReadLease` that is lost.
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let lease = redlock.write("catalog").await?;
    /// let written = lease.token()?;
    /// let reads = lease.downgrade()?;
    /// let beside = redlock.read("catalog").await?;
    /// assert!(reads.token().covers(written) && beside.token() >= reads.token());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`DowngradeError`], with the lease as it was: it is of several resources, it was a permit, or the nodes know
    /// no readers.
    pub fn downgrade(mut self) -> Result<Lease<Shared>, DowngradeError> {
        match self.target() {
            Target::Slot(_) => return Err(DowngradeError::Permit { lease: self }),
            Target::One(_) => {}
            several => {
                return Err(DowngradeError::Several { resources: several.len(), lease: self });
            }
        }
        if let Err(reason) = self.engine().can(Ability::Readers) {
            return Err(DowngradeError::Unsupported { reason, lease: self });
        }
        // Nobody else holds it: leases of this kind are not cloned.
        if let Some(held) = Arc::get_mut(&mut self.held) {
            held.downgrade();
        }
        Ok(Lease::of(self.held))
    }
}

/// Why a lease cannot be shared with readers. It is as it was, and nothing was sent.
#[derive(Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// It is of several resources, which are read one by one. Release it, and [`read`](crate::Redlock::read) each.
    #[error(
        "the lease cannot be shared with readers, and is as it was: it is of {resources} resources; release it and read each"
    )]
    Several {
        /// How many.
        resources: usize,
        /// The lease, which holds as before. Dropping it releases it.
        lease: Lease,
    },
    /// It was a [`Permit`](crate::Permit), which is one holder's. To let more in, ask for more permits.
    #[error(
        "the lease cannot be shared with readers, and is as it was: it is a permit of a semaphore; ask for another permit"
    )]
    Permit {
        /// The lease, which holds as before. Dropping it releases it.
        lease: Lease,
    },
    /// The nodes know no readers. The field says why.
    #[error("the lease cannot be shared with readers, and is as it was: {reason}")]
    Unsupported {
        /// Why not.
        reason: Unsupported,
        /// The lease, which holds as before. Dropping it releases it.
        lease: Lease,
    },
}

debug_is_text! { enum DowngradeError {
    Several { resources, lease },
    Permit { lease },
    Unsupported { reason, lease },
} }

impl DowngradeError {
    /// The lease, which holds as before.
    pub fn into_lease(self) -> Lease {
        match self {
            Self::Several { lease, .. }
            | Self::Permit { lease }
            | Self::Unsupported { lease, .. } => lease,
        }
    }
}

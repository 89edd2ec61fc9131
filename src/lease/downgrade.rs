//! A writer that goes on as a reader.
//!
//! It decides which leases can be downgraded. `engine/grant/downgrading.rs` decides what becomes of the grant, and what
//! the nodes are told.

use std::sync::Arc;

use thiserror::Error;

use super::Lease;
use crate::{
    engine::HeldTerm,
    error::{Ability, Unsupported},
    kind::{Exclusive, Shared},
    protocol::Target,
};

impl Lease<Exclusive> {
    /// Turns this writer into a reader: nobody has written in between, and others may then read beside it. There is no
    /// way back: release, [`write`](crate::Redlock::write), and check whether what was read is still there.
    ///
    /// It asks no node and waits for nothing. The lease is a reader at once, with the validity that is left, and its
    /// [`ReadToken`](crate::ReadToken) is the number of its fencing token. The nodes follow with an extension by its
    /// ttl, and then let other readers in. This extension begins here, also of a lease
    /// [`without_renewal`](crate::Acquire::without_renewal); where [`max_hold`](crate::Acquire::max_hold) allows none
    /// any more, the nodes let them in when the lease is released or ends. The settings of the request stay: renewal,
    /// `max_hold`, `heartbeat_within`, `hold_at_least`, `lock_delay`.
    ///
    /// As a writer it is over: its [`LeaseSignal`](crate::LeaseSignal) says [`Released`](crate::LossReason::Released).
    /// Effects that the writer sent must have arrived by then, or the store must refuse them: in the strict form of
    /// `docs/kinds.md` it refuses effects that arrive after the first read. Downgrading a lost lease gives a lost
    /// `ReadLease`.
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
    /// [`DowngradeError`], with the lease as it was: it is of several resources, it was a permit, or the nodes know no
    /// readers.
    pub fn downgrade(self) -> Result<Lease<Shared>, DowngradeError> {
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
        let mut held = self.into_held();
        let alone = Arc::get_mut(&mut held);
        debug_assert!(alone.is_some(), "a plain lease is shared");
        alone.into_iter().for_each(HeldTerm::downgrade);
        Ok(Lease::of(held))
    }
}

/// Why a lease cannot be shared with readers. The lease is unchanged, and nothing was sent.
#[derive(Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The lease is of several resources, which are read one by one. Release it, and [`read`](crate::Redlock::read)
    /// each.
    #[error(
        "the lease cannot be shared with readers and is unchanged: it is of {resources} resources; release it and \
         read each"
    )]
    Several {
        /// How many resources.
        resources: usize,
        /// The lease, which holds as before. Dropping it releases it.
        lease: Lease,
    },
    /// The lease was a [`Permit`](crate::Permit), which has one holder. To let more in, ask for more permits.
    #[error(
        "the lease cannot be shared with readers and is unchanged: it is a permit of a semaphore; ask for another \
         permit"
    )]
    Permit {
        /// The lease, which holds as before. Dropping it releases it.
        lease: Lease,
    },
    /// The nodes know no readers. The field says why.
    #[error("the lease cannot be shared with readers and is unchanged: {reason}")]
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

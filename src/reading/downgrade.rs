//! A writer that goes on as a reader.
//!
//! It decides of which leases that can be asked. What becomes of the grant, and of the nodes, is decided in
//! `engine/grant/downgrading.rs`.

use std::fmt;

use super::ReadLease;
use crate::{error::ReadersError, lease::Lease, protocol::Target};

impl Lease {
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
    /// [`DowngradeError`], with the lease as it was: of what cannot be shared with readers at all, which is a lease of
    /// several resources, that of a permit, one of classic mode, or one on a node that knows of no readers.
    pub fn downgrade(mut self) -> Result<ReadLease, DowngradeError> {
        let may = match self.target() {
            Target::One(_) => self.engine().may_read(),
            Target::Slot(_) => Err(ReadersError::Permit),
            target => Err(ReadersError::Several { resources: target.len() }),
        };
        if let Err(reason) = may {
            return Err(DowngradeError { reason, lease: self });
        }
        self.go_on_as_reader();
        ReadLease::new(self)
            .map_err(|lease| DowngradeError { reason: ReadersError::Classic, lease })
    }
}

/// Why a lease cannot be shared with readers. It is as it was, and nothing was sent.
#[non_exhaustive]
pub struct DowngradeError {
    /// Why not.
    pub reason: ReadersError,
    /// The lease, which holds as before. Dropping it releases it.
    pub lease: Lease,
}

debug_is_text! { struct DowngradeError { reason, lease } }

impl fmt::Display for DowngradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease cannot be shared with readers, and is as it was: {}", self.reason)
    }
}

impl std::error::Error for DowngradeError {}

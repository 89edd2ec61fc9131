//! What a reader has: a lease that it shares with other readers, and its clones with each other.
//!
//! It decides nothing: time, loss and release are those of the lease.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    acquire::Cover,
    error::{ExtendError, LeaseLost, ReleaseError, WouldDeadlock},
    lease::{Lease, LeaseSignal, Release},
    protocol::{LossReason, Owner, ReadToken, Resource},
};

/// A resource that is read together with others.
///
/// While [`validity`](ReadLease::validity) is above zero, nobody has a plain lease on the resource, under the assumptions
/// numbered in `docs/safety.md`. It is renewed, warns and is lost as a [`Lease`] is. A clone is another hand on the same
/// lease: the last one that is dropped or released releases it.
///
/// A writer becomes one by [`Lease::downgrade`]. A reader cannot become a writer: two that tried would wait for each other.
/// Release it, [`write`](crate::Redlock::write), and look whether what was read is still what is there: whoever keeps the
/// largest fencing token beside it asks [`ReadToken::covers`].
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let lease = redlock.read("catalog").await?;
/// let beside = lease.clone();
/// lease.release().await?;
/// beside.check()?; // it still holds
/// beside.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "dropping the last one of a lease releases it at once"]
#[clippy::has_significant_drop]
#[derive(Clone)]
pub struct ReadLease {
    held: Arc<Held>,
}

struct Held {
    lease: Lease,
    token: ReadToken,
}

impl ReadLease {
    /// Not of one that has no token, which no reader is given.
    pub(crate) fn new(lease: Lease) -> Result<Self, Lease> {
        match lease.token() {
            Ok(token) => Ok(Self { held: Arc::new(Held { lease, token: token.into() }) }),
            Err(_) => Err(lease),
        }
    }

    /// What is read: the key on the nodes, with the prefix where one is configured.
    pub fn resource(&self) -> &Resource {
        self.held.lease.resource()
    }

    /// What stands on the nodes for this reader, unique to it. It is of use in logs.
    pub fn owner(&self) -> Owner {
        self.held.lease.owner()
    }

    /// Up to which write this reader may see. It is for the store that it reads from, and for
    /// [`FenceGate::admit_read`](crate::FenceGate::admit_read); `docs/fencing.md` has recipes.
    pub fn token(&self) -> ReadToken {
        self.held.token
    }

    /// The lifetime that was asked for.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.held.lease.ttl()
    }

    /// As [`Lease::validity`]: for how long nobody writes.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.held.lease.validity()
    }

    /// Whether there is validity left.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.held.lease.is_valid()
    }

    /// As [`Lease::check`]: reads the clock, and says whether the lease still holds. What was read before it said so was read
    /// while nobody wrote.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], with the reason: what was read since the last check may be of mixed states.
    pub fn check(&self) -> Result<Duration, LeaseLost> {
        self.held.lease.check()
    }

    /// As [`Lease::lost`]: ends when the lease is lost.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn lost(&self) -> LeaseLost {
        self.held.lease.lost().await
    }

    /// As [`Lease::ending`]: ends when the lease is about to be lost.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn ending(&self) -> LossReason {
        self.held.lease.ending().await
    }

    /// As [`Lease::signal`]: for those who want to know of the loss and do not hold the lease.
    #[must_use]
    pub fn signal(&self) -> LeaseSignal {
        self.held.lease.signal()
    }

    /// As [`Lease::heartbeat`], for [`heartbeat_within`](crate::Read::heartbeat_within).
    pub fn heartbeat(&self) {
        self.held.lease.heartbeat();
    }

    /// As [`Lease::extend`]: by its ttl from now.
    ///
    /// # Errors
    ///
    /// As for [`Lease::extend`].
    ///
    /// # Cancel safety
    ///
    /// The extension goes on when the future is dropped, and counts if it succeeds.
    pub async fn extend(&self) -> Result<Duration, ExtendError> {
        self.held.lease.extend().await
    }

    /// Ends the lease now, where this is the last hand on it; otherwise it returns at once.
    ///
    /// # Errors
    ///
    /// As for [`Lease::release`].
    ///
    /// # Cancel safety
    ///
    /// The release starts when this method is called, and dropping the future does not stop it.
    pub fn release(self) -> Release {
        let none = self.held.lease.left_to_others();
        match Arc::into_inner(self.held) {
            Some(last) => last.lease.release(),
            None => none,
        }
    }

    /// [`release`](ReadLease::release), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`Lease::blocking_release`].
    pub fn blocking_release(self) -> Result<(), ReleaseError> {
        Arc::into_inner(self.held).map_or(Ok(()), |last| last.lease.blocking_release())
    }

    /// [`lost`](ReadLease::lost), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`], unless the lease is lost already.
    pub fn blocking_lost(&self) -> Result<LeaseLost, WouldDeadlock> {
        self.held.lease.blocking_lost()
    }

    /// [`ending`](ReadLease::ending), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`], unless the lease is lost or about to be already.
    pub fn blocking_ending(&self) -> Result<LossReason, WouldDeadlock> {
        self.held.lease.blocking_ending()
    }

    /// [`extend`](ReadLease::extend), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`Lease::blocking_extend`].
    pub fn blocking_extend(&self) -> Result<Duration, ExtendError> {
        self.held.lease.blocking_extend()
    }
}

impl Cover for ReadLease {
    fn lease(&self) -> &Lease {
        &self.held.lease
    }

    fn give_back(self) -> Release {
        self.release()
    }
}

impl fmt::Debug for ReadLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadLease")
            .field("resource", self.resource())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}

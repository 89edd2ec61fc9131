//! Re-entrancy by handle: whoever holds the handle may acquire again what it holds.
//!
//! It decides who shares a lease. An inner acquire asks no node, and its token is that of the lease: one that
//! grew on re-entry would shut out the outer holder.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::{
    acquire::Acquire,
    error::{AcquireError, ReleaseError},
    lease::Lease,
    redlock::Redlock,
};

/// An owner of leases that may acquire what it holds already, as Redisson's `RLock` lets a thread do; here it
/// is a handle, because tasks move between threads.
///
/// A clone is the same owner. Another handle is another owner, and waits like everybody else.
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let worker = redlock.reentrant();
/// let outer = worker.acquire("invoice:42").await?;
/// let inner = worker.acquire("invoice:42").await?; // asks no node
/// assert_eq!(outer.fencing_token(), inner.fencing_token());
/// inner.release().await?; // the outer one still holds
/// assert!(outer.is_valid());
/// outer.release().await?; // now it is released on the nodes
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Reentrant {
    redlock: Redlock,
    held: Arc<Mutex<HashMap<Box<[u8]>, Slot>>>,
}

/// One resource of an owner. The lock makes the owner's own tasks wait for each other's first acquire.
type Slot = Arc<tokio::sync::Mutex<Weak<Lease>>>;

impl Reentrant {
    pub(crate) fn new(redlock: Redlock) -> Self {
        Self { redlock, held: Arc::default() }
    }

    /// Acquires `resource`, or shares the lease on it that this owner holds and that is still valid, with the
    /// builder's settings.
    ///
    /// # Errors
    ///
    /// [`AcquireError`], where this owner does not hold it and could not acquire it.
    ///
    /// # Cancel safety
    ///
    /// As for [`AcquireFuture`](crate::AcquireFuture): whatever was set is released in the background.
    pub async fn acquire(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<ReentrantLease, AcquireError> {
        let resource = resource.as_ref();
        self.acquire_with(resource, self.redlock.acquire(resource)).await
    }

    /// As [`acquire`](Reentrant::acquire), without waiting for other owners.
    ///
    /// # Errors
    ///
    /// [`AcquireError`], where this owner does not hold it and could not acquire it.
    ///
    /// # Cancel safety
    ///
    /// As for [`AcquireFuture`](crate::AcquireFuture): whatever was set is released in the background.
    pub async fn try_acquire(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<ReentrantLease, AcquireError> {
        let resource = resource.as_ref();
        self.acquire_with(resource, self.redlock.try_acquire(resource)).await
    }

    async fn acquire_with(
        &self,
        resource: &[u8],
        request: Acquire,
    ) -> Result<ReentrantLease, AcquireError> {
        let slot = {
            let mut held = self.held();
            // What nobody holds and nobody is acquiring is forgotten here, so that the map stays small.
            held.retain(|_, slot| Arc::strong_count(slot) > 1);
            Arc::clone(held.entry(resource.into()).or_default())
        };
        let mut current = slot.lock().await;
        if let Some(lease) = current.upgrade().filter(|lease| lease.is_valid()) {
            drop(current);
            return Ok(ReentrantLease { lease, slot });
        }
        let lease = Arc::new(request.await?);
        *current = Arc::downgrade(&lease);
        drop(current);
        Ok(ReentrantLease { lease, slot })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Slot>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reentrant").field("resources", &self.held().len()).finish_non_exhaustive()
    }
}

/// One of the holders of a lease that an owner has acquired once or several times. It shows the lease; the
/// last one that is released or dropped releases it.
#[must_use = "dropping the last holder of a lease releases it at once"]
#[clippy::has_significant_drop]
pub struct ReentrantLease {
    lease: Arc<Lease>,
    /// Keeps the owner from forgetting the resource.
    slot: Slot,
}

impl ReentrantLease {
    /// How many holders of this owner there are, this one included.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.lease)
    }

    /// Gives this hold up. The last one releases the lease, and returns when a quorum has confirmed that.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`], for the last holder only.
    ///
    /// # Cancel safety
    ///
    /// The hold is given up when this method is first polled, and dropping the future after that loses only
    /// the result.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let Self { lease, slot } = self;
        let last = Arc::into_inner(lease);
        drop(slot);
        match last {
            Some(lease) => lease.release().await,
            None => Ok(()),
        }
    }
}

impl Deref for ReentrantLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for ReentrantLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLease")
            .field("lease", &self.lease)
            .field("holders", &self.holders())
            .finish_non_exhaustive()
    }
}

//! Re-entrancy by handle: a handle may acquire again what it holds.
//!
//! It decides nothing: `acquire/nested.rs` decides which requests share a lease.

use std::{fmt, sync::Arc};

use crate::{
    acquire::{Acquire, Handle},
    kind::{Exclusive, Nested},
    redlock::Redlock,
};

/// A handle that may acquire again what it holds, as Redisson's `RLock` lets a thread do. It is a handle, because tasks
/// move between threads.
///
/// A clone is the same handle. Another handle waits like any other client.
///
/// ```
/// # use std::time::Duration;
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let worker = redlock.reentrant();
/// let outer = worker.acquire("invoice:42").await?;
/// let inner = worker.acquire("invoice:42").wait(Duration::from_secs(1)).await?; // asks no node
/// assert_eq!(outer.token(), inner.token());
/// inner.release().await?; // the outer one still holds
/// assert!(outer.is_valid());
/// outer.release().await?; // now it is released on the nodes
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Reentrant {
    redlock: Redlock,
    handle: Arc<Handle>,
}

impl Redlock {
    /// A handle whose nested acquires of a held resource share one lease.
    #[must_use]
    pub fn reentrant(&self) -> Reentrant {
        Reentrant { redlock: self.clone(), handle: Arc::default() }
    }
}

impl Reentrant {
    /// A request for a lease on `resource`. If this handle holds it already, the lease is shared.
    ///
    /// The request's settings of the lease (ttl, renewal, `max_hold`, heartbeat) count only where the handle does not
    /// hold it: a shared lease stays as it is. A lease is not shared if it is lost, has less left than `min_validity`
    /// or `hold_at_least` asks for, or has a shorter `lock_delay`. `hold_at_least` counts for a shared lease from now on.
    ///
    /// A request that cannot share stands in line as any other, also behind this handle's own lease. It shares as soon as
    /// the handle has a lease that it can share: one that another request of it has acquired, or one that was renewed and
    /// has enough left again. After [`close`](Redlock::close) a request can still share.
    ///
    /// # Errors
    ///
    /// Awaited, [`AcquireError`](crate::AcquireError), where this handle does not hold the resource and could not
    /// acquire it.
    pub fn acquire(&self, resource: impl AsRef<[u8]>) -> Acquire<Nested> {
        self.shares(self.redlock.acquire(resource))
    }

    /// As [`acquire`](Reentrant::acquire), without waiting for other holders or for another request of this handle.
    pub fn try_acquire(&self, resource: impl AsRef<[u8]>) -> Acquire<Nested> {
        self.shares(self.redlock.try_acquire(resource))
    }

    fn shares(&self, request: Acquire<Exclusive>) -> Acquire<Nested> {
        request.of_handle(Arc::clone(&self.handle))
    }
}

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reentrant")
            .field("resources", &self.handle.resources())
            .finish_non_exhaustive()
    }
}

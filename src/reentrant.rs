//! Re-entrancy by handle: what a handle holds, it may acquire again.
//!
//! It decides nothing: who shares a lease is decided in `acquire/nested.rs`.

use std::{fmt, sync::Arc};

use crate::{
    acquire::{Acquire, Handle},
    kind::{Exclusive, Nested},
    redlock::Redlock,
};

/// A handle that may acquire what it holds already, as Redisson's `RLock` lets a thread do; a handle, because tasks
/// move between threads.
///
/// A clone is the same handle. Another handle waits like everybody else.
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
    /// A handle whose nested acquires of a resource that it holds share one lease.
    #[must_use]
    pub fn reentrant(&self) -> Reentrant {
        Reentrant { redlock: self.clone(), handle: Arc::default() }
    }
}

impl Reentrant {
    /// A request for a lease on `resource` that this handle may hold already: then it is shared.
    ///
    /// What its settings say of the lease (ttl, renewal, `max_hold`, heartbeat) counts where the handle does not hold it: a
    /// lease that is shared stays as it is. A lease that is lost is not shared, nor a lease that has less left than
    /// `min_validity` or `hold_at_least` asks for, or a shorter `lock_delay`; `hold_at_least` counts for a shared lease from
    /// now on. Where the handle is acquiring it already, the request waits for that, up to its `wait` in all.
    ///
    /// # Errors
    ///
    /// Awaited, [`AcquireError`](crate::AcquireError), where this handle does not hold it and could not acquire it.
    /// [`Contended`](crate::AcquireError::Contended) without an answer of any node says that this handle's own first acquire
    /// took too long, such as one whose future is kept and not polled.
    pub fn acquire(&self, resource: impl AsRef<[u8]>) -> Acquire<Nested> {
        self.shares(self.redlock.acquire(resource))
    }

    /// As [`acquire`](Reentrant::acquire), without waiting: not for other holders, nor for this handle.
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

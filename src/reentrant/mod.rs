//! Re-entrancy by handle: what a handle holds, it may acquire again.
//!
//! It decides who shares a lease. An inner acquire asks no node, and its token is that of the lease: one that
//! grew on re-entry would shut out the outer holder.

mod request;

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub use self::request::ReentrantAcquire;
use crate::{
    acquire::Acquire,
    error::{AcquireError, ReleaseError},
    lease::{Lease, Release},
    lock::Lock,
    protocol::Target,
    redlock::Redlock,
    runtime::block_on,
};

/// The map is looked through for what is not needed any more no sooner than at this size.
const FEW: usize = 32;

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
    held: Arc<Lock<Slots>>,
}

/// The resources of a handle, with some that it does not hold any more.
#[derive(Default)]
struct Slots {
    by_name: HashMap<Box<[u8]>, Slot>,
    /// The size at which those are forgotten that nobody holds and nobody is acquiring.
    prune_at: usize,
}

type Slot = Arc<Shared>;

/// One resource of a handle.
#[derive(Default)]
struct Shared {
    lease: Lock<Weak<Common>>,
    /// Held by the one of the handle's tasks that is acquiring: the others wait for it, and then share.
    turn: tokio::sync::Mutex<()>,
}

impl Redlock {
    /// A handle whose nested acquires of a resource that it holds share one lease.
    #[must_use]
    pub fn reentrant(&self) -> Reentrant {
        Reentrant::new(self.clone())
    }
}

impl Reentrant {
    pub(crate) fn new(redlock: Redlock) -> Self {
        Self { redlock, held: Arc::default() }
    }

    /// A request for a lease on `resource` that this handle may hold already: then it is shared. See
    /// [`ReentrantAcquire`] for the settings.
    pub fn acquire(&self, resource: impl AsRef<[u8]>) -> ReentrantAcquire {
        let resource = resource.as_ref();
        ReentrantAcquire::new(self.clone(), resource, self.redlock.acquire(resource))
    }

    /// As [`acquire`](Reentrant::acquire), without waiting: not for other holders, nor for this handle.
    pub fn try_acquire(&self, resource: impl AsRef<[u8]>) -> ReentrantAcquire {
        let resource = resource.as_ref();
        ReentrantAcquire::new(self.clone(), resource, self.redlock.try_acquire(resource))
    }

    async fn acquire_with(
        &self,
        resource: &[u8],
        mut request: Acquire,
    ) -> Result<ReentrantLease, AcquireError> {
        if !self.redlock.is_here() {
            // In a forked process a thread that is not there may have the locks.
            return Err(AcquireError::RuntimeEnded);
        }
        let slot = self.held().slot(resource);
        if let Some(hold) = slot.share(&request) {
            return Ok(ReentrantLease { hold, slot });
        }
        let turn = match slot.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = request.wait_for(slot.turn.lock()).await;
                turn.map_err(|waited| self.busy_with_itself(request.asked_for(), waited))?
            }
        };
        // Asked again under the turn: whoever had it may have acquired meanwhile.
        let hold = match slot.share(&request) {
            Some(hold) => hold,
            None => {
                let hold = Hold::first(request.await?);
                *slot.current() = Arc::downgrade(&hold.common);
                hold
            }
        };
        drop(turn);
        Ok(ReentrantLease { hold, slot })
    }

    /// The handle's own first acquire is not over. No node has been asked.
    fn busy_with_itself(&self, target: Option<Target>, waited: Duration) -> AcquireError {
        let nodes = self.redlock.not_asked();
        AcquireError::Contended { target, waited, expires_in: None, resource: None, nodes }
    }

    fn held(&self) -> MutexGuard<'_, Slots> {
        self.held.lock()
    }
}

impl Shared {
    /// A share of the lease, if that has as much left as the request wants.
    fn share(&self, request: &Acquire) -> Option<Hold> {
        // The upgrade alone is no hold; the count in `another` is.
        let common = self.current().upgrade()?;
        let left = common.lease.check().ok()?;
        let is_short = common.lease.lock_delay() < request.least_delay();
        if left.is_zero() || left < request.least() || is_short {
            return None;
        }
        let hold = Hold::another(common)?;
        if let Some(least) = request.least_hold() {
            hold.common.lease.hold_for(least);
        }
        Some(hold)
    }

    fn current(&self) -> MutexGuard<'_, Weak<Common>> {
        self.lease.lock()
    }
}

/// A lease, with how many hold it. Once nobody does it is released, and stays so.
struct Common {
    lease: Lease,
    holders: AtomicUsize,
}

/// One of those who hold a lease.
struct Hold {
    common: Arc<Common>,
    given_up: bool,
}

impl Hold {
    fn first(lease: Lease) -> Self {
        let common = Common { lease, holders: AtomicUsize::new(1) };
        Self { common: Arc::new(common), given_up: false }
    }

    /// One more, unless the last one has given it up.
    fn another(common: Arc<Common>) -> Option<Self> {
        // From zero there is no way back: the last one has started the release.
        let more = |holders: usize| holders.checked_add(1).filter(|_| holders > 0);
        let joined = common.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        joined.ok().map(|_| Self { common, given_up: false })
    }

    /// Gives it up. The last one starts the release.
    fn give_up(&mut self) -> Option<Release> {
        self.is_last().then(|| self.common.lease.start_release())
    }

    /// Counts it out, once: `release` calls this, and the drop after it again.
    fn is_last(&mut self) -> bool {
        let given_up = std::mem::replace(&mut self.given_up, true);
        !given_up && self.common.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_last() {
            self.common.lease.let_go();
        }
    }
}

impl Slots {
    /// The slot of a resource. It is kept while somebody has it.
    fn slot(&mut self, resource: &[u8]) -> Slot {
        if let Some(slot) = self.by_name.get(resource) {
            return Arc::clone(slot);
        }
        // Looked through only when it has doubled, it costs each acquire little however much is held.
        if self.by_name.len() >= self.prune_at {
            self.by_name.retain(|_, slot| Arc::strong_count(slot) > 1);
            self.prune_at = self.by_name.len().saturating_mul(2).max(FEW);
        }
        Arc::clone(self.by_name.entry(resource.into()).or_default())
    }
}

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // None where somebody has the lock: in a forked process that may be for ever.
        f.debug_struct("Reentrant")
            .field("resources", &self.held.try_lock().map(|held| held.by_name.len()))
            .finish_non_exhaustive()
    }
}

/// One of the holders of a lease that a handle has acquired once or several times. It shows the lease; the
/// last one that is released or dropped releases it.
#[must_use = "dropping the last holder of a lease releases it at once"]
#[clippy::has_significant_drop]
pub struct ReentrantLease {
    hold: Hold,
    /// Keeps the handle from forgetting the resource.
    slot: Slot,
}

impl ReentrantLease {
    /// How many holders of this lease there are, this one included.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.hold.common.holders.load(Ordering::Acquire)
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
        let Self { mut hold, slot } = self;
        let last = hold.give_up();
        drop((hold, slot));
        match last {
            Some(release) => release.await,
            None => Ok(()),
        }
    }

    /// [`release`](ReentrantLease::release), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`release`](ReentrantLease::release), and [`ReleaseError::WouldDeadlock`] for the last holder.
    pub fn blocking_release(self) -> Result<(), ReleaseError> {
        let runs_here = self.hold.common.lease.runs_here();
        let Self { mut hold, slot } = self;
        let last = hold.give_up();
        drop((hold, slot));
        match last {
            Some(_) if runs_here => Err(ReleaseError::WouldDeadlock),
            Some(release) => block_on(release),
            None => Ok(()),
        }
    }
}

impl Deref for ReentrantLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.hold.common.lease
    }
}

impl fmt::Debug for ReentrantLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLease")
            .field("lease", &self.hold.common.lease)
            .field("holders", &self.holders())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_forgotten_when_the_map_has_doubled_and_not_before() {
        let mut slots = Slots::default();
        let name = |number: usize| number.to_string().into_bytes();
        let held: Vec<Slot> = (0..FEW).map(|number| slots.slot(&name(number))).collect();
        // Full: it is looked through, and everything is held.
        drop(slots.slot(b"first"));
        for number in FEW + 1..2 * FEW {
            drop(slots.slot(&name(number)));
            assert_eq!(slots.by_name.len(), number + 1, "looked through too soon");
        }
        drop(slots.slot(b"last"));
        assert_eq!(slots.by_name.len(), FEW + 1);
        assert!(held.iter().all(|slot| Arc::strong_count(slot) == 2));
    }
}

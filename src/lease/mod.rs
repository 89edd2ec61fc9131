//! What the caller holds: a resource, until a point in time, or until it is released.
//!
//! It decides nothing about time or quorum; it carries what a won round promised. It must never panic when
//! dropped, inside or outside a runtime.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    driver::Driver,
    error::ReleaseError,
    protocol::{NodeId, Owner, Resource, Timestamp, validity},
};

/// A held resource.
///
/// While [`validity`](Lease::validity) is above zero, nobody else holds the resource, under the assumptions
/// numbered in `docs/safety.md`. It is owned, `'static` and [`Send`]: store it, move it to another task.
///
/// # Drop behavior
///
/// Dropping a lease releases it in the background, at once, from any thread, inside or outside a runtime.
/// Nobody learns whether that was confirmed; [`release`](Lease::release) tells.
/// [`Redlock::close`](crate::Redlock::close) waits for such releases before a process ends.
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let lease = redlock.acquire("invoice:42").await?;
/// assert_eq!(lease.resource().as_bytes(), b"invoice:42");
/// lease.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "dropping a lease releases it at once"]
#[clippy::has_significant_drop]
pub struct Lease {
    driver: Arc<Driver>,
    resource: Resource,
    owner: Owner,
    ttl: Duration,
    deadline: Timestamp,
    /// The nodes that may hold the key, and whether that is unknown; `None` once released.
    held: Option<Box<[(NodeId, bool)]>>,
}

impl Lease {
    pub(crate) const fn new(
        driver: Arc<Driver>,
        resource: Resource,
        owner: Owner,
        ttl: Duration,
        deadline: Timestamp,
        held: Box<[(NodeId, bool)]>,
    ) -> Self {
        Self { driver, resource, owner, ttl, deadline, held: Some(held) }
    }

    /// What is held: the key on the nodes, with the prefix where one is configured.
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The value of the key on the nodes, unique to this lease. It is of use in logs, and to find the
    /// holder of a key.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// The lifetime that was asked for.
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// What is guaranteed to be left: ttl - elapsed - drift, measured from before the first send on a clock
    /// that counts while the machine sleeps. Zero means that somebody else may hold the resource.
    ///
    /// It is read from the clock at each call: call it just before an effect, with the time that the effect
    /// takes in mind.
    #[must_use]
    pub fn validity(&self) -> Duration {
        validity::left(self.deadline, self.driver.now())
    }

    /// Ends the lease now, so that others need not wait for the ttl.
    ///
    /// It returns when a quorum has confirmed; the other nodes are seen to in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`], which says whether the lease had ended before, or too few nodes confirmed. The
    /// lease is over either way.
    ///
    /// # Cancel safety
    ///
    /// The release starts when this method is called, not when the future is polled, and dropping the
    /// future does not stop it: only its result is lost.
    pub fn release(mut self) -> Release {
        Release { answer: self.start_release() }
    }

    /// [`release`](Lease::release), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`release`](Lease::release).
    pub fn release_blocking(self) -> Result<(), ReleaseError> {
        futures::executor::block_on(self.release())
    }

    fn start_release(&mut self) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        let held = self.held.take()?;
        Some(self.driver.release(self.resource.clone(), self.owner, self.ttl, held))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.start_release());
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resource", &self.resource)
            .field("owner", &self.owner)
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}

/// A release under way, made by [`Lease::release`]. It works on any executor, and goes on when dropped.
#[must_use = "await it to learn whether the release was confirmed"]
#[derive(Debug)]
pub struct Release {
    answer: Option<oneshot::Receiver<Result<(), ReleaseError>>>,
}

impl Future for Release {
    type Output = Result<(), ReleaseError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(Err(ReleaseError::RuntimeEnded));
        };
        Pin::new(answer).poll(cx).map(|result| {
            self.answer = None;
            result.unwrap_or(Err(ReleaseError::RuntimeEnded))
        })
    }
}

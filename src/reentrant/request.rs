//! The request of a handle: the settings of an acquire, for the case that there is no lease to share.
//!
//! It decides nothing: every setting is that of `Acquire`, by the same name.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use super::{Reentrant, ReentrantLease};
use crate::{
    acquire::{Acquire, blocking, settings_of_acquire},
    error::AcquireError,
};

/// A request for a lease that its handle may hold already, made by [`Reentrant::acquire`]. Await it, or call
/// [`blocking`](ReentrantAcquire::blocking).
///
/// Its settings are those of [`Acquire`], and what they say of the lease (ttl, renewal, `max_hold`, heartbeat) counts
/// where the handle does not hold it: a lease that is shared stays as it is. A lease that is lost is not shared, nor one
/// that has less left than `min_validity` or `hold_at_least` asks for, or a shorter `lock_delay`; `hold_at_least` counts for
/// a shared lease from now on.
///
/// Where the handle is acquiring it already, this waits for that, up to its `wait` in all.
///
/// # Errors
///
/// [`AcquireError`], where this handle does not hold it and could not acquire it.
/// [`Contended`](AcquireError::Contended) without an answer of any node says that this handle's own first acquire took too
/// long, such as one whose future is kept and not polled.
///
/// # Cancel safety
///
/// As for [`AcquireFuture`](crate::AcquireFuture): whatever was set is released in the background.
#[derive(Clone)]
#[must_use = "a request does nothing until it is awaited or blocked on"]
pub struct ReentrantAcquire {
    handle: Reentrant,
    resource: Box<[u8]>,
    request: Acquire,
}

impl ReentrantAcquire {
    pub(super) fn new(handle: Reentrant, resource: &[u8], request: Acquire) -> Self {
        Self { handle, resource: resource.into(), request }
    }

    settings_of_acquire! {
        ttl(ttl: Duration)
        wait(wait: Duration)
        wait_without_deadline()
        wait_through_outages()
        min_validity(min_validity: Duration)
        with_renewal()
        without_renewal()
        max_hold(max_hold: Duration)
        heartbeat_within(interval: Duration)
        hold_at_least(least: Duration)
        linger(linger: Duration)
        lock_delay(delay: Duration)
    }

    /// Acquires or shares on this thread, blocking it, as [`Acquire::blocking`] does.
    ///
    /// # Errors
    ///
    /// As when awaited, and [`AcquireError::WouldDeadlock`].
    pub fn blocking(self) -> Result<ReentrantLease, AcquireError> {
        blocking(self.request.runs_here(), self)
    }
}

impl IntoFuture for ReentrantAcquire {
    type Output = Result<ReentrantLease, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let process = self.handle.redlock.process();
            let acquiring = self.handle.acquire_with(&self.resource, self.request);
            process.awaits(acquiring).await.unwrap_or(Err(AcquireError::RuntimeEnded))
        })
    }
}

impl fmt::Debug for ReentrantAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

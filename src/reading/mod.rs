//! Readers of a resource: the request, in `lease` what a reader has, and in `downgrade` how a writer becomes one.
//!
//! It decides nothing: a reader is a lease on a shared target, and every setting is that of `Acquire`, by the same name.

mod downgrade;
mod lease;

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

pub use self::{downgrade::DowngradeError, lease::ReadLease};
use crate::{
    acquire::{
        Acquire, AcquireFuture, Ran, blocking, blocking_run, run, run_until_lost,
        settings_of_acquire,
    },
    error::{AcquireError, ReadersError, RunError},
    lease::LeaseSignal,
};

/// A request to read a resource together with others, made by [`Redlock::read`](crate::Redlock::read). Await it, or call
/// [`blocking`](Read::blocking), [`run`](Read::run) or [`run_until_lost`](Read::run_until_lost).
///
/// Its settings are those of [`Acquire`].
#[derive(Clone)]
#[must_use = "a request does nothing until it is awaited, run or blocked on"]
pub struct Read {
    request: Acquire,
}

impl Read {
    pub(crate) fn new(request: Acquire) -> Self {
        Self { request }
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
    }

    /// Acquires on this thread, blocking it, as [`Acquire::blocking`] does.
    ///
    /// # Errors
    ///
    /// As when awaited, and [`AcquireError::WouldDeadlock`].
    pub fn blocking(self) -> Result<ReadLease, AcquireError> {
        blocking(self.request.runs_here(), self)
    }

    /// Runs `work` under a lease and releases it afterwards, as [`Acquire::run`] does. When the lease is lost, `work` is
    /// dropped where it stands.
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`], and then `work` was not called; [`RunError::Lost`], and then it did not come to its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and releases in the background.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&ReadLease) -> T) -> Result<T, RunError> {
        run(self.into_future(), work).await
    }

    /// Runs `work` under a lease, to its end whatever becomes of the lease, and releases it afterwards, as
    /// [`Acquire::run_until_lost`] does: the signal tells of the loss. What was read behind it may be of mixed states.
    ///
    /// # Errors
    ///
    /// [`AcquireError`], and then `work` was not called.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and releases in the background.
    pub async fn run_until_lost<T>(
        self,
        work: impl AsyncFnOnce(&ReadLease, LeaseSignal) -> T,
    ) -> Result<Ran<T>, AcquireError> {
        run_until_lost(self.into_future(), work).await
    }

    /// [`run_until_lost`](Read::run_until_lost), blocking this thread, as [`Acquire::blocking_run`] does. No runtime is
    /// needed.
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # let redlock = Redlock::blocking_connect([MemoryNode::new()])?;
    /// let ran = redlock.read("catalog").blocking_run(|lease| lease.check().map(|_| "a title"))?;
    /// assert_eq!((ran.output?, ran.lost), ("a title", None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`run_until_lost`](Read::run_until_lost), and [`AcquireError::WouldDeadlock`].
    pub fn blocking_run<T>(
        self,
        work: impl FnOnce(&ReadLease) -> T,
    ) -> Result<Ran<T>, AcquireError> {
        blocking_run(self.blocking()?, work)
    }
}

impl IntoFuture for Read {
    type Output = Result<ReadLease, AcquireError>;
    type IntoFuture = ReadFuture;

    fn into_future(self) -> ReadFuture {
        ReadFuture { acquiring: self.request.into_future() }
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

/// A reader's acquire under way. It works on any executor.
///
/// # Cancel safety
///
/// As for [`AcquireFuture`]: whatever was set is released in the background.
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct ReadFuture {
    acquiring: AcquireFuture,
}

impl Future for ReadFuture {
    type Output = Result<ReadLease, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lease = ready!(Pin::new(&mut self.acquiring).poll(cx))?;
        // Without a hint there is no token, and without that nothing was asked.
        let classic = |_| AcquireError::Readers(ReadersError::Classic);
        Poll::Ready(ReadLease::new(lease).map_err(classic))
    }
}

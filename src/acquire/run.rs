//! Work under a lease: acquired before it, released after it.
//!
//! It decides what becomes of work whose lease is lost: dropped where it stands, or told. It must never begin work
//! without a lease.

use std::{future::Future, pin::pin};

use futures::future::{Either, select};

use super::Acquire;
use crate::{
    error::{AcquireError, LeaseLost, RunError},
    lease::{Lease, LeaseSignal},
};

/// What came of work under a lease that was not cut off: [`Acquire::run_until_lost`], [`Acquire::blocking_run`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[must_use = "the lease may have been lost, and then somebody else may have worked at the same time"]
pub struct Ran<T> {
    /// What the work returned.
    pub output: T,
    /// Whether the lease was lost before the work ended, and why. What the work did after that is covered by no lease,
    /// only by its fencing token.
    pub lost: Option<LeaseLost>,
}

/// What work returns, unless the loss comes first, which drops it where it stands.
pub(crate) async fn unless_lost<T>(
    lost: impl Future<Output = LeaseLost>,
    work: impl Future<Output = T>,
) -> Result<T, LeaseLost> {
    // The loss is looked at first: work that is ready at the same moment may be too late.
    match select(pin!(lost), pin!(work)).await {
        Either::Left((lost, _)) => Err(lost),
        Either::Right((result, _)) => Ok(result),
    }
}

impl Acquire {
    /// Runs `work` under a lease and releases it afterwards. When the lease is lost, `work` is dropped where it
    /// stands: for work with a cleanup there is [`run_until_lost`](Acquire::run_until_lost).
    ///
    /// The result of `work` is returned whether or not the release was confirmed: what cannot be released
    /// now is released in the background, or expires.
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let sum = redlock.acquire("invoice:42").run(async |lease| {
    ///     assert!(!lease.validity().is_zero());
    ///     1 + 1
    /// });
    /// assert_eq!(sum.await?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`], and then `work` was not called; [`RunError::Lost`], and then it did not come to
    /// its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and releases in the background.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Lease) -> T) -> Result<T, RunError> {
        let lease = self.await?;
        lease.begin_work()?;
        let result = unless_lost(lease.lost(), work(&lease)).await?;
        // What was not confirmed goes on in the background, and the work is done all the same.
        drop(lease.release().await);
        Ok(result)
    }

    /// Runs `work` under a lease, to its end whatever becomes of the lease, and releases it afterwards. It is for work
    /// with a cleanup: the signal tells of the loss, and what `work` returns comes back with whether there was one.
    ///
    /// From the loss on, somebody else may hold the resource. So `work` waits for the signal beside whatever else it
    /// waits for, and does nothing after it but what is its own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let request = redlock.acquire("spool").ttl(Duration::from_millis(100)).without_renewal();
    /// let ran = request.run_until_lost(async |_lease, signal| {
    ///     let mut printed = 0;
    ///     loop {
    ///         tokio::select! {
    ///             _ = signal.lost() => break printed, // here it would close its files
    ///             () = tokio::time::sleep(Duration::from_millis(10)) => printed += 1,
    ///         }
    ///     }
    /// });
    /// let ran = ran.await?;
    /// assert!(ran.output > 0 && ran.lost.is_some());
    /// # Ok(())
    /// # }
    /// ```
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
        work: impl AsyncFnOnce(&Lease, LeaseSignal) -> T,
    ) -> Result<Ran<T>, AcquireError> {
        let lease = self.await?;
        lease.begin_work().map_err(|_| AcquireError::Closed)?;
        let output = work(&lease, lease.signal()).await;
        let lost = lease.check().err();
        if lost.is_none() || lease.lock_delay().is_zero() {
            drop(lease.release().await);
        }
        Ok(Ran { output, lost })
    }

    /// [`run_until_lost`](Acquire::run_until_lost), blocking this thread. No runtime is needed. Nothing can stop work on a
    /// thread from outside, so that this is the blocking form of [`run`](Acquire::run), too: `work` asks
    /// [`Lease::check`] right before each effect.
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # let redlock = Redlock::blocking_connect([MemoryNode::new()])?;
    /// let ran = redlock.acquire("invoice:42").blocking_run(|lease| lease.check().map(|_| 1 + 1))?;
    /// assert_eq!((ran.output?, ran.lost), (2, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`run_until_lost`](Acquire::run_until_lost), and [`AcquireError::WouldDeadlock`].
    pub fn blocking_run<T>(self, work: impl FnOnce(&Lease) -> T) -> Result<Ran<T>, AcquireError> {
        let lease = self.blocking()?;
        lease.begin_work().map_err(|_| AcquireError::Closed)?;
        let output = work(&lease);
        let lost = lease.check().err();
        if lost.is_none() || lease.lock_delay().is_zero() {
            drop(lease.blocking_release());
        }
        Ok(Ran { output, lost })
    }
}

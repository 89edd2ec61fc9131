//! Work under a lease: acquired before it, released after it.
//!
//! It decides what becomes of work whose lease is lost: dropped where it stands, or told. It must never begin work
//! without a lease, nor poll work that is dropped by a loss once the lease is over by the clock. Readers and permits run
//! theirs here too.

use std::{future::Future, pin::pin};

use futures::future::{Either, select};

use super::Acquire;
use crate::{
    error::{AcquireError, LeaseLost, RunError},
    kind::Kind,
    lease::{Lease, LeaseSignal, Release},
    runtime::block_on,
};

/// What came of work under a lease that was not cut off: [`Acquire::run_until_lost`], [`Acquire::blocking_run`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[must_use = "the lease may have been lost, and then somebody else may have worked at the same time"]
pub struct Ran<T> {
    /// What the work returned.
    pub output: T,
    /// Whether the lease was lost before the work ended, and why. What the work did after that is covered by no lease,
    /// only by its fencing token.
    pub lost: Option<LeaseLost>,
}

/// Gives a lease back behind work that has ended. Where it was lost by then, what that has sent may be on its way, and
/// others are kept out for the lock-delay.
fn end<K: Kind>(lease: Lease<K>, lost: Option<&LeaseLost>) -> Option<Release> {
    (lost.is_none() || lease.lock_delay().is_zero()).then(|| lease.release())
}

/// What work returns, unless the loss comes first, which drops it where it stands.
async fn unless_lost<K: Kind, T>(
    lease: &Lease<K>,
    work: impl Future<Output = T>,
) -> Result<T, LeaseLost> {
    // The loss is looked at first, and by the clock: work that is ready at the same moment may be too late.
    match select(pin!(lease.lost()), pin!(work)).await {
        Either::Left((lost, _)) => Err(lost),
        Either::Right((result, _)) => Ok(result),
    }
}

/// Behind work that has come to its end.
async fn give_back<K: Kind>(lease: Lease<K>) -> Option<LeaseLost> {
    let lost = lease.check().err();
    if let Some(release) = end(lease, lost.as_ref()) {
        // What was not confirmed goes on in the background, and the work is done all the same.
        drop(release.await);
    }
    lost
}

impl<K: Kind> Acquire<K> {
    /// Runs `work` under a lease and releases it afterwards. When the lease is lost, `work` is dropped where it
    /// stands: for work with a cleanup there is [`run_until_lost`](Acquire::run_until_lost). It is not polled once the lease
    /// is over, also not in a process that stood still.
    ///
    /// The result of `work` is returned whether or not the release was confirmed: what cannot be released
    /// now is released in the background, or expires.
    ///
    /// `work` is an `async |lease|`. `|lease| async move {…}` is no such closure, and the compiler then says in several errors
    /// that `AsyncFnOnce` is missing: write `async move |lease|`. Work that borrows and is to be spawned is a future for
    /// [`Lease::run`]: of this one the compiler says that `Send` is not general enough.
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
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Lease<K>) -> T) -> Result<T, RunError> {
        let lease = self.await?;
        lease.begin_work()?;
        let result = unless_lost(&lease, work(&lease)).await?;
        give_back(lease).await;
        Ok(result)
    }

    /// Runs `work` under a lease, to its end whatever becomes of the lease, and releases it afterwards. It is for work
    /// with a cleanup: the signal tells of the loss, and what `work` returns comes back with whether there was one.
    ///
    /// `work` is an `async |lease, signal|`, as of [`run`](Acquire::run).
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
        work: impl AsyncFnOnce(&Lease<K>, LeaseSignal) -> T,
    ) -> Result<Ran<T>, AcquireError> {
        let lease = self.await?;
        lease.begin_work().map_err(|_| AcquireError::Closed)?;
        let output = work(&lease, lease.signal()).await;
        let lost = give_back(lease).await;
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
    pub fn blocking_run<T>(
        self,
        work: impl FnOnce(&Lease<K>) -> T,
    ) -> Result<Ran<T>, AcquireError> {
        let lease = self.blocking()?;
        lease.begin_work().map_err(|_| AcquireError::Closed)?;
        let output = work(&lease);
        let lost = block_on(give_back(lease));
        Ok(Ran { output, lost })
    }
}

impl<K: Kind> Lease<K> {
    /// Runs `work` under this lease and releases it afterwards, as [`Acquire::run`] does for a lease of its own: `work` is
    /// dropped where it stands when the lease is lost, and is not polled once it is over.
    ///
    /// `work` is a future, and may borrow also in a task that is spawned. What it needs of the lease it has by a
    /// [`signal`](Lease::signal).
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let task = tokio::spawn(async move {
    ///     let mut pages = vec!["a".to_owned(), "b".to_owned()];
    ///     let lease = redlock.acquire("invoice:42").await.ok()?;
    ///     let signal = lease.signal();
    ///     let work = async {
    ///         for page in &mut pages {
    ///             tokio::task::yield_now().await;
    ///             signal.check()?; // right before each effect
    ///             page.push('!');
    ///         }
    ///         Ok(signal.check()?)
    ///     };
    ///     lease.run(work).await.and_then(|done| done).ok()?;
    ///     Some(pages)
    /// });
    /// assert_eq!(task.await?, Some(vec!["a!".to_owned(), "b!".to_owned()]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], and then `work` did not come to its end; where the lease was lost before, it was not begun.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and releases in the background.
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        self.begin_work()?;
        let result = unless_lost(&self, work).await?;
        give_back(self).await;
        Ok(result)
    }
}

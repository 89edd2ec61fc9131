//! Work under a lease: acquired before it, released after it.
//!
//! It decides whether work whose lease is lost is dropped or told. It must never begin work without a lease, nor poll
//! work that a loss drops once the lease is over by the clock. Work of readers and permits runs here too.

use std::{future::Future, pin::pin};

use futures::future::{Either, select};

use super::Acquire;
use crate::{
    error::{LeaseLost, RunError},
    kind::Kind,
    lease::{Lease, LeaseSignal, Release, Work},
    runtime::block_on,
};

/// The result of work that ran to its end under a lease: [`Acquire::run_until_lost`], [`Acquire::blocking_run`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[must_use = "the lease may have been lost, and then somebody else may have worked at the same time"]
pub struct Ran<T> {
    /// What the work returned.
    pub output: T,
    /// Why the lease was lost before the work ended; `None` if it was not. No lease covers what the work did after
    /// that, only its fencing token.
    pub lost: Option<LeaseLost>,
}

/// Releases a lease after its work has ended. A lost lease with a lock-delay is not released: effects of the work may
/// still be under way, and its keys keep others out for the delay.
fn end<K: Kind>(lease: Lease<K>, lost: Option<&LeaseLost>) -> Option<Release> {
    (lost.is_none() || lease.lock_delay().is_zero()).then(|| lease.release())
}

/// Runs `work` to its end, unless the loss comes first, which drops `work`.
async fn unless_lost<K: Kind, T>(
    lease: &Lease<K>,
    work: impl Future<Output = T>,
) -> Result<T, LeaseLost> {
    // The loss is checked first, and by the clock: work that is ready at the same moment may be too late.
    match select(pin!(lease.lost()), pin!(work)).await {
        Either::Left((lost, _)) => Err(lost),
        Either::Right((result, _)) => Ok(result),
    }
}

/// Begins work, only under a lease that holds by the clock: a process that stood still since the grant may have outlived
/// it.
fn begin<K: Kind>(lease: &Lease<K>) -> Result<Work<'_, K>, LeaseLost> {
    lease.check()?;
    lease.work()
}

/// Gives the lease back after the work has ended, and says whether it was lost before.
async fn give_back<K: Kind>(lease: Lease<K>) -> Option<LeaseLost> {
    let lost = lease.check().err();
    if let Some(release) = end(lease, lost.as_ref()) {
        // An unconfirmed release goes on in the background; the work is done all the same.
        drop(release.await);
    }
    lost
}

impl<K: Kind> Acquire<K> {
    /// Runs `work` under a lease, and releases the lease afterwards. When the lease is lost, `work` is dropped at its
    /// current `await`: use [`run_until_lost`](Acquire::run_until_lost) for work with a cleanup. `work` is not polled
    /// once the lease is over, even in a process that stood still.
    ///
    /// The result of `work` is returned whether or not the release was confirmed: an unconfirmed release goes on in the
    /// background, or the key expires.
    ///
    /// `work` is an `async |lease|` closure. For `|lease| async move {…}` the compiler says in several errors that
    /// `AsyncFnOnce` is missing: write `async move |lease|`. For work that borrows and is to be spawned, use
    /// [`Lease::run`]: here the compiler would say that `Send` is not general enough.
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
    /// [`RunError::Acquire`]: `work` was not called. [`RunError::Lost`]: `work` did not come to its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` at its current `await`, and releases in the background.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Lease<K>) -> T) -> Result<T, RunError> {
        let lease = self.await?;
        let result = {
            let _work = begin(&lease)?;
            unless_lost(&lease, work(&lease)).await?
        };
        give_back(lease).await;
        Ok(result)
    }

    /// Runs `work` under a lease to its end, even if the lease is lost, and releases the lease afterwards. Use it for
    /// work with a cleanup: the signal announces the loss, and the result says whether there was one.
    ///
    /// `work` is an `async |lease, signal|` closure, as in [`run`](Acquire::run).
    ///
    /// After the loss another client may hold the resource. So `work` waits for the signal beside everything else it
    /// waits for, and afterwards touches only what is its own.
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
    /// [`RunError`]: `work` was not called. [`RunError::Lost`] says so of a lease that was over before it could begin.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` at its current `await`, and releases in the background.
    pub async fn run_until_lost<T>(
        self,
        work: impl AsyncFnOnce(&Lease<K>, LeaseSignal) -> T,
    ) -> Result<Ran<T>, RunError> {
        let lease = self.await?;
        let output = {
            let _work = begin(&lease)?;
            work(&lease, lease.signal()).await
        };
        let lost = give_back(lease).await;
        Ok(Ran { output, lost })
    }

    /// [`run_until_lost`](Acquire::run_until_lost), blocking this thread. No runtime is needed. Work on a thread cannot
    /// be stopped from outside, so this is the blocking form of [`run`](Acquire::run), too: `work` must call
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
    /// As for [`run_until_lost`](Acquire::run_until_lost), and [`AcquireError::WouldDeadlock`](crate::AcquireError::WouldDeadlock).
    pub fn blocking_run<T>(self, work: impl FnOnce(&Lease<K>) -> T) -> Result<Ran<T>, RunError> {
        let lease = self.blocking()?;
        let output = {
            let _work = begin(&lease)?;
            work(&lease)
        };
        let lost = block_on(give_back(lease));
        Ok(Ran { output, lost })
    }
}

impl<K: Kind> Lease<K> {
    /// Runs `work` under this lease and releases it afterwards, as [`Acquire::run`] does: a loss drops `work` at its
    /// current `await`, and `work` is not polled once the lease is over.
    ///
    /// `work` is a future, and may borrow even in a spawned task. It reaches the lease through a
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
    /// [`LeaseLost`]: `work` did not come to its end, or was not begun if the lease was lost before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` at its current `await`, and releases in the background.
    pub fn run<T>(
        self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, LeaseLost>> {
        // `work` is dropped before the lease, wherever the future is dropped: a tuple drops its fields in order, and
        // variables go in the reverse order.
        let both = (work, self);
        async move {
            let (lease, work);
            (work, lease) = both;
            let result = {
                let _work = begin(&lease)?;
                unless_lost(&lease, work).await?
            };
            give_back(lease).await;
            Ok(result)
        }
    }
}

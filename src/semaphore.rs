//! A semaphore: so many permits, each of them a lease on a resource of its own, and who asks for one has the nodes pick it.
//!
//! It decides nothing: what a permit is, `protocol::Slots` says, which one is won, `protocol::Round`, and how long it holds, the
//! lease.

use std::{
    fmt,
    future::{Future, IntoFuture},
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    acquire::{
        Acquire, AcquireFuture, Cover, Ran, blocking, blocking_run, run, run_until_lost,
        settings_of_acquire,
    },
    engine::Engine,
    error::{AcquireError, ReleaseError, RunError},
    lease::{Lease, LeaseSignal, Release},
    protocol::{Slots, WaitPolicy},
};

/// So many permits, of which each is held by one at a time, made by [`Redlock::semaphore`](crate::Redlock::semaphore). A clone
/// is the same semaphore.
///
/// A permit is granted in one round trip where one is free. Never more are held than there are, also while nodes restart
/// empty, for as long as the assumptions hold that `docs/safety.md` numbers for leases: each permit is one.
#[derive(Clone)]
pub struct Semaphore {
    engine: Arc<Engine>,
    slots: Slots,
}

impl Semaphore {
    pub(crate) const fn new(engine: Arc<Engine>, slots: Slots) -> Self {
        Self { engine, slots }
    }

    /// A request for a permit, whichever is free. It waits while all are held, up to the request's deadline; whoever came
    /// first among the processes that wait gets the next one, about.
    #[doc(alias = "acquire_owned")]
    pub fn acquire(&self) -> PermitAcquire {
        self.request(WaitPolicy::For(self.engine.config.wait))
    }

    /// A request for a permit that is one round: it does not wait while all are held, and may find that others were faster
    /// where few are left.
    pub fn try_acquire(&self) -> PermitAcquire {
        self.request(WaitPolicy::OneRound)
    }

    /// How many permits there are.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.slots.len()
    }

    fn request(&self, wait_policy: WaitPolicy) -> PermitAcquire {
        let request = Acquire::any(Arc::clone(&self.engine), self.slots.clone(), wait_policy);
        PermitAcquire { request }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// A request for a permit, made by [`Semaphore::acquire`]. Await it, or call [`blocking`](PermitAcquire::blocking),
/// [`run`](PermitAcquire::run) or [`run_until_lost`](PermitAcquire::run_until_lost). Its settings are those of [`Acquire`].
///
/// # Errors
///
/// [`AcquireError`]. [`Contended`](AcquireError::Contended) says that all permits were held, or that others were faster; the
/// holder that it names is that of the permit that ends soonest.
#[derive(Clone)]
#[must_use = "a request does nothing until it is awaited, run or blocked on"]
pub struct PermitAcquire {
    request: Acquire,
}

impl PermitAcquire {
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
        lock_delay(delay: Duration)
    }

    /// Acquires on this thread, blocking it, as [`Acquire::blocking`] does.
    ///
    /// # Errors
    ///
    /// As when awaited, and [`AcquireError::WouldDeadlock`].
    pub fn blocking(self) -> Result<Permit, AcquireError> {
        blocking(self.request.runs_here(), self)
    }

    /// Runs `work` under a permit and releases it afterwards, as [`Acquire::run`] does. When the permit is lost, `work` is
    /// dropped where it stands.
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let slot = redlock.semaphore("api", 10)?.acquire().run(async |permit| permit.slot());
    /// assert!(slot.await? < 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`], and then `work` was not called; [`RunError::Lost`], and then it did not come to its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and releases in the background.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Permit) -> T) -> Result<T, RunError> {
        run(self.into_future(), work).await
    }

    /// Runs `work` under a permit, to its end whatever becomes of the permit, and releases it afterwards, as
    /// [`Acquire::run_until_lost`] does: the signal tells of the loss.
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
        work: impl AsyncFnOnce(&Permit, LeaseSignal) -> T,
    ) -> Result<Ran<T>, AcquireError> {
        run_until_lost(self.into_future(), work).await
    }

    /// [`run_until_lost`](PermitAcquire::run_until_lost), blocking this thread, as [`Acquire::blocking_run`] does. No runtime
    /// is needed.
    ///
    /// ```
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # let redlock = Redlock::blocking_connect([MemoryNode::new()])?;
    /// let ran = redlock.semaphore("api", 10)?.acquire().blocking_run(|permit| permit.slot())?;
    /// assert!(ran.output < 10 && ran.lost.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`run_until_lost`](PermitAcquire::run_until_lost), and [`AcquireError::WouldDeadlock`].
    pub fn blocking_run<T>(self, work: impl FnOnce(&Permit) -> T) -> Result<Ran<T>, AcquireError> {
        blocking_run(self.blocking()?, work)
    }
}

impl IntoFuture for PermitAcquire {
    type Output = Result<Permit, AcquireError>;
    type IntoFuture = PermitFuture;

    fn into_future(self) -> PermitFuture {
        PermitFuture { future: self.request.into_future() }
    }
}

impl fmt::Debug for PermitAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

/// An acquire of a permit under way.
///
/// # Cancel safety
///
/// As for [`AcquireFuture`]: it may be dropped at any point, and whatever was set is released in the background.
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct PermitFuture {
    future: AcquireFuture,
}

impl Future for PermitFuture {
    type Output = Result<Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.future).poll(cx).map(|answer| answer.map(|lease| Permit { lease }))
    }
}

/// A permit of a [`Semaphore`]: a [`Lease`] on one of its slots, with all that a lease has. Dropping it releases it.
///
/// Its [`token`](Lease::token) rises with every holder of the same [`slot`](Permit::slot): a store that keeps one fence for
/// each slot is written to by so many holders at most as there are permits. Tokens of different slots say nothing of each
/// other.
#[must_use = "dropping a permit releases it at once"]
#[derive(Debug)]
pub struct Permit {
    lease: Lease,
}

impl Permit {
    /// Which of the permits it is, from zero.
    #[must_use]
    pub fn slot(&self) -> u8 {
        self.lease.slot().unwrap_or_default()
    }

    /// The lease alone, as for what takes one.
    pub fn into_lease(self) -> Lease {
        self.lease
    }

    /// As [`Lease::release`].
    ///
    /// # Errors
    ///
    /// As for [`Lease::release`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Lease::release`]: it starts when this is called.
    pub fn release(self) -> Release {
        self.lease.release()
    }

    /// As [`Lease::blocking_release`].
    ///
    /// # Errors
    ///
    /// As for [`Lease::blocking_release`].
    pub fn blocking_release(self) -> Result<(), ReleaseError> {
        self.lease.blocking_release()
    }
}

impl Cover for Permit {
    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn give_back(self) -> Release {
        self.release()
    }
}

impl Deref for Permit {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

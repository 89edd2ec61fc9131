//! The request: which resource, for how long, how long to wait; awaited, or blocked on.
//!
//! It stores what was asked for. Nothing is reported or sent before it is first polled.

mod future;
mod nested;
mod run;
mod standing;
mod target;

use std::{fmt, future::IntoFuture, marker::PhantomData, sync::Arc, time::Duration};

pub(crate) use self::nested::Handle;
pub use self::{future::AcquireFuture, run::Ran, standing::PlaceInLine};
use crate::{
    engine::Engine,
    error::AcquireError,
    kind::{Excludes, Exclusive, Kind, Lingers},
    lease::Lease,
    protocol::{Owner, RenewalPolicy, Target, WaitPolicy},
    runtime::block_on,
    telemetry::Class,
};

/// A request for a lease of any [kind](Kind), such as [`Redlock::acquire`](crate::Redlock::acquire) makes. Await it, or call
/// [`blocking`](Acquire::blocking), [`run`](Acquire::run) or [`run_until_lost`](Acquire::run_until_lost).
///
/// ```
/// use std::time::Duration;
/// use quorlock::{Redlock, node::MemoryNode};
///
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let lease = redlock
///     .acquire("invoice:42")
///     .ttl(Duration::from_secs(8))
///     .wait(Duration::from_secs(5))
///     .min_validity(Duration::from_secs(5))
///     .await?;
/// assert!(lease.validity() >= Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "a request does nothing until it is awaited, run or blocked on"]
pub struct Acquire<K: Kind = Exclusive> {
    engine: Arc<Engine>,
    target: Result<Target, AcquireError>,
    /// The owner of a detached lease, where that is adopted.
    from: Option<Owner>,
    ttl: Duration,
    min_validity: Duration,
    wait_policy: WaitPolicy,
    through_outages: bool,
    renewal: RenewalPolicy,
    hold_at_least: Option<Duration>,
    linger: Duration,
    lock_delay: Duration,
    alone: bool,
    /// The re-entrant handle that made the request, if one did.
    handle: Option<Arc<Handle>>,
    class: Class,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Acquire<K> {
    fn of(
        engine: Arc<Engine>,
        target: Result<Target, AcquireError>,
        wait_policy: WaitPolicy,
    ) -> Self {
        let config = &engine.config;
        Self {
            target,
            from: None,
            ttl: config.ttl,
            min_validity: config.min_validity,
            wait_policy,
            through_outages: config.through_outages,
            renewal: config.renewal,
            hold_at_least: None,
            linger: config.linger,
            lock_delay: config.lock_delay,
            alone: false,
            handle: None,
            class: Class::default(),
            kind: PhantomData,
            engine,
        }
    }

    /// Its lease keeps nobody out behind its release.
    pub(crate) const fn given_back_at_once(mut self) -> Self {
        (self.hold_at_least, self.linger) = (None, Duration::ZERO);
        self
    }

    pub(crate) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The lifetime of the lease if it is neither renewed nor released. From 10 ms to `max_ttl` (in classic mode to a
    /// day); the default is the builder's, 10 s.
    ///
    /// Too short, and a pause, or work without renewal, outlives it; too long, and others wait that long after a crash.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to wait while another client holds the resource. The default is the builder's, 15 s. Zero means one
    /// round, as in [`try_acquire`](crate::Redlock::try_acquire).
    ///
    /// It is a deadline for new rounds: the last one may end up to one node timeout later. A round that was lost only
    /// because the state of nodes had just changed, as when another node was admitted, is repeated, for up to three
    /// node timeouts more. An outage (too few nodes for a quorum) is reported after a quarter of the wait, but at the
    /// earliest after one node timeout: waiting does not end it.
    /// [`wait_through_outages`](Acquire::wait_through_outages) waits all the same.
    ///
    /// Waiters of one process for the same resource are served first come, first served: the first asks the nodes, and
    /// a released lease usually passes straight to the next. [`AcquireFuture::standing`] tells a waiter's place. A
    /// waiter behind a lease of its own process sends nothing.
    ///
    /// Between processes, the nodes keep a line in the order of arrival and wake the next client; each waiting client
    /// also asks every second or so. Where nodes keep no line, as in classic mode, a client asks again after random
    /// pauses, in no order (`docs/deploying.md`, "Who waits").
    ///
    /// Where a process has more acquires under way than the nodes answer, the rest queue in the order of arrival, and
    /// that time counts too. A request whose turn has not come by the deadline gets [`AcquireError::Crowded`]; a single
    /// round waits for its turn for one node timeout.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait_policy =
            if wait.is_zero() { WaitPolicy::OneRound } else { WaitPolicy::For(wait) };
        self
    }

    /// Waits without a deadline while another client holds the resource. Prefer a deadline: a key without a ttl never
    /// expires. An outage is reported after a quarter of the builder's `wait`.
    pub const fn wait_without_deadline(mut self) -> Self {
        self.wait_policy = WaitPolicy::Unlimited;
        self
    }

    /// Keeps trying while too few nodes answer, until the deadline, or for ever without one. By default an outage is
    /// reported after a quarter of the wait.
    ///
    /// Use it in services that start together with their Redis, or that would rather wait than handle an error. A long
    /// wait hides an outage from its caller for as long; the log reports it at once. A single round, as in
    /// [`try_acquire`](crate::Redlock::try_acquire), does not wait for anything.
    pub const fn wait_through_outages(mut self) -> Self {
        self.through_outages = true;
        self
    }

    /// The least validity of a granted lease; a round that leaves less is lost. The default is the builder's: anything
    /// above zero.
    ///
    /// It must be less than the ttl minus its drift, or no round can be won.
    pub const fn min_validity(mut self, min_validity: Duration) -> Self {
        self.min_validity = min_validity;
        self
    }

    /// Renews the lease beside the work, even where the builder says
    /// [`without_renewal`](crate::Builder::without_renewal).
    pub const fn with_renewal(mut self) -> Self {
        self.renewal.renew = true;
        self
    }

    /// Does not renew the lease: it ends after its ttl unless its holder extends it.
    pub const fn without_renewal(mut self) -> Self {
        self.renewal.renew = false;
        self
    }

    /// The longest time that the lease is held in all. After it, the lease is neither renewed nor extended, and is lost
    /// at most a ttl later. The default is the builder's: no limit.
    ///
    /// Too short, and work is cut off; without one, work that never ends keeps the resource for ever.
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.renewal.max_hold = Some(max_hold);
        self
    }

    /// Renews the lease only while [`Lease::heartbeat`] is called at least this often, so that the lease of a hung
    /// worker expires. By default no heartbeat is needed.
    ///
    /// It must be longer than the slowest step of the work, or healthy work loses its lease.
    pub const fn heartbeat_within(mut self, interval: Duration) -> Self {
        self.renewal.heartbeat_within = Some(interval);
        self
    }

    /// What metrics call this request and its lease: the label `class` of their waits, hold times, hand-overs and losses, as in
    /// `invoice`. By default there is none.
    ///
    /// Name kinds of work, and never what is locked: each class is a series more of each metric. Beyond 100 in a process
    /// all others are `other`. It has no effect without the feature `metrics`.
    #[doc(alias = "label")]
    pub fn class(mut self, name: &str) -> Self {
        self.class = Class::of(name);
        self
    }

    /// Acquires, blocking this thread. No runtime is needed, and it works inside any executor. Do not call it on a
    /// thread that an executor needs, nor with a runtime that runs on this very thread, as
    /// [`TokioRuntime::current`](crate::runtime::TokioRuntime::current) does: where that is noticed it is an error, and
    /// elsewhere it hangs.
    ///
    /// # Errors
    ///
    /// As when awaited: see [`AcquireError`]; and [`AcquireError::WouldDeadlock`].
    pub fn blocking(self) -> Result<Lease<K>, AcquireError> {
        if self.engine.runs_here() {
            return Err(AcquireError::WouldDeadlock);
        }
        block_on(self.into_future())
    }

    /// Keeps others out for at least this long from the grant. A lease that is released, dropped or run to its end
    /// earlier is over for its holder, and the resource is free when the time is up. By default it is free at once.
    ///
    /// Use it for work that must not happen twice in a row, such as a job that each host starts by its own clock: a
    /// host that is three seconds late would repeat a job that ends in two. ShedLock calls it
    /// [`lockAtLeastFor`](https://github.com/lukas-krecan/ShedLock#annotations).
    ///
    /// It holds whatever becomes of this process, unless it [detaches](crate::Lease::detach) the lease. A shorter ttl is
    /// raised to a little more than `least`, so that the keys outlive a process that ends right after the grant. (The
    /// keys of a killed process stand for the ttl and any lock-delay.) A release tells the nodes to keep the key for the
    /// time left plus the allowance for drift, and stops renewals. So others wait for at least `least` by the clock of
    /// this process, as long as no node's clock is faster than it by more than the drift. They wait for at most `least` and that allowance where the release arrives. The
    /// time is longer by any sleep of this machine. It is longer by up to the ttl and any lock-delay where a node was
    /// not reached, or an earlier extension arrives after the release.
    ///
    /// With the lock-delay it must stay below [`max_ttl`](crate::Builder::max_ttl) by the drift and a node timeout,
    /// since `max_ttl` decides how long a node that forgets is kept from voting. With more, the error is
    /// [`AcquireError::HoldTooLong`]. An acquire that fails, or whose future is dropped, keeps nobody out.
    #[doc(alias = "lock_at_least_for")]
    pub const fn hold_at_least(mut self, least: Duration) -> Self
    where
        K: Excludes,
    {
        self.hold_at_least = Some(least);
        self
    }

    /// Keeps others out for this long beyond what the holder believes: the nodes keep the key for the ttl plus `delay`,
    /// and the lease still ends after its ttl. By default there is no delay; the builder's
    /// [`lock_delay`](crate::Builder::lock_delay) sets it for all requests.
    ///
    /// Use it for effects that are still under way when the lease is lost, such as a write that a stopped process had
    /// sent, if their target compares no fencing tokens. A target that compares them refuses late effects, and needs no
    /// delay. Consul calls it [`lock-delay`](https://developer.hashicorp.com/consul/docs/dynamic-app-config/sessions).
    ///
    /// | the lease ends by | others are kept out for |
    /// | --- | --- |
    /// | a loss by time, or the end of the process | `delay`, without the drift of ttl and `delay`, at least |
    /// | a panic of the thread that drops it | `delay` |
    /// | [`release`](Lease::release), also after a loss | nothing: it states that nothing is under way |
    /// | being dropped while it holds, or an acquire that fails | nothing |
    /// | [`shutdown`](crate::Redlock::shutdown) while it holds, where work ends before its deadline | nothing |
    /// | keys that are gone from a quorum ([`Gone`](crate::LossReason::Gone)) | nothing |
    /// | the last of several holders ([`Nested`](crate::Nested)), where a loss or a panic cut the work of any of them short | `delay`, at least |
    ///
    /// With a delay, a lost lease is released neither when it is dropped nor at the end of [`run`](Acquire::run) and
    /// its like. The delay binds every client of these keys, including other libraries, also in classic mode. After a
    /// crash others wait for `delay` longer; the time left that a denial reports covers both.
    ///
    /// The ttl plus `delay` must not exceed [`max_ttl`](crate::Builder::max_ttl), or the error is
    /// [`AcquireError::LockDelayTooLong`]. Inside the process, a lease is handed on only to a request with the same
    /// delay.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let (ttl, delay) = (Duration::from_millis(50), Duration::from_millis(200));
    /// let request = || redlock.acquire("disk").ttl(ttl).lock_delay(delay).without_renewal();
    /// let lease = request().await?;
    /// lease.lost().await;
    /// drop(lease); // its last write may be on its way
    /// assert!(redlock.try_acquire("disk").await.unwrap_err().is_contended());
    /// let next = request().await?;
    /// next.release().await?;
    /// redlock.try_acquire("disk").await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn lock_delay(mut self, delay: Duration) -> Self
    where
        K: Excludes,
    {
        self.lock_delay = delay;
        self
    }

    /// Keeps the resource for this process for up to `linger` after the release, unless another client waits for it.
    /// The next acquire here then takes it without asking the nodes, and still gets a new token. By default it is given
    /// back at once; the builder's [`linger`](crate::Builder::linger) is for all requests.
    ///
    /// Use it where one process uses the same resource over and over. Nobody holds a lease meanwhile. Other waiting
    /// clients of this crate get the resource when they ask, where the nodes announce them (`docs/deploying.md`, "Who
    /// waits", says what that needs). Any other client waits for at most `linger`; where this process is killed, that
    /// client waits for the ttl and any lock-delay, as behind a holder. A client that does not wait, as in
    /// [`try_acquire`](crate::Redlock::try_acquire), finds the resource held.
    ///
    /// Nodes announce waiters for the ttl from the round that won the resource, or for 4 s if that is longer. The
    /// resource is kept no longer than that, and the next acquire wins it anew. It is given back before
    /// [`close`](crate::Redlock::close) and [`shutdown`](crate::Redlock::shutdown) return.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let mut last = None;
    /// for _ in 0..10 {
    ///     let lease = redlock.acquire("spool").linger(Duration::from_secs(1)).await?;
    ///     assert!(Some(lease.token()?) > last);
    ///     last = Some(lease.token()?);
    ///     lease.release().await?; // the nodes hear of the last one alone
    /// }
    /// redlock.close().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub const fn linger(mut self, linger: Duration) -> Self
    where
        K: Lingers,
    {
        self.linger = linger;
        self
    }
}

impl Acquire<Exclusive> {
    /// It has a round of its own, is not handed on, and does not linger.
    pub(crate) const fn alone(mut self) -> Self {
        (self.alone, self.linger) = (true, Duration::ZERO);
        self
    }

    /// Tells the holder of the loss this long before the validity ends, but at most half of what a grant promises.
    pub(crate) const fn stop_within(mut self, time: Duration) -> Self {
        self.renewal.stop_within = time;
        self
    }

    /// The same request of a handle that may hold the resource already.
    pub(crate) fn of_handle<K: Kind>(self, handle: Arc<Handle>) -> Acquire<K> {
        let Self { engine, target, from, ttl, min_validity, wait_policy, .. } = self;
        let Self {
            through_outages, renewal, hold_at_least, linger, lock_delay, alone, class, ..
        } = self;
        let (handle, kind) = (Some(handle), PhantomData);
        Acquire {
            engine,
            target,
            from,
            ttl,
            min_validity,
            wait_policy,
            through_outages,
            renewal,
            hold_at_least,
            linger,
            lock_delay,
            alone,
            handle,
            class,
            kind,
        }
    }
}

/// Not derived: that would require `K: Clone`.
impl<K: Kind> Clone for Acquire<K> {
    fn clone(&self) -> Self {
        let (engine, target) = (Arc::clone(&self.engine), self.target.clone());
        Self { engine, target, handle: self.handle.clone(), ..*self }
    }
}

impl<K: Kind> fmt::Debug for Acquire<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("target", &self.target)
            .field("ttl", &self.ttl)
            .field("min_validity", &self.min_validity)
            .field("wait_policy", &self.wait_policy)
            .field("hold_at_least", &self.hold_at_least)
            .finish_non_exhaustive()
    }
}

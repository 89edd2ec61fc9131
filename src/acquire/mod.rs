//! The request: which resource, for how long, how long to wait; awaited, or blocked on.
//!
//! It keeps what was asked for. Nothing is checked or sent before it is first polled.

mod future;
mod nested;
mod run;
mod standing;
mod target;

use std::{
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::future::{Either, select};

pub(crate) use self::nested::Handle;
pub use self::{future::AcquireFuture, run::Ran, standing::PlaceInLine};
use crate::{
    engine::Engine,
    error::AcquireError,
    kind::{Excludes, Exclusive, Kind, Lingers},
    lease::Lease,
    protocol::{RenewalPolicy, Target, WaitPolicy},
    runtime::block_on,
    shield::shield,
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
    ttl: Duration,
    min_validity: Duration,
    wait_policy: WaitPolicy,
    through_outages: bool,
    renewal: RenewalPolicy,
    hold_at_least: Option<Duration>,
    linger: Duration,
    lock_delay: Duration,
    alone: bool,
    /// Of a handle that may hold the resource already.
    handle: Option<Arc<Handle>>,
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
            kind: PhantomData,
            engine,
        }
    }

    /// How long the lease lives on the nodes if it is not released. From 10 ms to `max_ttl` (in classic mode to a day);
    /// the default is the builder's, 10 s.
    ///
    /// Too short, and the work or a pause outlives it; too long, and others wait that long after a crash.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to wait while somebody else holds the resource. The default is the builder's, 15 s; zero
    /// means one round, as of [`try_acquire`](crate::Redlock::try_acquire).
    ///
    /// It is a deadline for new rounds: the last one may end up to one node timeout later. Where nodes whose state had just
    /// changed have cost that one, as when another node was admitted, it is repeated, for up to three node timeouts more.
    /// An outage, with too few nodes for a quorum, is borne for a quarter of the wait, and for one node timeout at least,
    /// and then reported: waiting does not mend it. [`wait_through_outages`](Acquire::wait_through_outages) waits all the
    /// same.
    ///
    /// Those of one process who wait for the same resource are served first come, first served: the first of them asks the
    /// nodes, and a lease that is released goes to the next in line at once. [`AcquireFuture::standing`] says where one
    /// stands. Who waits behind a lease of its own process sends nothing.
    ///
    /// Between processes the nodes keep a line and wake who is next, in the order in which they came; whoever waits asks
    /// every second or so beside that. Where they keep none, as in classic mode, it asks again after random pauses, in no
    /// order (`docs/deploying.md`, "Who waits").
    ///
    /// Where this process has more acquires under way than the nodes answer, the rest wait in line, in the order in
    /// which they came, and that counts too. Whose turn has not come by the deadline gets
    /// [`AcquireError::Crowded`]; a single round waits for its turn for one node timeout.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait_policy =
            if wait.is_zero() { WaitPolicy::OneRound } else { WaitPolicy::For(wait) };
        self
    }

    /// Waits without a deadline while somebody else holds the resource. Prefer a deadline: a holder that
    /// sets no ttl holds for ever. An outage is borne for a quarter of the builder's `wait`.
    pub const fn wait_without_deadline(mut self) -> Self {
        self.wait_policy = WaitPolicy::Unlimited;
        self
    }

    /// Goes on trying while too few nodes answer, until the deadline, and without one for ever. By default an outage is
    /// reported after a quarter of the wait.
    ///
    /// For those who start together with their Redis, or would rather wait for it than handle an error. A wait that is
    /// long hides an outage for as long from its caller; the log tells of it at once. A single round, as of
    /// [`try_acquire`](crate::Redlock::try_acquire), does not wait for anything.
    pub const fn wait_through_outages(mut self) -> Self {
        self.through_outages = true;
        self
    }

    /// The least validity that a lease must have when it is granted; with less, the round is lost. The
    /// default is the builder's: anything above zero.
    ///
    /// It must be less than the ttl without its drift, or no round can be won.
    pub const fn min_validity(mut self, min_validity: Duration) -> Self {
        self.min_validity = min_validity;
        self
    }

    /// The lease is renewed beside the work, also where the builder says
    /// [`without_renewal`](crate::Builder::without_renewal).
    pub const fn with_renewal(mut self) -> Self {
        self.renewal.renew = true;
        self
    }

    /// The lease is not renewed: it ends after its ttl unless its holder extends it.
    pub const fn without_renewal(mut self) -> Self {
        self.renewal.renew = false;
        self
    }

    /// The longest that the lease is held in all: beyond it, it is neither renewed nor extended, and it is
    /// lost a ttl later at the latest. The default is the builder's: no limit.
    ///
    /// Too short, and work is cut off; without one, work that never ends keeps the resource for ever.
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.renewal.max_hold = Some(max_hold);
        self
    }

    /// Renews the lease only while [`Lease::heartbeat`] is called at least this often, so that the lease of a
    /// worker that hangs runs out. By default no heartbeat is asked for.
    ///
    /// It must leave time for the slowest step of the work; with less, the lease is lost under healthy work.
    pub const fn heartbeat_within(mut self, interval: Duration) -> Self {
        self.renewal.heartbeat_within = Some(interval);
        self
    }

    /// Acquires on this thread, blocking it. No runtime is needed, and it works inside any executor. Do not call it on
    /// a thread that an executor needs, nor with a runtime that runs on this very thread, as
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

    /// Waits for something else first, as long as the request may wait at all; that time is taken off. The error
    /// is the time for which it has waited in vain.
    pub(crate) async fn wait_for<T>(
        &mut self,
        other: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        let since = self.engine.now();
        let wait = match self.wait_policy {
            // A single round waits for nothing else.
            WaitPolicy::OneRound => return Err(Duration::ZERO),
            WaitPolicy::For(wait) => wait,
            WaitPolicy::Unlimited => return Ok(shield(other).await),
        };
        let limit = self.engine.sleep_until(since.saturating_add(wait));
        let output = match shield(select(pin!(other), limit)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        };
        let waited = self.engine.now().saturating_since(since);
        let output = output.ok_or(waited)?;
        // Without any time left it is one round, as a wait of zero is.
        let left = wait.saturating_sub(waited);
        self.wait_policy =
            if left.is_zero() { WaitPolicy::OneRound } else { WaitPolicy::For(left) };
        Ok(output)
    }

    /// Keeps others out for this long at least from when the lease is granted: one that is released, dropped or run to its
    /// end before then is over for its holder, and the resource is free when the time is up. By default it is free at
    /// once.
    ///
    /// It is for what must not happen twice in a row, such as a job that each host starts by its own clock: one that ends
    /// in two seconds would be run again by a host that is three seconds late. ShedLock calls it
    /// [`lockAtLeastFor`](https://github.com/lukas-krecan/ShedLock#annotations).
    ///
    /// It holds whatever becomes of this process. The ttl is raised to a little more than `least` where it is shorter, so
    /// that the keys outlive a process that ends right after the grant (those of one that is killed stand for the ttl and any lock-delay);
    /// and a release tells the nodes to keep the key for what is left, with the allowance for drift, and nothing is
    /// renewed any more. So others wait for at least `least` by the clock of this process, as long as no node's clock is
    /// faster than it by more than the drift; and for at most `least` and that allowance, where the release arrives. It is
    /// longer by what this machine slept, and up to the ttl and any lock-delay where a node was not reached, or an extension
    /// of before arrives behind the release.
    ///
    /// With the lock-delay it must be less than [`max_ttl`](crate::Builder::max_ttl), and somewhat so: that of a node that
    /// forgets decides how long a node is kept from voting. With more, the error is [`AcquireError::HoldTooLong`]. An acquire that
    /// fails, or whose future is dropped, keeps nobody out.
    #[doc(alias = "lock_at_least_for")]
    pub const fn hold_at_least(mut self, least: Duration) -> Self
    where
        K: Excludes,
    {
        self.hold_at_least = Some(least);
        self
    }

    /// Keeps others out for this long beyond what the holder believes: the nodes keep the key for ttl and `delay`, and the
    /// lease ends after its ttl as ever. By default they do not; the builder's [`lock_delay`](crate::Builder::lock_delay)
    /// is for all requests.
    ///
    /// It is for effects that are still on their way when the lease is lost, such as a write that a stopped process had
    /// sent, where what they reach compares no fencing tokens. Where it does they are refused whenever they come, and no
    /// delay is needed. Consul calls it
    /// [`lock-delay`](https://developer.hashicorp.com/consul/docs/dynamic-app-config/sessions).
    ///
    /// | the lease ends by | others are kept out for |
    /// | --- | --- |
    /// | a loss by time, or the end of the process | `delay`, without the drift of ttl and `delay`, at least |
    /// | a panic of the thread that drops it | `delay` |
    /// | [`release`](Lease::release), also after a loss | nothing: it says that nothing is on its way |
    /// | being dropped while it holds, or an acquire that fails | nothing |
    /// | [`shutdown`](crate::Redlock::shutdown) while it holds, where work ends before its deadline | nothing |
    /// | keys that are gone from a quorum ([`Gone`](crate::LossReason::Gone)) | nothing |
    ///
    /// A lease that was lost is not released when it is dropped, nor at the end of [`run`](Acquire::run) and its like. It
    /// holds for every client of these keys, other libraries among them, and in classic mode. Behind a crash others wait
    /// for `delay` longer; what a denial says of the time left covers both.
    ///
    /// With the ttl it must not be longer than [`max_ttl`](crate::Builder::max_ttl), or the error is
    /// [`AcquireError::LockDelayTooLong`]. A lease is handed on inside the process only to one that asks for the same.
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

    /// Keeps the resource for this process for up to `linger` after the release, unless somebody waits for it, so that the
    /// next acquire here takes it without asking the nodes, and has a new token all the same. By default it is given back
    /// at once; the builder's [`linger`](crate::Builder::linger) is for all requests.
    ///
    /// It is for one process that uses the same resource over and over. Nobody holds a lease meanwhile. Other clients of
    /// this crate that wait get it when they ask, where the nodes tell of them (`docs/deploying.md`, "Who waits", says what
    /// that needs); any other client waits for `linger` at most, and where this process is killed for the ttl and any lock-delay,
    /// as behind a holder. One that does not wait, as by [`try_acquire`](crate::Redlock::try_acquire), finds the resource held. Nodes that tell of others do so for the ttl after it was won, and then it is kept for no longer than that; the
    /// next acquire wins it anew. It is given back before [`close`](crate::Redlock::close) and [`shutdown`](crate::Redlock::shutdown)
    /// return.
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

    /// The lease is lost to its holder so much before its validity ends.
    pub(crate) const fn stop_within(mut self, time: Duration) -> Self {
        self.renewal.stop_within = time;
        self
    }

    /// The same of a handle, which may hold it already.
    pub(crate) fn of_handle<K: Kind>(self, handle: Arc<Handle>) -> Acquire<K> {
        let Self { engine, target, ttl, min_validity, wait_policy, .. } = self;
        let Self { through_outages, renewal, hold_at_least, linger, lock_delay, alone, .. } = self;
        let (handle, kind) = (Some(handle), PhantomData);
        Acquire {
            engine,
            target,
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
            kind,
        }
    }
}

/// By hand, since a kind is nothing that could be cloned.
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

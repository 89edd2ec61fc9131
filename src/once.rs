//! Work that is done once in a period, by whichever host comes first.
//!
//! It decides when the nodes are asked whether the work is done: before a lease is asked for, and again under it.
//! `protocol::Period` decides what they say together. It must never call work due that it has asked about without a lease
//! alone: whoever had the lease before may have done it meanwhile.

use std::{
    fmt,
    future::{Future, IntoFuture},
    ops::Deref,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    acquire::Acquire,
    engine::{Completions, Engine, answered},
    error::{
        Ability, AcquireError, DoneError, NodeOutcome, NodeReport, OnceError, ReleaseError, Reports,
    },
    lease::{Lease, Release},
    protocol::{Completed, Completion, Label, NodeId, NodeSet, Owner, Period, Resource, WorkFound},
    runtime::block_on,
    shield::shield,
};

/// How many node timeouts it goes on telling the nodes that work is done.
const TOLD_FOR: u32 = 10;

impl Acquire {
    /// The same request for work that is to be done once in each period of this length, by whichever host comes first.
    ///
    /// It promises what the nodes remember: work that is [done](DueLease::done) is not due again in its period, on any
    /// host, as long as a node of each quorum remembers. Each node of a quorum may have forgotten it, by a restart without
    /// its data, or was not there when it was told; also one after the other. A node that lacks it is told by
    /// the host that has done the work, and by each that asks. The work of a host that ends before it says `done` is due
    /// again, when its lease is over. `docs/fencing.md` says how work bears that.
    ///
    /// A host counts periods by its own wall clock when it is first polled, in UTC; or by the moment of
    /// [`at`](OncePer::at). Each begins half its length before a multiple of it: a day lasts from noon to noon, an hour
    /// from half past to half past. So hosts whose timers fire at midnight, or at the full hour, agree about the period,
    /// as long as their clocks differ by less than half of it. Hosts that name another length do other work. A clock that
    /// is ahead does the work of a later period early, and the work of those before counts as done. A node keeps what is
    /// done until the period after is over.
    ///
    /// It asks all nodes once before it acquires, so that work that is done takes no lease, and once more under the
    /// lease. A node that hangs costs a node timeout each time. Let it wait: a host that waits hears that the work is
    /// done, or does it where the one before has failed. Of hosts that [`try_acquire`] at the same time none may win.
    /// [`hold_at_least`](Acquire::hold_at_least) and [`linger`](Acquire::linger) have no effect.
    ///
    /// [`try_acquire`]: crate::Redlock::try_acquire
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::{Once, Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// const DAY: Duration = Duration::from_secs(86_400);
    /// match redlock.acquire("nightly-report").once_per(DAY).await? {
    ///     Once::Due(lease) => {
    ///         // write the report; then
    ///         lease.done().await?;
    ///         lease.release().await?;
    ///     }
    ///     Once::AlreadyDone(done) => println!("{done}"),
    /// }
    /// let again = redlock.acquire("nightly-report").once_per(DAY).await?;
    /// assert!(matches!(again, Once::AlreadyDone(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Awaited, [`OnceError`]. A period that is out of range, several resources and nodes that keep nothing of what is done
    /// are refused, and nothing is sent.
    #[doc(alias = "idempotent", alias = "cron")]
    pub const fn once_per(self, every: Duration) -> OncePer {
        OncePer { request: self.given_back_at_once(), every, at: None }
    }
}

/// A request for the work of a period, made by [`Acquire::once_per`].
#[must_use = "a request does nothing until it is awaited"]
#[derive(Clone, Debug)]
pub struct OncePer {
    request: Acquire,
    every: Duration,
    at: Option<SystemTime>,
}

/// Whether the work of this period is still to be done.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "it is due, or it is not")]
pub enum Once {
    /// It is, and nobody else does it while this lease holds.
    Due(DueLease),
    /// It is not.
    AlreadyDone(AlreadyDone),
}

/// By whom the work of a period was done.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AlreadyDone {
    /// The owner of the lease under which it was done.
    pub owner: Owner,
    /// What that host calls itself: see [`Builder::label`](crate::Builder::label).
    pub label: Option<Label>,
    /// How long ago, by the clock of a node.
    pub ago: Duration,
}

/// The lease under which work of a period is done: a [`Lease`], which it derefs to.
///
/// # Drop behavior
///
/// Dropping it releases the lease, and the work stays due unless it was [done](DueLease::done).
#[must_use = "dropping it releases the lease, and the work stays due"]
#[clippy::has_significant_drop]
pub struct DueLease {
    lease: Lease,
    period: Period,
}

impl OncePer {
    /// Counts the period in which this moment lies, and not that in which it is first polled: the moment for which a timer
    /// was set, where it may fire late, or on another clock.
    ///
    /// A moment whose period has been over for as long as it lasted is [`OnceError::Late`]: the nodes may have forgotten.
    pub const fn at(mut self, moment: SystemTime) -> Self {
        self.at = Some(moment);
        self
    }

    /// Asks, blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As when awaited; and [`AcquireError::WouldDeadlock`].
    pub fn blocking(self) -> Result<Once, OnceError> {
        if self.request.engine().runs_here() {
            return Err(AcquireError::WouldDeadlock.into());
        }
        block_on(self.ask())
    }

    async fn ask(self) -> Result<Once, OnceError> {
        let Self { request, every, at } = self;
        let engine = Arc::clone(request.engine());
        let resource = request.one_resource()?.ok_or(OnceError::NotOne)?;
        // Of one moment: a wait must not turn it into the work of the next period.
        let (begun, wall_us) = (engine.now(), engine.wall_us());
        let moment_us = at.map_or(wall_us, in_us);
        let period = Period::of(moment_us, every).ok_or(OnceError::Period { every })?;
        engine.can(Ability::Completions).map_err(AcquireError::from)?;
        let late = || {
            let waited = engine.now().saturating_since(begun);
            let is_late = !period.is_remembered(wall_us, waited, engine.config.drift());
            is_late.then_some(OnceError::Late { waited, every })
        };
        late().map_or(Ok(()), Err)?;
        let before = asked(&engine, &resource, period.every(), None).await?;
        if let Some(done) = AlreadyDone::by(&engine, &resource, period, &before).await {
            return Ok(Once::AlreadyDone(done));
        }
        let lease = request.await?;
        let under = asked(&engine, &resource, period.every(), None).await?;
        let not_due = if let Some(done) = AlreadyDone::by(&engine, &resource, period, &under).await
        {
            Ok(Once::AlreadyDone(done))
        } else if period.found(engine.quorum, seen(&under)) != WorkFound::Due {
            let (answered, needed) = (answered(&under).count(), engine.quorum.needed());
            Err(OnceError::Unknown { answered, needed, nodes: reports(&engine, &under) })
        } else if let Some(late) = late() {
            // Somebody may have done it so long ago that the nodes have forgotten.
            Err(late)
        } else if lease.check().is_err() {
            Err(OnceError::Late { waited: engine.now().saturating_since(begun), every })
        } else {
            return Ok(Once::Due(DueLease { lease, period }));
        };
        // Before it answers: this process may end then.
        let _ = lease.release().await;
        not_due
    }
}

/// Microseconds of the wall clock.
fn in_us(moment: SystemTime) -> u64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl IntoFuture for OncePer {
    type Output = Result<Once, OnceError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// The future may be dropped at any point: what it had acquired is released.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}

impl AlreadyDone {
    /// Where a node says so. The nodes that do not know it are told, and answer before this does.
    async fn by(
        engine: &Arc<Engine>,
        resource: &Resource,
        period: Period,
        said: &Completions,
    ) -> Option<Self> {
        let WorkFound::Done { completed, lacking } = period.found(engine.quorum, seen(said)) else {
            return None;
        };
        let done = Self {
            owner: completed.completion.owner(),
            label: completed.completion.label().cloned(),
            ago: completed.ago(),
        };
        if !lacking.is_empty() {
            let _ = asked(engine, resource, period.every(), Some(completed)).await;
        }
        Some(done)
    }
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due(lease) => write!(f, "due to the owner {}", lease.owner()),
            Self::AlreadyDone(done) => done.fmt(f),
        }
    }
}

impl fmt::Display for AlreadyDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "already done {:.1?} ago by ", self.ago)?;
        match &self.label {
            Some(label) => write!(f, "`{label}`"),
            None => write!(f, "the owner {}", self.owner),
        }
    }
}

impl DueLease {
    /// Says that the work of the period is done, so that nobody does it again. It returns when a quorum of the nodes has
    /// taken that, and all have answered or had a node timeout; the others are told again in the background, while there is
    /// this handle. The lease goes on: release it then, or drop it.
    ///
    /// Call it when the work is done, and before the lease is given back. It is right also where the lease was lost by
    /// then: the work is done all the same.
    ///
    /// # Errors
    ///
    /// [`DoneError`]. Too few nodes have taken it within ten node timeouts: call it again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some nodes may have taken it, and one of them is enough for whoever asks it.
    pub async fn done(&self) -> Result<(), DoneError> {
        let engine = self.lease.engine();
        let label = engine.config.label.as_ref().ok().and_then(Option::as_ref).cloned();
        let completed = self.period.completed(self.lease.owner(), label, engine.wall_us());
        let node_timeout = engine.config.node_timeout;
        let limit = engine.now().saturating_add(node_timeout.saturating_mul(TOLD_FOR));
        loop {
            let resource = self.lease.resource();
            let every = self.period.every();
            let said = asked(engine, resource, every, Some(completed.clone())).await;
            let said = said.map_err(|_| DoneError::RuntimeEnded)?;
            let told = knowing(&completed.completion, &said);
            if engine.quorum.is_met_by(told) {
                if told.len() < engine.quorum.nodes() {
                    engine.tell_completed(resource.clone(), every, completed);
                }
                return Ok(());
            }
            let next = engine.now().saturating_add(node_timeout / 2);
            if next >= limit {
                let (told, needed) = (told.len(), engine.quorum.needed());
                return Err(DoneError::Unconfirmed { told, needed, nodes: reports(engine, &said) });
            }
            let pause = shield(engine.sleep_until(next));
            engine.process().awaits(pause).await.ok_or(DoneError::RuntimeEnded)?;
        }
    }

    /// [`done`](DueLease::done), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`done`](DueLease::done), and [`DoneError::WouldDeadlock`].
    pub fn blocking_done(&self) -> Result<(), DoneError> {
        if self.lease.runs_here() {
            return Err(DoneError::WouldDeadlock);
        }
        block_on(self.done())
    }

    /// Releases the lease, as [`Lease::release`] does. Work that is not [done](DueLease::done) stays due.
    pub fn release(self) -> Release {
        self.lease.release()
    }

    /// [`release`](DueLease::release), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`Lease::blocking_release`].
    pub fn blocking_release(self) -> Result<(), ReleaseError> {
        self.lease.blocking_release()
    }
}

impl Deref for DueLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for DueLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DueLease").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Asks the nodes what is done, or has them keep it.
async fn asked(
    engine: &Arc<Engine>,
    resource: &Resource,
    every: Duration,
    done: Option<Completed>,
) -> Result<Completions, AcquireError> {
    let said = shield(engine.ask_completed(resource.clone(), every, done));
    let said = engine.process().awaits(said).await;
    said.and_then(Result::ok).ok_or(AcquireError::RuntimeEnded)
}

fn seen(said: &Completions) -> impl Iterator<Item = (NodeId, Option<&Completed>)> {
    answered(said).map(|(node, completed)| (node, completed.as_ref()))
}

/// The nodes that have this, or what reaches further.
fn knowing(done: &Completion, said: &Completions) -> NodeSet {
    let knows = |completed: &Completed| !done.is_beyond(&completed.completion);
    let known = seen(said).filter(|(_, completed)| completed.is_some_and(knows));
    known.map(|(node, _)| node).collect()
}

fn reports(engine: &Engine, said: &Completions) -> Reports {
    let said = engine.addresses().zip(said).enumerate();
    let report = said.map(|(index, (address, said))| {
        let outcome = match said {
            Ok(_) => NodeOutcome::Granted,
            Err(error) => NodeOutcome::Failed(error.clone()),
        };
        NodeReport::new(NodeId::new(index), Arc::clone(address), outcome)
    });
    report.collect()
}

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
    time::Duration,
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
    /// host. It may be due again if a quorum of the nodes has forgotten, or was never told. So a node that loses its data
    /// forgets, and is told again by the next host that asks and finds the work done elsewhere. The work of a host that
    /// ends before it says `done` is due again, when its lease is over: `docs/fencing.md` says how work is
    /// done once all the same.
    ///
    /// A host counts periods by its own wall clock when it asks, in UTC. Each begins half its length before a multiple of
    /// it: a day lasts from noon to noon, an hour from half past to half past. So hosts whose timers fire at midnight, or
    /// at the full hour, agree about the period, as long as their clocks differ by less than half of it. Where a timer
    /// fires near such an edge, a host may count the next period already: the period before is then done for the others
    /// too. A clock that is ahead by a period does the next one's work early. A node keeps what is done until the period
    /// after is over; if its clock jumps further than that it forgets.
    ///
    /// It asks all nodes once before it acquires, so that work that is done takes no lease, and once more under the
    /// lease. It waits for a host that is at the work as any request does, and has [`try_acquire`] not to.
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
        OncePer { request: self, every }
    }
}

/// A request for the work of a period, made by [`Acquire::once_per`].
#[must_use = "a request does nothing until it is awaited"]
#[derive(Clone, Debug)]
pub struct OncePer {
    request: Acquire,
    every: Duration,
}

/// Whether the work of this period is still to be done.
#[derive(Debug)]
#[non_exhaustive]
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
        let Self { request, every } = self;
        let engine = Arc::clone(request.engine());
        let resource = request.one_resource()?.ok_or(OnceError::NotOne)?;
        // Of the moment in which it is asked: a wait must not turn it into the work of the next period.
        let period = Period::of(engine.wall_us(), every).ok_or(OnceError::Period { every })?;
        engine.can(Ability::Completions).map_err(AcquireError::from)?;
        let before = asked(&engine, &resource, None).await?;
        if let Some(done) = AlreadyDone::by(&engine, &resource, period, &before) {
            return Ok(Once::AlreadyDone(done));
        }
        let lease = request.await?;
        let under = asked(&engine, &resource, None).await?;
        if let Some(done) = AlreadyDone::by(&engine, &resource, period, &under) {
            drop(lease.release());
            return Ok(Once::AlreadyDone(done));
        }
        if period.found(engine.quorum, seen(&under)) != WorkFound::Due {
            let (target, needed) = (Some(lease.target().clone()), engine.quorum.needed());
            drop(lease.release());
            let (granted, nodes) = (answered(&under).count(), reports(&engine, &under));
            return Err(AcquireError::NoQuorum { target, granted, needed, nodes }.into());
        }
        Ok(Once::Due(DueLease { lease, period }))
    }
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
    /// Where a node says so. The nodes that do not know it are told.
    fn by(
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
            drop(engine.ask_completed(resource.clone(), Some(completed)));
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
    /// taken that. The lease goes on: release it then, or drop it.
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
            let said = asked(engine, resource, Some(completed.clone())).await;
            let said = said.map_err(|_| DoneError::RuntimeEnded)?;
            let told = knowing(&completed.completion, &said);
            if engine.quorum.is_met_by(told) {
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
    done: Option<Completed>,
) -> Result<Completions, AcquireError> {
    let said = shield(engine.ask_completed(resource.clone(), done));
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

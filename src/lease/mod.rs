//! What the caller holds: a resource, until it is released or lost.
//!
//! It decides nothing about time or quorum; it shows what the lifecycle says. It must never panic when
//! dropped, inside or outside a runtime.

mod blocking;
mod detach;
mod downgrade;
mod ending;
mod kinds;
mod signal;

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Weak},
    time::Duration,
};

pub use self::{
    detach::DetachError, downgrade::DowngradeError, ending::Release, signal::LeaseSignal,
};
use crate::{
    engine::{Engine, HeldTerm, LeaseTerm},
    error::{ExtendError, LeaseLost},
    kind::{Exclusive, Kind, sealed},
    protocol::{ExtendOutcome, LossReason, Owner, Resource, Target},
    shield::shield,
};

/// A held resource.
///
/// While [`validity`](Lease::validity) is above zero, no other client holds the resource (of a reader: no writer does),
/// under the assumptions numbered in `docs/safety.md`. It is owned, `'static` and [`Send`]: store it, move it to
/// another task.
///
/// By default it is renewed in the background, after a third of its validity. A lease that cannot be renewed is lost,
/// and says so before its validity ends: see [`lost`](Lease::lost) and [`check`](Lease::check).
///
/// # Drop behavior
///
/// Dropping a lease releases it in the background, at once, from any thread, inside or outside a runtime. Only
/// [`release`](Lease::release) tells whether that was confirmed. [`Redlock::close`](crate::Redlock::close) waits for
/// such releases before a process ends. [`std::process::exit`] drops nothing: the keys stay until the ttl and any
/// lock-delay are over, unless [`Redlock::shutdown`](crate::Redlock::shutdown) was called before. With
/// [`hold_at_least`](crate::Acquire::hold_at_least) others are kept out until that time is over.
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let lease = redlock.acquire("invoice:42").await?;
/// lease.check()?; // right before each effect
/// lease.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "dropping the last handle on a lease releases it at once"]
#[clippy::has_significant_drop]
pub struct Lease<K: Kind = Exclusive> {
    /// Dropped before `held`.
    share: Share,
    /// Shared by the clones of a reader's lease, or by the leases of one re-entrant handle.
    held: Arc<HeldTerm>,
    kind: PhantomData<fn() -> K>,
}

/// One holder's share of a lease. Dropping it says nothing of the holder's work.
struct Share(Weak<HeldTerm>);

impl Drop for Share {
    fn drop(&mut self) {
        // Also of a single holder: another may join at this moment.
        if let Some(held) = self.0.upgrade() {
            held.handle_dropped();
        }
    }
}

impl<K: Kind> Lease<K> {
    pub(crate) fn new(held: HeldTerm) -> Self {
        held.term.handle_taken();
        Self::of(Arc::new(held))
    }

    /// One more holder of it.
    pub(crate) fn of(held: Arc<HeldTerm>) -> Self {
        Self { share: Share(Arc::downgrade(&held)), held, kind: PhantomData }
    }

    /// What it holds, for another face of it, or for a holder that says how its work ended.
    fn into_held(self) -> Arc<HeldTerm> {
        let Self { mut share, held, .. } = self;
        share.0 = Weak::new();
        held
    }

    pub(crate) const fn held(&self) -> &Arc<HeldTerm> {
        &self.held
    }

    /// Begins work that stops at a loss and goes on until the lease is given back.
    pub(crate) fn begin_work(&self) -> Result<(), LeaseLost> {
        self.term().begin_work()
    }

    /// Begins work that stops at a loss and ends when this is dropped.
    pub(crate) fn work(&self) -> Result<Work<'_, K>, LeaseLost> {
        self.begin_work().map(|()| Work(self))
    }

    /// Whether this thread runs the engine, and so must not block on its answer.
    pub(crate) fn runs_here(&self) -> bool {
        self.held.engine.runs_here()
    }

    /// The lease term behind this lease.
    pub(crate) fn held_term(&self) -> &LeaseTerm {
        self.term()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.held.engine
    }

    pub(crate) fn target(&self) -> &Target {
        self.term().target()
    }

    fn term(&self) -> &LeaseTerm {
        &self.held.term
    }

    /// The held resource: the key on the nodes, with any configured prefix. Of several, the first in byte order.
    pub fn resource(&self) -> &Resource {
        self.term().target().resource()
    }

    /// All held resources, in byte order: several only for a lease of [`acquire_all`](crate::Redlock::acquire_all).
    pub fn resources(&self) -> &[Resource] {
        self.term().target().resources()
    }

    /// The value of the key on the nodes. Leases that follow each other in this process without a round share it; no
    /// other lease has it. It is of use in logs, and to find the holder of a key.
    pub fn owner(&self) -> Owner {
        self.term().owner()
    }

    /// The token of the lease, by its kind.
    ///
    /// - A lease that excludes others has a [`FencingToken`](crate::FencingToken): a number larger than that of every
    ///   lease on this resource that was granted before this one was asked for. The store that the work writes to
    ///   refuses a smaller token than it has seen. In classic mode there is none ([`NoToken`](crate::NoToken)). A
    ///   permit's token rises with every holder of the same [`slot`](Lease::slot); tokens of different slots say
    ///   nothing of each other.
    /// - A reader has a [`ReadToken`](crate::ReadToken): up to which write it may see. It is for the store that it
    ///   reads from, and for [`FenceGate::admit_read`](crate::FenceGate::admit_read).
    ///
    /// `docs/fencing.md` has recipes, also for writes that must happen once.
    #[doc(alias = "fencing_token")]
    pub fn token(&self) -> K::Token {
        <K::Token as sealed::Token>::of(self.term().token())
    }

    /// The lifetime that was asked for.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.term().ttl()
    }

    /// How long beyond its ttl the nodes keep the key of this lease: see
    /// [`Acquire::lock_delay`](crate::Acquire::lock_delay).
    #[must_use]
    pub fn lock_delay(&self) -> Duration {
        self.term().grant().lock_delay()
    }

    /// The guaranteed time left: ttl - elapsed - drift. It is measured from before the first send of the last round
    /// that a quorum confirmed, on a clock that counts while the machine sleeps. Zero means that another client may
    /// hold the resource.
    ///
    /// Each call reads the clock: call it just before an effect, and allow for the time that the effect takes.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.term().check().unwrap_or_default()
    }

    /// Whether there is validity left.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.term().check().is_ok_and(|left| !left.is_zero())
    }

    /// Reads the clock, and returns the validity left while the lease holds. Call it right before each effect.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], with the reason: stop the work.
    pub fn check(&self) -> Result<Duration, LeaseLost> {
        self.term().check()
    }

    /// Resolves when the lease is lost, with the reason: at the latest a little before its validity ends, whatever the
    /// nodes do or fail to do. It stays pending while the lease holds.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn lost(&self) -> LeaseLost {
        self.term().when_lost().await
    }

    /// Resolves when the lease is about to be lost: two thirds of its validity have passed without an extension. It
    /// also resolves when the lease is lost.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; nothing is lost.
    pub async fn ending(&self) -> LossReason {
        self.term().wait(LeaseTerm::is_ending).await.unwrap_or(LossReason::Forked)
    }

    fn is_ending(&self) -> Option<LossReason> {
        self.term().is_ending()
    }

    /// A handle that tells of the loss without holding the lease. It keeps neither the lease alive, nor the connections
    /// to the nodes.
    #[must_use]
    pub fn signal(&self) -> LeaseSignal {
        LeaseSignal::new(self.term().clone())
    }

    /// Reports that the work goes on, for a lease that was acquired with
    /// [`heartbeat_within`](crate::Acquire::heartbeat_within).
    pub fn heartbeat(&self) {
        self.term().heartbeat(self.held.engine.now());
    }

    /// Extends the lease by its ttl from now, and returns the validity that it then has. A renewed lease needs
    /// no such call.
    ///
    /// The quorum is counted over all nodes. An extension in doubt takes nothing away. A lost lease cannot be extended:
    /// acquire anew.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`]: the lease is over. [`ExtendError::InDoubt`]: too few nodes answered this extension, and
    /// the lease is as valid as before. [`ExtendError::MaxHold`]: the lease was held for as long as
    /// [`max_hold`](crate::Acquire::max_hold) allows, and nothing was sent. [`ExtendError::RuntimeEnded`]: no answer can
    /// come any more.
    ///
    /// # Cancel safety
    ///
    /// The extension goes on when the future is dropped, and counts if it succeeds.
    #[doc(alias = "refresh")]
    #[doc(alias = "renew")]
    pub async fn extend(&self) -> Result<Duration, ExtendError> {
        let left = self.term().check()?;
        if !self.term().may_be_extended(self.held.engine.now()) {
            return Err(ExtendError::MaxHold { target: self.leased(), validity: left });
        }
        let engine = &self.held.engine;
        let extension = shield(engine.extend_now(self.term().grant()));
        let extension = engine.process().awaits(extension).await.flatten();
        if !engine.process().is_here() {
            // The lease is the parent's.
            let (target, validity) = (self.leased(), Duration::ZERO);
            return Err(ExtendError::RuntimeEnded { target, validity });
        }
        // Read again: the time may have passed while the nodes were asked.
        let left = self.term().check()?;
        match extension {
            None => Err(ExtendError::RuntimeEnded { target: self.leased(), validity: left }),
            Some(ExtendOutcome::Extended(_)) => Ok(left),
            Some(_) => {
                let (target, nodes) = (self.leased(), self.term().doubt());
                Err(ExtendError::InDoubt { target, nodes, validity: left })
            }
        }
    }

    fn leased(&self) -> Option<Target> {
        Some(self.target().clone())
    }

    /// The loss that is reported in a process forked from the holder's.
    pub(crate) fn forked(&self) -> LeaseLost {
        self.term().forked()
    }
}

/// Work under a lease.
pub(crate) struct Work<'a, K: Kind>(&'a Lease<K>);

impl<K: Kind> Drop for Work<'_, K> {
    fn drop(&mut self) {
        let Self(lease) = self;
        // The holder of a lease that nobody shares gives it back next.
        if lease.term().end_work() && Arc::strong_count(&lease.held) > 1 {
            lease.held.let_go();
        }
    }
}

impl<K: Kind> fmt::Debug for Lease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(K::LEASE)
            .field("resource", self.resource())
            .field("owner", &self.owner())
            .field("token", &self.term().token())
            .field("holders", &Arc::strong_count(&self.held))
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}

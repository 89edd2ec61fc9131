//! A grant: what a round has won, with its lifecycle; and the tenure of whoever holds it now.
//!
//! A grant may serve several leases, one after the other: each has a [`Tenure`] of its own, and the owner, the keys, the
//! deadline, the timers and the renewals are the grant's. What becomes of it, `protocol::Client` decides; this tells those
//! who wait. It must never keep a lease alive that its holder has dropped, nor its engine. It tells nobody under a lock: a
//! waker may do anything, such as drop the lease.

mod ending;
mod handing;
mod lingering;
mod lowering;
mod tenure;

use std::{
    fmt, mem,
    sync::{Arc, MutexGuard, OnceLock, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

pub(crate) use self::tenure::{HeldTenure, Tenure};
use super::{
    Engine,
    client::{Client, Kept},
    footprint::SharedFootprint,
    resources::ResourceSlot,
};
use crate::{
    error::{LeaseLost, ReleaseError, Reports},
    protocol::{
        Cohort, Drift, ExtendOutcome, FencingToken, GrantId, LeaseAction, Leases, Lifecycle,
        LossReason, Nanos, NewGrant, NodeId, Note, Owner, Place, QueueId, Target, Timestamp,
    },
    telemetry::{self, Caller, Held},
};

/// How a release goes.
#[derive(Debug)]
pub(crate) enum ReleaseAnswer {
    /// The next lease has begun under the grant: nothing is to be confirmed.
    HandedOn,
    /// Ends with how it went.
    Asked(oneshot::Receiver<Result<(), ReleaseError>>),
}

/// A resource that is held, or was.
pub(crate) struct Grant {
    /// The lease keeps the engine alive. A signal that is kept does not, nor its connections.
    engine: Weak<Engine>,
    /// In whose line it was won, and what stands on the nodes for it.
    resource: Arc<ResourceSlot>,
    /// What stands there instead: a slot of a semaphore, or what its holder shares with readers.
    instead: OnceLock<Box<Target>>,
    owner: Owner,
    /// For how long its keys stand beyond its ttl. It is looked at without a lock, also in a process that was forked.
    lock_delay: Nanos,
    footprint: Arc<SharedFootprint>,
    id: GrantId,
    /// Made by the first who waits for a change.
    changed: OnceLock<Box<Notify>>,
}

/// What stands on the nodes for a grant.
pub(super) struct Granted {
    pub(super) target: Target,
    pub(super) owner: Owner,
    pub(super) token: Option<FencingToken>,
    pub(super) note: Option<Note>,
    pub(super) cohort: Cohort,
    pub(super) linger: Duration,
    pub(super) lock_delay: Duration,
    pub(super) alone: bool,
    pub(super) station: Option<(QueueId, Place)>,
}

impl Grant {
    pub(super) fn new(
        engine: &Arc<Engine>,
        resource: Arc<ResourceSlot>,
        Granted { target, owner, token, note, cohort, linger, lock_delay, alone, station }: Granted,
        lifecycle: Lifecycle,
        footprint: Arc<SharedFootprint>,
        caller: Caller,
        hold_at_least: Option<Duration>,
    ) -> Arc<Self> {
        let keeps_until = hold_at_least.map(|least| engine.steady().saturating_add(least));
        let asked = (linger, lock_delay, alone);
        let leases = Leases::new(lifecycle, cohort, token, asked, keeps_until);
        Arc::new_cyclic(|grant| {
            let kept = Kept {
                grant: Weak::clone(grant),
                kept: None,
                owner,
                caller,
                report: None,
                note,
                doubt: None,
                hurries: None,
            };
            let new = NewGrant { leases, footprint: footprint.id(), station, data: kept };
            let id = engine.client.lock().begin(new);
            let instead = (target != *resource.target()).then(|| Box::new(target).into());
            Self {
                engine: Arc::downgrade(engine),
                resource,
                instead: instead.unwrap_or_default(),
                owner,
                lock_delay: Nanos::new(lock_delay),
                footprint,
                id,
                changed: OnceLock::new(),
            }
        })
    }

    /// Counts it among the leases that are held. False says that the process is shutting down, and that it is to be given
    /// back.
    pub(super) fn register(&self, engine: &Engine) -> bool {
        let mut client = self.client();
        let counts = client.count(self.id);
        if counts
            && let Some(ttl) = client.leases(self.id).map(|leases| leases.lifecycle().ttl())
            && let Some(kept) = client.data_mut(self.id)
        {
            kept.hurries = engine.fleet.haste.hold(ttl);
        }
        counts
    }

    /// A node votes again that may have lost its key.
    pub(super) fn handle_node_back(&self, engine: &Arc<Engine>) {
        let (now, random) = (engine.now(), engine.random_byte());
        let wakeup = {
            let mut client = self.client();
            let is_sooner = client.change(self.id, |leases| leases.handle_node_back(random, now));
            is_sooner.filter(|is_sooner| *is_sooner).map(|_| client.schedule(self.id))
        };
        wakeup.into_iter().for_each(|wakeup| engine.wake(wakeup));
    }

    /// The tenure of whoever holds it now, or did last.
    pub(super) fn tenure(self: &Arc<Self>) -> Tenure {
        let (number, token, ttl) = self.ask((0, None, Duration::ZERO), |leases| {
            (leases.number(), leases.token(), leases.lifecycle().ttl())
        });
        Tenure::new(Arc::clone(self), number, token, ttl)
    }

    pub(super) const fn id(&self) -> GrantId {
        self.id
    }

    pub(crate) fn target(&self) -> &Target {
        self.instead.get().map_or_else(|| self.resource.target(), Box::as_ref)
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether its leases have fencing tokens.
    pub(super) fn is_fenced(&self) -> bool {
        self.ask(false, Leases::is_fenced)
    }

    /// What it leaves beside its key on the nodes.
    pub(super) fn note(&self) -> Option<Note> {
        self.client().data(self.id)?.note.clone()
    }

    /// From now on it leaves this beside its key, also where that is restored.
    pub(super) fn set_note(&self, note: Note) {
        if let Some(kept) = self.client().data_mut(self.id) {
            kept.note = Some(note);
        }
    }

    /// For how long its keys stand beyond its ttl.
    pub(crate) const fn lock_delay(&self) -> Duration {
        self.lock_delay.get()
    }

    /// For how long a node keeps its key.
    pub(super) fn key_life(&self) -> Duration {
        self.ask(Duration::ZERO, Leases::key_life)
    }

    pub(super) const fn footprint(&self) -> &Arc<SharedFootprint> {
        &self.footprint
    }

    /// For how long an extension of it asks, and how much of that clocks may be off by.
    pub(super) fn ttl_and_drift(&self) -> (Duration, Drift) {
        let of_it = |leases: &Leases| (leases.lifecycle().ttl(), leases.lifecycle().drift());
        self.ask((Duration::ZERO, Drift::default()), of_it)
    }

    /// Until when it holds, and up to when its holder must have stopped.
    pub(super) fn ends(&self) -> (Timestamp, Timestamp) {
        let of_it = |leases: &Leases| (leases.lifecycle().deadline(), leases.lifecycle().stop_by());
        self.ask((Timestamp::ORIGIN, Timestamp::ORIGIN), of_it)
    }

    /// Takes the end of an extension, and returns what has to be told. It counts whoever holds the grant by now: what is
    /// extended is the key on the nodes, which all its leases share.
    /// What the nodes have said is kept for as long as none succeeds.
    pub(super) fn extended(
        &self,
        engine: &Arc<Engine>,
        outcome: ExtendOutcome,
        nodes: Option<Reports>,
        now: Timestamp,
    ) -> Option<LeaseAction> {
        let (action, wakeup, _doubt) = {
            let mut client = self.client();
            let lasts = client.leases(self.id).is_some_and(Leases::lasts);
            let kept = client.data_mut(self.id).filter(|_| lasts);
            let doubt = kept.map(|kept| mem::replace(&mut kept.doubt, nodes.map(Box::new)));
            let (action, wakeup) = client.handle_extension(self.id, outcome, now);
            (action, wakeup, doubt)
        };
        engine.wake(wakeup);
        action
    }

    /// Tells those who wait, and the log. No lock may be held.
    pub(super) fn tell(&self, action: LeaseAction) {
        // A grant that is lost, or about to be, is not handed on, so that this is still the tenure that it happened to.
        let (token, caller) = {
            let client = self.client();
            let (Some(leases), Some(kept)) = (client.leases(self.id), client.data(self.id)) else {
                return;
            };
            if leases.is_kept() {
                // Nobody has lost anything. It is given back when its timer comes.
                return;
            }
            (leases.token(), kept.caller.clone())
        };
        let held = self.held(&caller, token);
        match action {
            LeaseAction::Extend => {}
            LeaseAction::Warn(reason) => telemetry::lease_ending(held, reason),
            LeaseAction::Lose(reason) => telemetry::lease_lost(held, reason),
        }
        // Before anybody is told, who may ask for it at once.
        if let LeaseAction::Lose(_) = action {
            self.make_room();
        }
        self.handle_changed();
    }

    /// As it is shown in a log.
    fn held<'a>(&'a self, caller: &'a Caller, token: Option<FencingToken>) -> Held<'a> {
        Held { caller, target: self.target(), owner: self.owner, token }
    }

    /// Puts it among the timers by when its lifecycle wants to be asked, if it is not there for that time already.
    pub(super) fn schedule(&self, engine: &Arc<Engine>) {
        let wakeup = self.client().schedule(self.id);
        // Without the lock: it may spawn a task on a runtime that is the user's code.
        engine.wake(wakeup);
    }

    /// Whether a restore may be sent to a node; if so, the key has to be released there from now on.
    pub(super) fn begin_restore(&self, node: NodeId) -> bool {
        self.client().begin_restore(self.id, node)
    }

    /// That it is over, as its holder is told it.
    fn lost(&self, client: Option<&Client>, reason: LossReason) -> LeaseLost {
        let is_of_nodes = matches!(reason, LossReason::RenewalFailed | LossReason::Gone);
        let kept = client.filter(|_| is_of_nodes).and_then(|client| client.data(self.id));
        let nodes = kept.and_then(|kept| kept.doubt.as_deref().cloned());
        LeaseLost::new(reason).on(self.target().clone(), nodes)
    }

    /// What tells of changes. Whoever waits has it before looking at what may change, and both that look and each change are
    /// under the lock of the client, so that whoever changes something finds it.
    fn changed(&self) -> &Notify {
        self.changed.get_or_init(Box::default)
    }

    /// Tells those who wait for a change, where anybody ever has. No lock may be held.
    fn handle_changed(&self) {
        if let Some(changed) = self.changed.get() {
            changed.notify_waiters();
        }
    }

    /// What is decided of it, or this where that is gone, which it is not while anybody has the grant.
    fn ask<R>(&self, gone: R, ask: impl FnOnce(&Leases) -> R) -> R {
        self.client().leases(self.id).map_or(gone, ask)
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.footprint.client().lock()
    }

    /// The same for what may be called in a process that was forked since.
    fn client_here(&self) -> Option<MutexGuard<'_, Client>> {
        self.footprint.client().lock_here()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // What is kept with it is dropped behind the lock.
        let kept = self.client_here().and_then(|mut client| client.forget(self.id));
        drop(kept);
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("target", self.target()).finish_non_exhaustive()
    }
}

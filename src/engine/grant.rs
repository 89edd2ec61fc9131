//! A grant: what a round has won, with its lifecycle; and the lease term of whoever holds it now.
//!
//! A grant may serve several leases, one after the other: each has a [`LeaseTerm`] of its own, and the owner, the keys, the
//! deadline, the timers and the renewals are the grant's. What becomes of it, `protocol::Client` decides; this tells those
//! who wait. It must never keep a lease alive that its holder has dropped, nor its engine. It tells nobody under a lock: a
//! waker may do anything, such as drop the lease.

mod downgrading;
mod ending;
mod handing;
mod lingering;
mod term;

use std::{
    fmt,
    sync::{Arc, MutexGuard, OnceLock, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

pub(crate) use self::term::{HeldTerm, LeaseTerm};
use super::{
    AcquireSpec, Engine,
    client::{Client, SharedClient},
    resources::ResourceSlot,
};
use crate::{
    error::{LeaseLost, ReleaseError},
    protocol::{
        FencingToken, GrantId, LeaseAction, Leases, LossReason, Nanos, Note, Owner, Target,
        Timestamp,
    },
    shield::shielded,
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
    client: SharedClient,
    /// In whose line it was won, and what stands on the nodes for it.
    resource: Arc<ResourceSlot>,
    /// What stands there instead: a slot of a semaphore, or what its holder shares with readers.
    instead: OnceLock<Box<Target>>,
    owner: Owner,
    /// For how long its keys stand beyond its ttl. It is looked at without a lock, also in a process that was forked.
    lock_delay: Nanos,
    id: GrantId,
    /// Made by the first who waits for a change.
    changed: OnceLock<Box<Notify>>,
}

impl Grant {
    /// One that the client has begun, as its first lease has it.
    pub(super) fn new(
        engine: &Arc<Engine>,
        resource: Arc<ResourceSlot>,
        id: GrantId,
        owner: Owner,
        asked: &AcquireSpec,
    ) -> Arc<Self> {
        Arc::new_cyclic(|grant| {
            let mut client = engine.client.lock();
            let instead = client.keys(id).map(|(target, _)| target);
            let instead = instead.filter(|target| *target != resource.target());
            let instead = instead.map(|target| Box::new(target.clone()).into());
            if let Some(kept) = client.data_mut(id) {
                (kept.grant, kept.caller) = (Weak::clone(grant), asked.caller.clone());
            }
            drop(client);
            Self {
                engine: Arc::downgrade(engine),
                client: engine.client.clone(),
                resource,
                instead: instead.unwrap_or_default(),
                owner,
                lock_delay: Nanos::new(asked.round.lock_delay),
                id,
                changed: OnceLock::new(),
            }
        })
    }

    /// While it is held, nodes that are away are tried the sooner.
    pub(super) fn keep_near(&self, engine: &Engine) {
        let ttl = self.ttl();
        let hurries = engine.fleet.haste.hold(ttl);
        if let Some(kept) = self.client().data_mut(self.id) {
            kept.hurries = hurries;
        }
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

    /// The lease term of whoever holds it now, or did last.
    pub(super) fn term(self: &Arc<Self>) -> LeaseTerm {
        let (number, token, ttl) = self.ask((0, None, Duration::ZERO), |leases| {
            (leases.number(), leases.token(), leases.lifecycle().ttl())
        });
        LeaseTerm::new(Arc::clone(self), number, token, ttl)
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

    /// What it leaves beside its key on the nodes.
    pub(super) fn note(&self) -> Option<Note> {
        self.client().note(self.id).cloned()
    }

    /// From now on it leaves this beside its key, also where that is restored.
    pub(super) fn set_note(&self, note: Note) {
        let before = self.client().set_note(self.id, note);
        drop(before);
    }

    /// For how long its keys stand beyond its ttl.
    pub(crate) const fn lock_delay(&self) -> Duration {
        self.lock_delay.get()
    }

    /// For how long an extension of it asks.
    pub(super) fn ttl(&self) -> Duration {
        self.ask(Duration::ZERO, |leases| leases.lifecycle().ttl())
    }

    /// Until when it holds, and up to when its holder must have stopped.
    pub(super) fn ends(&self) -> (Timestamp, Timestamp) {
        let of_it = |leases: &Leases| (leases.lifecycle().deadline(), leases.lifecycle().stop_by());
        self.ask((Timestamp::ORIGIN, Timestamp::ORIGIN), of_it)
    }

    /// Tells those who wait, and the log. No lock may be held.
    pub(super) fn tell(&self, action: LeaseAction) {
        // A grant that is lost, or about to be, is not handed on, so that this is still the lease term that it happened to.
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
            self.client().handle_grant_over(self.id);
        }
        self.handle_changed();
        // And what else is to be done behind that: what they may take is not given back.
        if let Some(engine) = self.engine.upgrade() {
            engine.carry_out();
        }
    }

    /// As it is shown in a log.
    fn held<'a>(&'a self, caller: &'a Caller, token: Option<FencingToken>) -> Held<'a> {
        Held { caller, target: self.target(), owner: self.owner, token }
    }

    /// That it is over, as its holder is told it.
    fn lost(&self, client: Option<&Client>, reason: LossReason) -> LeaseLost {
        let is_of_nodes = matches!(reason, LossReason::RenewalFailed | LossReason::Gone);
        let doubt = client.filter(|_| is_of_nodes).and_then(|client| client.doubt(self.id));
        let nodes = doubt.and_then(|said| Some(self.engine.upgrade()?.reports(said)));
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
        self.client.lock()
    }

    /// The same for what may be called in a process that was forked since.
    fn client_here(&self) -> Option<MutexGuard<'_, Client>> {
        self.client.lock_here()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let forgotten =
            self.client_here().map(|mut client| (client.forget(self.id), client.has_events()));
        // What is kept with it is dropped behind the lock.
        let follows = forgotten.is_some_and(|(_, follows)| follows);
        // Nobody has said that it is over where a panic has, and whoever waits for it goes on.
        if let Some(engine) = self.engine.upgrade().filter(|_| follows) {
            // It may be a panic that drops it, and a second one would end the process. In a process that was forked whoever
            // waits is the parent's.
            shielded(|| {
                if engine.is_served() {
                    engine.carry_out();
                }
            });
        }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("target", self.target()).finish_non_exhaustive()
    }
}

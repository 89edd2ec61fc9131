//! A grant: the keys that a round has won, with their lifecycle; and the lease term of the current holder.
//!
//! A grant may serve several leases, one after the other. Each has a [`LeaseTerm`] of its own; the owner, the keys, the
//! deadline, the timers and the renewals are the grant's. `protocol::Client` decides what becomes of it; this file
//! tells the waiters. It must never keep a lease alive that its holder has dropped, nor its engine. It tells no waiter
//! under a lock: a waker may do anything, such as drop the lease.

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

pub(crate) use self::term::{HeldTerm, LeaseTerm, WeakTerm};
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
    /// The grant has passed to the next lease, or is kept: nothing is to be confirmed.
    HandedOn,
    /// Ends with the result.
    Asked(oneshot::Receiver<Result<(), ReleaseError>>),
}

/// A resource that is held, or was.
pub(crate) struct Grant {
    /// The lease keeps the engine and its connections alive. A kept signal of it does not.
    engine: Weak<Engine>,
    client: SharedClient,
    /// The line in which it was won, and the target of its keys on the nodes.
    resource: Arc<ResourceSlot>,
    /// Another target, where the keys differ: a slot of a semaphore, or the share of a downgraded holder.
    instead: OnceLock<Box<Target>>,
    owner: Owner,
    /// How long its keys stand beyond its ttl. Read without a lock, also in a forked child.
    lock_delay: Nanos,
    id: GrantId,
    /// Made by the first waiter for a change.
    changed: OnceLock<Box<Notify>>,
}

impl Grant {
    /// Wraps a grant that the client has begun, for its first lease.
    pub(super) fn new(
        engine: &Arc<Engine>,
        resource: Arc<ResourceSlot>,
        id: GrantId,
        owner: Owner,
        asked: &AcquireSpec,
        now: Timestamp,
    ) -> Arc<Self> {
        Arc::new_cyclic(|grant| {
            let mut client = engine.client.lock();
            let instead = client.keys(id).map(|(target, _)| target);
            let instead = instead.filter(|target| *target != resource.target());
            let instead = instead.map(|target| Box::new(target.clone()).into());
            if let Some(kept) = client.data_mut(id) {
                let caller = asked.caller.clone().holding(now);
                (kept.grant, kept.caller) = (Weak::clone(grant), caller);
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

    /// While it is held, the engine reconnects sooner to lost nodes.
    pub(super) fn keep_near(&self, engine: &Engine) {
        let ttl = self.ttl();
        let hurries = engine.fleet.haste.hold(ttl);
        if let Some(kept) = self.client().data_mut(self.id) {
            kept.hurries = hurries;
        }
    }

    /// A node votes again, and may have lost its key.
    pub(super) fn handle_node_back(&self, engine: &Arc<Engine>) {
        let (now, random) = (engine.now(), engine.random_byte());
        let wakeup = {
            let mut client = self.client();
            let is_sooner = client.change(self.id, |leases| leases.handle_node_back(random, now));
            is_sooner.filter(|is_sooner| *is_sooner).map(|_| client.schedule(self.id))
        };
        wakeup.into_iter().for_each(|wakeup| engine.wake(wakeup));
    }

    /// The lease term of the current or last holder.
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

    /// The note beside its key on the nodes.
    pub(super) fn note(&self) -> Option<Note> {
        self.client().note(self.id).cloned()
    }

    /// Leaves this note beside its key from now on, also when that is restored.
    pub(super) fn set_note(&self, note: Note) {
        let before = self.client().set_note(self.id, note);
        drop(before);
    }

    /// How long its keys stand beyond its ttl.
    pub(crate) const fn lock_delay(&self) -> Duration {
        self.lock_delay.get()
    }

    /// Tells of each of its extensions that counts. `None` once it is gone.
    pub(crate) fn extensions(&self) -> Option<Arc<Notify>> {
        let mut client = self.client_here()?;
        Some(Arc::clone(client.data_mut(self.id)?.extended.get_or_insert_default()))
    }

    /// The ttl that an extension of it asks for.
    pub(super) fn ttl(&self) -> Duration {
        self.ask(Duration::ZERO, |leases| leases.lifecycle().ttl())
    }

    /// When it ends, and by when its holder must have stopped.
    pub(super) fn ends(&self) -> (Timestamp, Timestamp) {
        let of_it = |leases: &Leases| (leases.lifecycle().deadline(), leases.lifecycle().stop_by());
        self.ask((Timestamp::ORIGIN, Timestamp::ORIGIN), of_it)
    }

    /// Tells the waiters and the log. No lock may be held.
    pub(super) fn tell(&self, action: LeaseAction) {
        // A grant that is lost, or about to be, is not handed on, so this is still the lease term concerned.
        let (token, caller) = {
            let client = self.client();
            let (Some(leases), Some(kept)) = (client.leases(self.id), client.data(self.id)) else {
                return;
            };
            if leases.is_kept() {
                // No holder has lost anything. Its timer gives it back.
                return;
            }
            (leases.token(), kept.caller.clone())
        };
        let held = self.held(&caller, token);
        match action {
            LeaseAction::Extend => {}
            LeaseAction::Warn(reason) => telemetry::lease_ending(held, reason),
            LeaseAction::Lose(reason) => {
                let now = self.engine.upgrade().and_then(|engine| engine.now_to_count());
                telemetry::lease_lost(held, reason, now);
            }
        }
        // Before a waiter is told, which may ask for it at once.
        if let LeaseAction::Lose(_) = action {
            self.client().handle_grant_over(self.id);
        }
        self.handle_changed();
        // Other events come after that, so that nothing the waiters may take is given back before.
        if let Some(engine) = self.engine.upgrade() {
            engine.carry_out();
        }
    }

    /// Its entry in a log.
    fn held<'a>(&'a self, caller: &'a Caller, token: Option<FencingToken>) -> Held<'a> {
        Held { caller, target: self.target(), owner: self.owner, token }
    }

    /// The loss, as reported to its holder.
    fn lost(&self, client: Option<&Client>, reason: LossReason) -> LeaseLost {
        let is_of_nodes = matches!(reason, LossReason::RenewalFailed | LossReason::Gone);
        let doubt = client.filter(|_| is_of_nodes).and_then(|client| client.doubt(self.id));
        let nodes = doubt.and_then(|said| Some(self.engine.upgrade()?.reports(said)));
        LeaseLost::new(reason).on(self.target().clone(), nodes)
    }

    /// Signals changes. A waiter gets it before it looks at the state. Each look and each change is under the client's
    /// lock, so every change finds it.
    fn changed(&self) -> &Notify {
        self.changed.get_or_init(Box::default)
    }

    /// Tells the waiters for a change, if there ever were any. No lock may be held.
    fn handle_changed(&self) {
        if let Some(changed) = self.changed.get() {
            changed.notify_waiters();
        }
    }

    /// Reads its state in the client, or returns `gone` if there is none, which does not happen while the grant exists.
    fn ask<R>(&self, gone: R, ask: impl FnOnce(&Leases) -> R) -> R {
        self.client().leases(self.id).map_or(gone, ask)
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock()
    }

    /// Like `client`, for code that may run in a forked child.
    fn client_here(&self) -> Option<MutexGuard<'_, Client>> {
        self.client.lock_here()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let forgotten =
            self.client_here().map(|mut client| (client.forget(self.id), client.has_events()));
        // Its data is dropped outside the lock.
        let follows = forgotten.is_some_and(|(_, follows)| follows);
        // After a panic, nothing has declared it over yet: its waiters go on only now.
        if let Some(engine) = self.engine.upgrade().filter(|_| follows) {
            // A panic may be dropping this, and a second one would end the process. In a forked child the waiters are
            // the parent's.
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

//! A grant: what a round has won, its lifecycle, and who wants to know when it is lost.
//!
//! It carries what the lifecycle decides to those who wait. It is shared by the lease, its signals and the renewals, and
//! must never keep a lease alive that its holder has dropped, nor its engine. It decides under its lock and tells
//! without it: a waker may do anything, such as drop the lease. The timers have a lock of their own, which is taken
//! inside this one and never the other way round; so is that of the footprint.

use std::{
    fmt,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{
    Engine,
    footprint::{Released, SharedFootprint},
    resources::ResourceSlot,
};
use crate::{
    error::{LeaseLost, ReleaseError},
    lock::Lock,
    protocol::{
        ExtendOutcome, FencingToken, LeaseAction, Lifecycle, LossReason, NodeId, Note, Owner,
        Resource, TimerKey, Timestamp, Wakeup, validity,
    },
    shield::shield,
    telemetry::{self, Caller, Held},
};

/// A resource that is held, or was.
pub(crate) struct Grant {
    /// The lease keeps the engine alive. A signal that is kept does not, nor its connections.
    engine: Weak<Engine>,
    resource: Arc<ResourceSlot>,
    owner: Owner,
    token: Option<FencingToken>,
    note: Option<Note>,
    footprint: Arc<SharedFootprint>,
    /// In which span it was asked for.
    caller: Caller,
    state: Lock<State>,
    changed: Notify,
}

struct State {
    lifecycle: Lifecycle,
    /// The place of this grant among the timers.
    scheduled: Option<TimerKey>,
    warning: Option<LossReason>,
    /// Its holder has given it back.
    released: bool,
}

/// A grant in the hands of its one holder. Dropping it releases it in the background.
pub(crate) struct HeldGrant {
    pub(crate) grant: Arc<Grant>,
    pub(crate) engine: Arc<Engine>,
}

impl HeldGrant {
    pub(super) const fn new(grant: Arc<Grant>, engine: Arc<Engine>) -> Self {
        Self { grant, engine }
    }

    /// Starts the release, once, if there is anybody to carry it out.
    pub(crate) fn release(&self) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        self.grant.release(&self.engine)
    }
}

impl Drop for HeldGrant {
    fn drop(&mut self) {
        drop(self.release());
    }
}

/// What has to be done for a grant whose time has come.
#[derive(Debug)]
pub(super) struct TickOutcome {
    pub(super) extend: bool,
    /// What has to be told, once no lock is held.
    pub(super) tell: Option<LeaseAction>,
}

impl Grant {
    pub(super) fn new(
        engine: &Arc<Engine>,
        resource: Arc<ResourceSlot>,
        owner: Owner,
        (token, note): (Option<FencingToken>, Option<Note>),
        lifecycle: Lifecycle,
        footprint: Arc<SharedFootprint>,
        caller: Caller,
    ) -> Arc<Self> {
        let state = State { lifecycle, scheduled: None, warning: None, released: false };
        let (state, changed) = (Lock::new(state), Notify::new());
        let engine = Arc::downgrade(engine);
        Arc::new(Self { engine, resource, owner, token, note, footprint, caller, state, changed })
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.resource.name()
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) const fn token(&self) -> Option<FencingToken> {
        self.token
    }

    /// What it leaves beside its key on the nodes.
    pub(super) const fn note(&self) -> Option<&Note> {
        self.note.as_ref()
    }

    /// As it is shown in a log.
    fn held(&self) -> Held<'_> {
        let (caller, resource) = (&self.caller, self.resource());
        Held { caller, resource, owner: self.owner, token: self.token }
    }

    pub(super) const fn footprint(&self) -> &Arc<SharedFootprint> {
        &self.footprint
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.state().lifecycle.clone()
    }

    /// Reads the clock, and declares the lease lost if its time is up: the timer that should have said so may
    /// have been stopped together with this process.
    pub(crate) fn check(&self) -> Result<Duration, LeaseLost> {
        let Some(now) = self.engine.upgrade().map(|engine| engine.now()) else {
            // The lease kept the engine. So it has been dropped, and that has released it, unless it was lost before.
            return Err(self.state().over());
        };
        let (result, action) = {
            let mut state = self.state();
            let action = if state.released { None } else { state.lifecycle.handle_check(now) };
            self.end_if_lost(action);
            (state.result(now), action)
        };
        if let Some(action) = action {
            self.tell(action);
        }
        result
    }

    pub(crate) fn warning(&self) -> Option<LossReason> {
        self.state().warning
    }

    pub(crate) fn heartbeat(&self, now: Timestamp) {
        self.state().lifecycle.handle_heartbeat(now);
    }

    /// Whether its holder may still extend it.
    pub(crate) fn may_be_extended(&self, now: Timestamp) -> bool {
        self.state().lifecycle.may_be_extended(now)
    }

    /// Decides what is due at `now`, after it has been taken out of the timers under this key. `None` says that the
    /// key has become void meanwhile.
    pub(super) fn tick(&self, key: TimerKey, now: Timestamp) -> Option<TickOutcome> {
        let mut state = self.state();
        if state.scheduled != Some(key) {
            return None;
        }
        state.scheduled = None;
        let mut outcome = TickOutcome { extend: false, tell: None };
        while let Some(action) = state.lifecycle.handle_timeout(now) {
            match action {
                LeaseAction::Extend => outcome.extend = true,
                LeaseAction::Warn(reason) => {
                    state.warning = Some(reason);
                    outcome.tell = Some(action);
                }
                LeaseAction::Lose(_) => outcome.tell = Some(action),
            }
        }
        self.end_if_lost(outcome.tell);
        Some(outcome)
    }

    /// Takes the end of an extension, and returns what has to be told.
    pub(super) fn extended(&self, outcome: ExtendOutcome, now: Timestamp) -> Option<LeaseAction> {
        let mut state = self.state();
        if state.released {
            return None;
        }
        if let ExtendOutcome::Extended(_) = outcome {
            state.warning = None;
        }
        let action = state.lifecycle.handle_extension(outcome, now);
        self.end_if_lost(action);
        action
    }

    /// Nothing more may be set for a lease that is lost. To be called under the lock.
    fn end_if_lost(&self, action: Option<LeaseAction>) {
        if let Some(LeaseAction::Lose(_)) = action {
            self.footprint.lock().handle_over();
        }
    }

    /// Tells those who wait, and the log. No lock may be held.
    pub(super) fn tell(&self, action: LeaseAction) {
        match action {
            LeaseAction::Extend => {}
            LeaseAction::Warn(reason) => telemetry::lease_ending(self.held(), reason),
            LeaseAction::Lose(reason) => telemetry::lease_lost(self.held(), reason),
        }
        self.changed.notify_waiters();
    }

    /// Puts it among the timers by when its lifecycle wants to be asked, if it is not there for that time already.
    pub(super) fn schedule(self: &Arc<Self>, engine: &Arc<Engine>) {
        let wakeup = {
            let mut state = self.state();
            let next = if state.released { None } else { state.lifecycle.poll_timeout() };
            // Also where both are none, as after a release.
            if state.scheduled.map(TimerKey::at) == next {
                return;
            }
            match (state.scheduled.take(), next) {
                (old, Some(at)) => {
                    let slack = state.lifecycle.slack();
                    let (key, wakeup) = engine.schedule(self, old, at, slack);
                    state.scheduled = Some(key);
                    wakeup
                }
                (old, None) => {
                    if let Some(old) = old {
                        engine.cancel(old);
                    }
                    Wakeup::Silent
                }
            }
        };
        // Without the lock: it may spawn a task on a runtime that is the user's code.
        engine.wake(wakeup);
    }

    /// Whether a restore may be sent to a node; if so, the key has to be released there from now on.
    pub(super) fn begin_restore(&self, node: NodeId) -> bool {
        let state = self.state();
        // Asked under the lock of the state, so that no release begins between the question and the note.
        let lasts = !state.released && state.lifecycle.lost().is_none();
        lasts && self.footprint.lock().handle_restore_sent(node)
    }

    /// Starts the release, once, if there is anybody to carry it out.
    fn release(&self, engine: &Arc<Engine>) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        // Asked before any lock is taken: in a forked process a thread that is not there may have it.
        if !engine.is_served() {
            return None;
        }
        let (ttl, key) = {
            let mut state = self.state();
            if std::mem::replace(&mut state.released, true) {
                return None;
            }
            (state.lifecycle.ttl(), state.scheduled.take())
        };
        if let Some(key) = key {
            engine.cancel(key);
        }
        let answer = engine.release(
            Released {
                resource: self.resource().clone(),
                owner: self.owner,
                ttl,
                footprint: Arc::clone(&self.footprint),
            },
            Arc::clone(&self.resource),
            self.token,
            self.caller.clone(),
        );
        self.changed.notify_waiters();
        Some(answer)
    }

    /// Waits for its user until `wanted` says something.
    pub(crate) async fn wait<T>(&self, wanted: impl Fn(&Self) -> Option<T>) -> T {
        let found = async {
            loop {
                let changed = self.changed.notified();
                let mut changed = std::pin::pin!(changed);
                // Registered before it is looked at, so that no change in between is missed.
                changed.as_mut().enable();
                if let Some(found) = wanted(self) {
                    return found;
                }
                changed.await;
            }
        };
        shield(found).await
    }

    /// Why the lease is over, if it is.
    pub(crate) fn lost(&self) -> Option<LeaseLost> {
        self.check().err()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn result(&self, now: Timestamp) -> Result<Duration, LeaseLost> {
        match self.lifecycle.lost() {
            None if !self.released => Ok(validity::left(self.lifecycle.deadline(), now)),
            _ => Err(self.over()),
        }
    }

    /// Why a lease is over that does not hold any more.
    fn over(&self) -> LeaseLost {
        LeaseLost { reason: self.lifecycle.lost().unwrap_or(LossReason::Released) }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("resource", self.resource()).finish_non_exhaustive()
    }
}

//! A grant: what a round has won, its lifecycle, and who wants to know when it is lost.
//!
//! It carries what the lifecycle decides to those who wait. It is shared by the lease, its signals and the renewals, and
//! must never keep a lease alive that its holder has dropped, nor its engine. It decides under its lock and tells
//! without it: a waker may do anything, such as drop the lease. The timers have a lock of their own, which is taken
//! inside this one and never the other way round; so is that of the footprint.

mod ending;

use std::{
    fmt,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{
    Engine,
    footprint::SharedFootprint,
    held::{HeldPlace, Outcomes},
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

/// Ends with how a release went.
pub(crate) type ReleaseAnswer = oneshot::Receiver<Result<(), ReleaseError>>;

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
    /// Up to when others are kept out, once a holder has it.
    hold: Option<Timestamp>,
    state: Lock<State>,
    changed: Notify,
}

struct State {
    lifecycle: Lifecycle,
    /// The place of this grant among the timers.
    scheduled: Option<TimerKey>,
    warning: Option<LossReason>,
    /// It is given back.
    released: bool,
    /// Up to when others are kept out at least, by the steady clock; from when its holder has it.
    hold: Option<Timestamp>,
    /// Work goes on under it that ends when it is lost, and then gives it back.
    has_work: bool,
    /// Of the shutdown that has ended it.
    report: Option<Arc<Outcomes>>,
    /// Its place among the leases that are held.
    place: Option<HeldPlace>,
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
    pub(crate) fn release(&self) -> Result<ReleaseAnswer, ReleaseError> {
        self.grant.release(&self.engine)
    }

    /// Ends it without a release.
    pub(crate) fn let_expire(&self) {
        self.grant.let_expire(&self.engine);
    }

    /// Others are kept out for so long from now, whenever it is released.
    pub(crate) fn hold_for(&self, least: Duration) {
        let until = self.engine.steady().saturating_add(least);
        let mut state = self.grant.state();
        state.hold = state.hold.max(Some(until));
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

/// What stands on the nodes for a grant.
pub(super) struct Granted {
    pub(super) owner: Owner,
    pub(super) token: Option<FencingToken>,
    pub(super) note: Option<Note>,
}

impl Grant {
    pub(super) fn new(
        engine: &Arc<Engine>,
        resource: Arc<ResourceSlot>,
        Granted { owner, token, note }: Granted,
        lifecycle: Lifecycle,
        footprint: Arc<SharedFootprint>,
        caller: Caller,
        hold_at_least: Option<Duration>,
    ) -> Arc<Self> {
        let hold = hold_at_least.map(|least| engine.steady().saturating_add(least));
        let state = State {
            lifecycle,
            scheduled: None,
            warning: None,
            released: false,
            hold: None,
            has_work: false,
            report: None,
            place: None,
        };
        let (state, changed) = (Lock::new(state), Notify::new());
        let engine = Arc::downgrade(engine);
        Arc::new(Self {
            engine,
            resource,
            owner,
            token,
            note,
            footprint,
            caller,
            hold,
            state,
            changed,
        })
    }

    /// Counts it among the leases that are held. False says that the process is shutting down, and that it is to be given
    /// back.
    pub(super) fn register(self: &Arc<Self>, engine: &Engine) -> bool {
        let mut state = self.state();
        state.place = engine.held.add(self);
        state.place.is_some()
    }

    /// Its holder has it. Before, nobody could work under it, so that nobody has to be kept out afterwards.
    pub(crate) fn handle_taken(&self) {
        if self.hold.is_some() {
            self.state().hold = self.hold;
        }
    }

    /// Work begins that ends when the lease is lost, and then gives it back.
    pub(crate) fn begin_work(&self) -> Result<(), LeaseLost> {
        let mut state = self.state();
        // A shutdown that has ended it goes on to release it, since there was no work.
        if state.released || state.report.is_some() {
            return Err(state.over());
        }
        state.has_work = true;
        Ok(())
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

    /// Why it is lost, or about to be.
    pub(crate) fn is_ending(&self) -> Option<LossReason> {
        self.lost().map(|lost| lost.reason).or_else(|| self.state().warning)
    }

    /// Whether this is the thread on which its engine runs.
    pub(crate) fn runs_here(&self) -> bool {
        self.engine.upgrade().is_some_and(|engine| engine.runs_here())
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

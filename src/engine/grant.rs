//! A grant: what a round has won, with its lifecycle; and the tenure of whoever holds it now.
//!
//! A grant may serve several leases, one after the other: each has a [`Tenure`] of its own, and the owner, the keys, the
//! deadline, the timers and the renewals are the grant's. It carries what the lifecycle decides to those who wait. It
//! must never keep a lease alive that its holder has dropped, nor its engine. It decides under its lock and tells
//! without it: a waker may do anything, such as drop the lease. The timers have a lock of their own, which is taken
//! inside this one and never the other way round; so is that of the footprint.

mod ending;
mod handing;
mod lingering;
mod lowering;
mod tenure;

use std::{
    fmt,
    sync::{Arc, MutexGuard, OnceLock, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

pub(crate) use self::tenure::{HeldTenure, Tenure};
use super::{
    Engine,
    footprint::SharedFootprint,
    held::{HeldPlace, Outcomes},
    renewals::Timed,
    resources::ResourceSlot,
};
use crate::{
    error::{LeaseLost, ReleaseError, Reports},
    lock::Lock,
    protocol::{
        Due, ExtendOutcome, FencingToken, LeaseAction, Leases, Lifecycle, LossReason, NodeId, Note,
        Owner, Place, Row, Target, TimerKey, Timestamp, Wakeup,
    },
    runtime::Process,
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
    /// The one in which anybody is told what becomes of it.
    process: Process,
    /// In whose line it was won.
    resource: Arc<ResourceSlot>,
    /// What stands on the nodes for it.
    target: Target,
    /// Instead, once its holder shares it with readers.
    lowered: OnceLock<Target>,
    owner: Owner,
    /// Whether its leases have fencing tokens.
    fenced: bool,
    /// For how long its keys stand beyond its ttl. It is looked at without a lock, also in a process that was forked.
    lock_delay: Duration,
    footprint: Arc<SharedFootprint>,
    /// Under which place of the line it was won.
    station: Option<Place>,
    state: Lock<State>,
    changed: Notify,
}

struct State {
    leases: Leases,
    /// In which span the current one was asked for.
    caller: Caller,
    /// Of the shutdown that has ended it.
    report: Option<Arc<Outcomes>>,
    /// What it leaves beside its key.
    note: Option<Note>,
    /// The place of this grant among the timers.
    scheduled: Option<TimerKey>,
    /// What the nodes have said to the last extension, where that has failed.
    doubt: Option<Reports>,
    /// Its place among the leases that are held.
    place: Option<HeldPlace>,
}

/// What stands on the nodes for a grant.
pub(super) struct Granted {
    pub(super) target: Target,
    pub(super) owner: Owner,
    pub(super) token: Option<FencingToken>,
    pub(super) note: Option<Note>,
    pub(super) row: Row,
    pub(super) linger: Duration,
    pub(super) lock_delay: Duration,
    pub(super) alone: bool,
    pub(super) station: Option<Place>,
}

impl Grant {
    pub(super) fn new(
        engine: &Arc<Engine>,
        resource: Arc<ResourceSlot>,
        Granted { target, owner, token, note, row, linger, lock_delay, alone, station }: Granted,
        lifecycle: Lifecycle,
        footprint: Arc<SharedFootprint>,
        caller: Caller,
        hold_at_least: Option<Duration>,
    ) -> Arc<Self> {
        let keeps_until = hold_at_least.map(|least| engine.steady().saturating_add(least));
        let asked = (linger, lock_delay, alone);
        let leases = Leases::new(lifecycle, row, token, asked, keeps_until);
        let (report, scheduled, doubt, place) = (None, None, None, None);
        let state = State { leases, caller, report, note, scheduled, doubt, place };
        Arc::new(Self {
            engine: Arc::downgrade(engine),
            process: engine.process,
            resource,
            target,
            lowered: OnceLock::new(),
            owner,
            fenced: token.is_some(),
            lock_delay,
            footprint,
            station,
            state: Lock::new(state),
            changed: Notify::new(),
        })
    }

    /// Counts it among the leases that are held. False says that the process is shutting down, and that it is to be given
    /// back.
    pub(super) fn register(self: &Arc<Self>, engine: &Engine) -> bool {
        let mut state = self.state();
        let hurries = engine.fleet.haste.hold(state.leases.lifecycle().ttl());
        state.place = engine.held.add(self, hurries);
        state.place.is_some()
    }

    /// A node votes again that may have lost its key.
    pub(super) fn handle_node_back(self: &Arc<Self>, engine: &Arc<Engine>) {
        let (now, random) = (engine.now(), engine.random_byte());
        if self.state().leases.handle_node_back(random, now) {
            self.schedule(engine);
        }
    }

    /// The tenure of whoever holds it now, or did last.
    pub(super) fn tenure(self: &Arc<Self>) -> Tenure {
        let state = self.state();
        let (number, token) = (state.leases.number(), state.leases.token());
        Tenure::new(Arc::clone(self), number, token, state.leases.lifecycle().ttl())
    }

    pub(crate) fn target(&self) -> &Target {
        self.lowered.get().unwrap_or(&self.target)
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether its leases have fencing tokens.
    pub(super) const fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// What it leaves beside its key on the nodes.
    pub(super) fn note(&self) -> Option<Note> {
        self.state().note.clone()
    }

    /// From now on it leaves this beside its key, also where that is restored.
    pub(super) fn set_note(&self, note: Note) {
        self.state().note = Some(note);
    }

    /// For how long its keys stand beyond its ttl.
    pub(crate) const fn lock_delay(&self) -> Duration {
        self.lock_delay
    }

    /// For how long a node keeps its key.
    pub(super) fn key_life(&self) -> Duration {
        self.state().leases.key_life()
    }

    pub(super) const fn footprint(&self) -> &Arc<SharedFootprint> {
        &self.footprint
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.state().leases.lifecycle().clone()
    }

    /// Decides what is due at `now`, after it has been taken out of the timers under this key. `None` says that the
    /// key has become void meanwhile.
    pub(super) fn tick(&self, key: TimerKey, now: Timestamp) -> Option<Due> {
        let mut state = self.state();
        state.scheduled.take_if(|scheduled| *scheduled == key)?;
        let lasted = state.leases.lasts();
        let due = state.leases.handle_timeout(now);
        self.end_if_lost(lasted, &state);
        Some(due)
    }

    /// Takes the end of an extension, and returns what has to be told. It counts whoever holds the grant by now: what is
    /// extended is the key on the nodes, which all its leases share.
    /// What the nodes have said is kept for as long as none succeeds.
    pub(super) fn extended(
        &self,
        outcome: ExtendOutcome,
        nodes: Option<Reports>,
        now: Timestamp,
    ) -> Option<LeaseAction> {
        let mut state = self.state();
        let lasted = state.leases.lasts();
        if lasted {
            state.doubt = nodes;
        }
        let action = state.leases.handle_extension(outcome, now);
        self.end_if_lost(lasted, &state);
        action
    }

    /// Nothing more may be set for a lease that has been lost just now.
    fn end_if_lost(&self, lasted: bool, state: &State) {
        if lasted && !state.leases.lasts() {
            self.footprint.lock().handle_over();
        }
    }

    /// Tells those who wait, and the log. No lock may be held.
    pub(super) fn tell(&self, action: LeaseAction) {
        // A grant that is lost, or about to be, is not handed on, so that this is still the tenure that it happened to.
        let (token, caller) = {
            let state = self.state();
            if state.leases.is_kept() {
                // Nobody has lost anything. It is given back when its timer comes.
                return;
            }
            (state.leases.token(), state.caller.clone())
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
        self.changed.notify_waiters();
    }

    /// As it is shown in a log.
    fn held<'a>(&'a self, caller: &'a Caller, token: Option<FencingToken>) -> Held<'a> {
        Held { caller, target: self.target(), owner: self.owner, token }
    }

    /// Puts it among the timers by when its lifecycle wants to be asked, if it is not there for that time already.
    pub(super) fn schedule(self: &Arc<Self>, engine: &Arc<Engine>) {
        let wakeup = {
            let mut state = self.state();
            let next = state.leases.poll_timeout();
            // Also where both are none, as after a release.
            if state.scheduled.map(TimerKey::at) == next {
                return;
            }
            match (state.scheduled.take(), next) {
                (old, Some(at)) => {
                    let slack = state.leases.lifecycle().slack();
                    let timed = Timed::Grant(Arc::downgrade(self));
                    let (key, wakeup) = engine.schedule(timed, old, at, slack);
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
        state.leases.lasts() && self.footprint.lock().handle_restore_sent(node)
    }

    /// That it is over, as its holder is told it.
    fn lost(&self, state: Option<&State>, reason: LossReason) -> LeaseLost {
        let is_of_nodes = matches!(reason, LossReason::RenewalFailed | LossReason::Gone);
        let nodes = state.filter(|_| is_of_nodes).and_then(|state| state.doubt.clone());
        LeaseLost::new(reason).on(self.target().clone(), nodes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The same for what may be called in a process that was forked since: nothing there where somebody has it, who may be a
    /// thread of the parent's.
    fn state_here(&self) -> Option<MutexGuard<'_, State>> {
        self.state.lock_if(|| self.process.is_here())
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("target", self.target()).finish_non_exhaustive()
    }
}

//! What stands behind a lease: its lifecycle, where its key stands, and who wants to know when it is lost.
//!
//! It carries what the lifecycle decides to those who wait. It is shared by the lease, its signals and the
//! renewals, and must never keep a lease alive that its holder has dropped, nor its engine. It decides under its
//! lock and tells without it: a waker may do anything, such as drop the lease. The renewals's queue has a lock of
//! its own, which is taken inside this one and never the other way round.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use crate::{
    engine::{Engine, Footprint, Refusals, TimerKey, Wakeup},
    error::{LeaseLost, ReleaseError},
    protocol::{
        ExtendOutcome, FencingToken, LeaseAction, Lifecycle, LossReason, NodeId, Owner, Reply,
        Resource, Timestamp, validity,
    },
    shield::shield,
    telemetry,
};

/// A resource that is held, or was.
pub(crate) struct Grant {
    /// The lease keeps the engine alive. A signal that is kept does not, nor its connections.
    engine: Weak<Engine>,
    resource: Resource,
    owner: Owner,
    token: Option<FencingToken>,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    lifecycle: Lifecycle,
    /// The place of this lease in the renewals's queue.
    scheduled: Option<TimerKey>,
    warning: Option<LossReason>,
    /// The nodes that may hold the key, and whether that is unknown; `None` once released.
    nodes: Option<Vec<(NodeId, bool)>>,
    refusals: Refusals,
    /// The nodes to which a restore is under way.
    restoring: Vec<NodeId>,
}

/// What the renewals has to do for a lease that it has looked at.
#[derive(Debug)]
pub(crate) struct TickOutcome {
    pub(crate) extend: bool,
    /// What has to be told, once no lock is held.
    pub(crate) tell: Option<LeaseAction>,
}

impl Grant {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        resource: Resource,
        owner: Owner,
        token: Option<FencingToken>,
        lifecycle: Lifecycle,
        footprint: Footprint,
    ) -> Arc<Self> {
        let state = State {
            lifecycle,
            scheduled: None,
            warning: None,
            nodes: Some(footprint.nodes),
            refusals: footprint.refusals,
            restoring: Vec::new(),
        };
        let (state, changed) = (Mutex::new(state), Notify::new());
        let engine = Arc::downgrade(engine);
        Arc::new(Self { engine, resource, owner, token, state, changed })
    }

    pub(crate) const fn resource(&self) -> &Resource {
        &self.resource
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) const fn token(&self) -> Option<FencingToken> {
        self.token
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.state().lifecycle.clone()
    }

    /// Reads the clock, and declares the lease lost if its time is up: the timer that should have said so may
    /// have been stopped together with this process.
    pub(crate) fn check(&self) -> Result<Duration, LeaseLost> {
        let Some(now) = self.engine.upgrade().map(|engine| engine.now()) else {
            // The lease has been dropped, and that has released it, unless it was lost before.
            return Err(self.state().over());
        };
        let (result, due) = {
            let mut state = self.state();
            let due = match state.nodes {
                Some(_) => state.lifecycle.handle_check(now),
                None => None,
            };
            (state.result(now), due)
        };
        if let Some(due) = due {
            self.tell(due);
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

    /// Decides what is due at `now`, for the renewals, which has taken it out of its queue under this key.
    /// `None` says that the key has become void meanwhile.
    pub(crate) fn tick(&self, key: TimerKey, now: Timestamp) -> Option<TickOutcome> {
        let mut state = self.state();
        if state.scheduled != Some(key) {
            return None;
        }
        state.scheduled = None;
        let mut seen = TickOutcome { extend: false, tell: None };
        while let Some(due) = state.lifecycle.handle_timeout(now) {
            match due {
                LeaseAction::Extend => seen.extend = true,
                LeaseAction::Warn(reason) => {
                    state.warning = Some(reason);
                    seen.tell = Some(due);
                }
                LeaseAction::Lose(_) => seen.tell = Some(due),
            }
        }
        Some(seen)
    }

    /// Takes the end of an extension, and returns what has to be told.
    pub(crate) fn extended(&self, extension: ExtendOutcome, now: Timestamp) -> Option<LeaseAction> {
        let mut state = self.state();
        state.nodes.as_ref()?;
        if let ExtendOutcome::Extended(_) = extension {
            state.warning = None;
        }
        state.lifecycle.handle_extension(extension, now)
    }

    /// Tells those who wait, and the log. No lock may be held.
    pub(crate) fn tell(&self, due: LeaseAction) {
        match due {
            LeaseAction::Extend => {}
            LeaseAction::Warn(reason) => telemetry::lease_ending(&self.resource, reason),
            LeaseAction::Lose(reason) => telemetry::lease_lost(&self.resource, reason),
        }
        self.changed.notify_waiters();
    }

    /// Tells the renewals when to look at it, if it does not know that already.
    pub(crate) fn schedule(self: &Arc<Self>, engine: &Arc<Engine>) {
        let alarm = {
            let mut state = self.state();
            let next = state.nodes.as_ref().and_then(|_| state.lifecycle.poll_timeout());
            if state.scheduled.map(TimerKey::at) == next {
                return;
            }
            match (state.scheduled.take(), next) {
                (old, Some(at)) => {
                    let slack = state.lifecycle.slack();
                    let (key, alarm) = engine.schedule(self, old, at, slack);
                    state.scheduled = Some(key);
                    alarm
                }
                (old, None) => {
                    if let Some(old) = old {
                        engine.cancel(old);
                    }
                    Wakeup::Silent
                }
            }
        };
        engine.wake(alarm);
    }

    /// A restore is about to be sent there: from now on the key may stand there too, and has to be released
    /// there. False says that the lease is over, or that a restore is under way there already, so that none
    /// must be sent.
    pub(crate) fn may_stand_on(&self, node: NodeId) -> bool {
        let state = &mut *self.state();
        let Some(nodes) = &mut state.nodes else { return false };
        if state.lifecycle.lost().is_some() || state.restoring.contains(&node) {
            return false;
        }
        if !nodes.iter().any(|(other, _)| *other == node) {
            nodes.push((node, false));
        }
        state.restoring.push(node);
        true
    }

    /// A restore has ended. True says that the lease has too, and that the key may stand there.
    pub(crate) fn restored(&self, node: NodeId, reply: &Reply) -> bool {
        let state = &mut *self.state();
        state.restoring.retain(|other| *other != node);
        let unknown = match reply {
            Reply::Granted(_) => false,
            Reply::Failed { sent: true } => true,
            Reply::Denied(_) | Reply::Failed { sent: false } => return false,
        };
        if let Some(nodes) = &mut state.nodes {
            match nodes.iter_mut().find(|(other, _)| *other == node) {
                Some((_, may_land_late)) => *may_land_late |= unknown,
                None => nodes.push((node, unknown)),
            }
        }
        state.nodes.is_none() || state.lifecycle.lost().is_some()
    }

    /// A node has answered the acquire after the verdict. False says that the lease has been released.
    pub(crate) fn answered(&self, node: NodeId, reply: &Reply) -> bool {
        let nodes = &mut self.state().nodes;
        if let Some(nodes) = nodes {
            match reply {
                Reply::Denied(_) | Reply::Failed { sent: false } => {
                    nodes.retain(|(other, _)| *other != node);
                }
                Reply::Granted(_) => {
                    for (other, may_land_late) in nodes.iter_mut() {
                        *may_land_late &= *other != node;
                    }
                }
                Reply::Failed { sent: true } => {}
            }
        }
        nodes.is_some()
    }

    /// Starts the release, once, if there is anybody to carry it out.
    pub(crate) fn release(
        &self,
        engine: &Arc<Engine>,
    ) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        if !engine.is_served() {
            return None;
        }
        let (footprint, ttl, key) = {
            let mut state = self.state();
            let mut nodes = state.nodes.take()?;
            for (node, may_land_late) in &mut nodes {
                *may_land_late |= state.restoring.contains(node);
            }
            let footprint = Footprint { nodes, refusals: state.refusals.clone() };
            (footprint, state.lifecycle.ttl(), state.scheduled.take())
        };
        if let Some(key) = key {
            engine.cancel(key);
        }
        let answer = engine.release(self.resource.clone(), self.owner, ttl, footprint);
        self.changed.notify_waiters();
        Some(answer)
    }

    /// Waits for its user until `wanted` says something.
    pub(crate) async fn wait<T>(&self, wanted: impl Fn(&Self) -> Option<T>) -> T {
        let found = async {
            loop {
                let changed = self.changed.notified();
                let mut changed = std::pin::pin!(changed);
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn result(&self, now: Timestamp) -> Result<Duration, LeaseLost> {
        match (self.lifecycle.lost(), &self.nodes) {
            (None, Some(_)) => Ok(validity::left(self.lifecycle.deadline(), now)),
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
        f.debug_struct("Grant").field("resource", &self.resource).finish_non_exhaustive()
    }
}

//! What stands behind a lease: its lifecycle, where its key stands, and who wants to know when it is lost.
//!
//! It carries what the lifecycle decides to those who wait. It is shared by the lease, its signals and the
//! keeper, and must never keep a lease alive that its holder has dropped, nor its driver. It decides under its
//! lock and tells without it: a waker may do anything, such as drop the lease. The keeper's queue has a lock of
//! its own, which is taken inside this one and never the other way round.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use crate::{
    driver::{Alarm, Driver, Footprint, Refusals, Ticket},
    error::{LeaseLost, ReleaseError},
    protocol::{
        Due, Extension, FencingToken, Lifecycle, LossReason, NodeId, Owner, Reply, Resource,
        Timestamp, validity,
    },
    shield::shield,
    telemetry,
};

/// A resource that is held, or was.
pub(crate) struct Held {
    /// The lease keeps the driver alive. A signal that is kept does not, nor its connections.
    driver: Weak<Driver>,
    resource: Resource,
    owner: Owner,
    token: Option<FencingToken>,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    lifecycle: Lifecycle,
    /// The place of this lease in the keeper's queue.
    scheduled: Option<Ticket>,
    warning: Option<LossReason>,
    /// The nodes that may hold the key, and whether that is unknown; `None` once released.
    nodes: Option<Vec<(NodeId, bool)>>,
    refusals: Refusals,
    /// The nodes to which a restore is under way.
    restoring: Vec<NodeId>,
}

/// What the keeper has to do for a lease that it has looked at.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) extend: bool,
    /// What has to be told, once no lock is held.
    pub(crate) tell: Option<Due>,
}

impl Held {
    pub(crate) fn new(
        driver: &Arc<Driver>,
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
        let driver = Arc::downgrade(driver);
        Arc::new(Self { driver, resource, owner, token, state, changed })
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
        let Some(now) = self.driver.upgrade().map(|driver| driver.now()) else {
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

    pub(crate) fn progress(&self, now: Timestamp) {
        self.state().lifecycle.handle_progress(now);
    }

    /// Whether its holder may still extend it.
    pub(crate) fn may_be_extended(&self, now: Timestamp) -> bool {
        self.state().lifecycle.may_be_extended(now)
    }

    /// Decides what is due at `now`, for the keeper, which has taken it out of its queue under this ticket.
    /// `None` says that the ticket has become void meanwhile.
    pub(crate) fn tick(&self, ticket: Ticket, now: Timestamp) -> Option<Seen> {
        let mut state = self.state();
        if state.scheduled != Some(ticket) {
            return None;
        }
        state.scheduled = None;
        let mut seen = Seen { extend: false, tell: None };
        while let Some(due) = state.lifecycle.handle_timeout(now) {
            match due {
                Due::Extend => seen.extend = true,
                Due::Warn(reason) => {
                    state.warning = Some(reason);
                    seen.tell = Some(due);
                }
                Due::Lose(_) => seen.tell = Some(due),
            }
        }
        Some(seen)
    }

    /// Takes the end of an extension, and returns what has to be told.
    pub(crate) fn extended(&self, extension: Extension, now: Timestamp) -> Option<Due> {
        let mut state = self.state();
        state.nodes.as_ref()?;
        if let Extension::Extended(_) = extension {
            state.warning = None;
        }
        state.lifecycle.handle_extension(extension, now)
    }

    /// Tells those who wait, and the log. No lock may be held.
    pub(crate) fn tell(&self, due: Due) {
        match due {
            Due::Extend => {}
            Due::Warn(reason) => telemetry::lease_ending(&self.resource, reason),
            Due::Lose(reason) => telemetry::lease_lost(&self.resource, reason),
        }
        self.changed.notify_waiters();
    }

    /// Tells the keeper when to look at it, if it does not know that already.
    pub(crate) fn schedule(self: &Arc<Self>, driver: &Arc<Driver>) {
        let alarm = {
            let mut state = self.state();
            let next = state.nodes.as_ref().and_then(|_| state.lifecycle.poll_timeout());
            if state.scheduled.map(Ticket::at) == next {
                return;
            }
            match (state.scheduled.take(), next) {
                (old, Some(at)) => {
                    let slack = state.lifecycle.slack();
                    let (ticket, alarm) = driver.look_at(self, old, at, slack);
                    state.scheduled = Some(ticket);
                    alarm
                }
                (old, None) => {
                    if let Some(old) = old {
                        driver.look_away(old);
                    }
                    Alarm::Silent
                }
            }
        };
        driver.heed(alarm);
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
                Some((_, unsure)) => *unsure |= unknown,
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
                    for (other, unsure) in nodes.iter_mut() {
                        *unsure &= *other != node;
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
        driver: &Arc<Driver>,
    ) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        if !driver.is_served() {
            return None;
        }
        let (footprint, ttl, ticket) = {
            let mut state = self.state();
            let mut nodes = state.nodes.take()?;
            for (node, unsure) in &mut nodes {
                *unsure |= state.restoring.contains(node);
            }
            let footprint = Footprint { nodes, refusals: state.refusals.clone() };
            (footprint, state.lifecycle.ttl(), state.scheduled.take())
        };
        if let Some(ticket) = ticket {
            driver.look_away(ticket);
        }
        let answer = driver.release(self.resource.clone(), self.owner, ttl, footprint);
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

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("resource", &self.resource).finish_non_exhaustive()
    }
}

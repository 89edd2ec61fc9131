//! What stands behind a lease: its lifecycle, where its key stands, and who wants to know when it is lost.
//!
//! It carries what the lifecycle decides to those who wait. It is shared by the lease, its signals and the
//! keeper, and must never keep a lease alive that its holder has dropped.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use crate::{
    driver::Driver,
    error::{LeaseLost, ReleaseError},
    protocol::{
        Due, Extension, FencingToken, Lifecycle, LossReason, NodeId, Owner, Reply, Resource,
        Timestamp, validity,
    },
    telemetry,
};

/// A resource that is held, or was.
pub(crate) struct Held {
    driver: Arc<Driver>,
    resource: Resource,
    owner: Owner,
    token: Option<FencingToken>,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    lifecycle: Lifecycle,
    /// The time under which the keeper has this lease in its queue.
    scheduled: Option<Timestamp>,
    warning: Option<LossReason>,
    /// The nodes that may hold the key, and whether that is unknown; `None` once released.
    nodes: Option<Vec<(NodeId, bool)>>,
    /// The nodes to which a restore is under way.
    restoring: Vec<NodeId>,
}

impl Held {
    pub(crate) fn new(
        driver: Arc<Driver>,
        resource: Resource,
        owner: Owner,
        token: Option<FencingToken>,
        lifecycle: Lifecycle,
        nodes: Vec<(NodeId, bool)>,
    ) -> Arc<Self> {
        let state = State {
            lifecycle,
            scheduled: None,
            warning: None,
            nodes: Some(nodes),
            restoring: Vec::new(),
        };
        let (state, changed) = (Mutex::new(state), Notify::new());
        Arc::new(Self { driver, resource, owner, token, state, changed })
    }

    pub(crate) const fn driver(&self) -> &Arc<Driver> {
        &self.driver
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
        let now = self.driver.now();
        let mut state = self.state();
        if state.nodes.is_some()
            && let Some(due) = state.lifecycle.handle_check(now)
        {
            self.act(&mut state, due);
        }
        if let Some(reason) = state.lifecycle.lost() {
            return Err(LeaseLost { reason });
        }
        if state.nodes.is_none() {
            return Err(LeaseLost { reason: LossReason::Released });
        }
        Ok(validity::left(state.lifecycle.deadline(), now))
    }

    pub(crate) fn warning(&self) -> Option<LossReason> {
        self.state().warning
    }

    pub(crate) fn progress(&self) {
        let now = self.driver.now();
        self.state().lifecycle.handle_progress(now);
    }

    /// Acts on what is due at `now`. True asks for an extension.
    pub(crate) fn tick(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        if state.nodes.is_none() {
            return false;
        }
        let mut extend = false;
        while let Some(due) = state.lifecycle.handle_timeout(now) {
            extend |= due == Due::Extend;
            self.act(&mut state, due);
        }
        extend
    }

    /// Takes the end of an extension.
    pub(crate) fn extended(&self, extension: Extension, now: Timestamp) {
        let mut state = self.state();
        if state.nodes.is_none() {
            return;
        }
        if let Extension::Extended(_) = extension {
            state.warning = None;
        }
        if let Some(due) = state.lifecycle.handle_extension(extension, now) {
            self.act(&mut state, due);
        }
    }

    fn act(&self, state: &mut State, due: Due) {
        match due {
            Due::Extend => {}
            Due::Warn(reason) => {
                state.warning = Some(reason);
                telemetry::lease_ending(&self.resource, reason);
                self.changed.notify_waiters();
            }
            Due::Lose(reason) => {
                telemetry::lease_lost(&self.resource, reason);
                self.changed.notify_waiters();
            }
        }
    }

    /// When the keeper has to look at it, if it does not know that already.
    pub(crate) fn schedule(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.nodes.as_ref()?;
        let next = state.lifecycle.poll_timeout()?;
        if state.scheduled.is_some_and(|at| at <= next) {
            return None;
        }
        state.scheduled = Some(next);
        Some(next)
    }

    /// Takes it out of the keeper's queue, if `at` is the time under which it is there.
    pub(crate) fn unschedule(&self, at: Timestamp) -> bool {
        let mut state = self.state();
        let current = state.scheduled == Some(at);
        if current {
            state.scheduled = None;
        }
        current
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

    /// A node has answered the acquire after the verdict.
    pub(crate) fn answered(&self, node: NodeId, reply: &Reply) {
        if let Some(nodes) = &mut self.state().nodes {
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
    }

    /// Starts the release, once.
    pub(crate) fn release(&self) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        let (nodes, ttl) = {
            let mut state = self.state();
            let mut nodes = state.nodes.take()?;
            for (node, unsure) in &mut nodes {
                *unsure |= state.restoring.contains(node);
            }
            (nodes, state.lifecycle.ttl())
        };
        self.changed.notify_waiters();
        let nodes = nodes.into_boxed_slice();
        Some(self.driver.release(self.resource.clone(), self.owner, ttl, nodes))
    }

    /// Waits until `wanted` says something.
    pub(crate) async fn wait<T>(&self, wanted: impl Fn(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = wanted(self) {
                return found;
            }
            changed.await;
        }
    }

    /// Why the lease is over, if it is.
    pub(crate) fn lost(&self) -> Option<LeaseLost> {
        self.check().err()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("resource", &self.resource).finish_non_exhaustive()
    }
}

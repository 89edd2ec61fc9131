//! The held leases: how many there are, and how a shutdown ends them all.
//!
//! It decides which of them a shutdown releases at once: all but those under which `run` has work, since no other
//! holder may be let in while that goes on. It must never keep a lease alive that its holder has dropped.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::{Either, select};

use super::{Engine, Grant};
use crate::{
    error::{CloseError, Closed, ReleaseError, Shutdown},
    shield::shielded,
    telemetry,
};

/// The results of the leases that a shutdown has ended.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    ended: AtomicUsize,
    released: AtomicUsize,
    gone: AtomicUsize,
}

impl Outcomes {
    /// Counts a lease that a shutdown ends, and returns where to report its release.
    pub(super) fn end_one(self: &Arc<Self>) -> Arc<Self> {
        self.ended.fetch_add(1, Ordering::AcqRel);
        Arc::clone(self)
    }

    pub(super) fn note(&self, result: &Result<(), ReleaseError>) {
        let count = match result {
            Ok(()) => &self.released,
            Err(ReleaseError::AlreadyEnded { .. }) => &self.gone,
            Err(_) => return,
        };
        count.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a lease that had been lost before, and whose keys are left for its lock-delay.
    pub(super) fn note_left(&self) {
        self.gone.fetch_add(1, Ordering::AcqRel);
    }
}

impl Engine {
    /// The grants that count as held. A grant that its holder drops meanwhile is not dropped under the lock.
    fn held(&self) -> Vec<Arc<Grant>> {
        self.client.lock().held().filter_map(|(_, kept)| kept.grant.upgrade()).collect()
    }

    fn held_count(&self) -> usize {
        self.client.lock().held_count()
    }

    /// A lost node votes again: held grants are renewed soon, and have their keys there again.
    pub(super) fn handle_node_back(self: &Arc<Self>) {
        for grant in self.held() {
            // It asks the runtime, which is user code and may panic.
            shielded(|| grant.handle_node_back(self));
        }
    }

    /// Refuses new acquires and waits for everything that is under way.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<Closed, CloseError> {
        self.refuse_acquires();
        if self.is_served() {
            self.give_back_all_kept();
        }
        self.all_ended(|| self.under_way() == 0).await;
        self.withdraw().await;
        self.result_of_close()
    }

    /// Whether everything that was under way has ended.
    pub(crate) fn result_of_close(&self) -> Result<Closed, CloseError> {
        // A lost grant is not held, even if its holder has not dropped it yet.
        let held = || self.held().iter().filter(|grant| grant.left().is_ok()).count();
        match self.under_way() {
            0 => Ok(Closed { held: if self.is_served() { held() } else { 0 } }),
            unfinished => Err(CloseError::Unfinished { unfinished }),
        }
    }

    /// Like `close`, and ends all held leases.
    pub(crate) async fn shutdown(self: &Arc<Self>) -> Result<Shutdown, CloseError> {
        self.refuse_acquires();
        if self.is_served() {
            self.client.lock().shut_down();
            let all = self.held();
            telemetry::shutting_down(all.len());
            all.iter().for_each(|grant| grant.shut_down(self));
        }
        // In this order: a release counts as under way before its lease is out of the list.
        self.all_ended(|| self.held_count() == 0 && self.under_way() == 0).await;
        self.withdraw().await;
        self.result_of_shutdown()
    }

    pub(crate) fn result_of_shutdown(&self) -> Result<Shutdown, CloseError> {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Acquire);
        let Outcomes { ended, released, gone } = &*self.outcomes;
        let noted = || (count(released), count(gone));
        // Read until nothing has changed in between, or work that ends meanwhile would count twice.
        let ((released, gone), working) = loop {
            let before = noted();
            let working = if self.is_served() { self.held_count() } else { 0 };
            if noted() == before {
                break (before, working);
            }
        };
        // Read last, so that it is not less than the others.
        let unconfirmed = count(ended).saturating_sub(released.saturating_add(gone));
        let unfinished = self.under_way();
        if unconfirmed == 0 {
            return Ok(Shutdown { released, gone, unfinished });
        }
        let unconfirmed = unconfirmed.saturating_sub(working);
        Err(CloseError::Unreleased { released, gone, unconfirmed, working })
    }

    fn under_way(&self) -> usize {
        let tasks = || self.active.tasks.load(Ordering::Acquire);
        if !self.is_served() {
            return tasks();
        }
        // Under one lock: an event that is taken out counts as a task from that step on.
        let client = self.client.lock();
        client.under_way().saturating_add(tasks())
    }

    fn refuse_acquires(self: &Arc<Self>) {
        self.closed.store(true, Ordering::Release);
        if self.is_served() {
            // Closes the acquires only: releases still go out, and those that wait for a turn count as under way.
            self.decide(|client| client.close());
        }
    }

    /// Waits until `wanted` holds, checked whenever everything under way has ended, or until the time for closing is
    /// up.
    async fn all_ended(&self, wanted: impl Fn() -> bool) {
        // If unserved, nothing would end, and the lock might never be free.
        if !self.is_served() {
            return;
        }
        let deadline = self.now().saturating_add(self.config.close_timeout);
        let mut timeout = self.runtime.sleep_until(deadline);
        loop {
            let mut ended = pin!(self.active.ended.notified());
            // Registered before it is looked at, so that no end in between is missed.
            ended.as_mut().enable();
            if wanted() {
                return;
            }
            if let Either::Right(_) = select(ended, &mut timeout).await {
                return;
            }
        }
    }
}

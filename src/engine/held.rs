//! The leases that are held: how many there are, and how they are all ended when the process shuts down.
//!
//! It decides which of them a shutdown releases at once: all but those under which `run` has work, since others must not
//! be let in while that goes on. It must never keep a lease alive that its holder has dropped.

use std::{
    pin::pin,
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::{Either, select};

use super::{Engine, Grant, turns::Line};
use crate::{
    error::{CloseError, Closed, ReleaseError, Shutdown, ShutdownError},
    lock::Lock,
    node::Hurries,
    shield::shielded,
    telemetry,
};

/// From this size on, the memory of a list that has become empty is given back.
const MANY: usize = 1024;

/// The leases that have been granted and not been given back.
#[derive(Debug, Default)]
pub(super) struct HeldLeases {
    list: Lock<List>,
    outcomes: Arc<Outcomes>,
}

#[derive(Debug, Default)]
struct List {
    grants: Vec<Option<Weak<Grant>>>,
    /// Which places are empty.
    free: Vec<usize>,
    shut_down: bool,
}

/// The place of a lease in the list. While it has one, nodes that are away are tried the sooner for it.
#[derive(Debug)]
pub(super) struct HeldPlace {
    place: usize,
    _hurries: Hurries,
}

/// What has become of the leases that a shutdown has ended.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    ended: AtomicUsize,
    released: AtomicUsize,
    gone: AtomicUsize,
}

impl HeldLeases {
    /// Adds a lease, unless the process is shutting down. It may be called under the lock of the lease.
    pub(super) fn add(&self, grant: &Arc<Grant>, hurries: Hurries) -> Option<HeldPlace> {
        let mut list = self.list();
        if list.shut_down {
            return None;
        }
        let entry = Some(Arc::downgrade(grant));
        let free = list.free.pop();
        match free.and_then(|place| Some((place, list.grants.get_mut(place)?))) {
            Some((place, empty)) => {
                *empty = entry;
                Some(HeldPlace { place, _hurries: hurries })
            }
            None => {
                list.grants.push(entry);
                let place = list.grants.len().saturating_sub(1);
                Some(HeldPlace { place, _hurries: hurries })
            }
        }
    }

    pub(super) fn remove(&self, HeldPlace { place, _hurries }: HeldPlace) {
        let mut list = self.list();
        if let Some(entry) = list.grants.get_mut(place) {
            *entry = None;
            list.free.push(place);
        }
        if list.free.len() == list.grants.len() && list.grants.len() > MANY {
            (list.grants, list.free) = (Vec::new(), Vec::new());
        }
    }

    fn count(&self) -> usize {
        let list = self.list();
        list.grants.len().saturating_sub(list.free.len())
    }

    fn all(&self) -> Vec<Arc<Grant>> {
        self.list().grants.iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// From now on none is added.
    fn shut_down(&self) {
        self.list().shut_down = true;
    }

    /// For a lease that a shutdown ends: where to say how its release went.
    pub(super) fn end_one(&self) -> Arc<Outcomes> {
        self.outcomes.ended.fetch_add(1, Ordering::AcqRel);
        Arc::clone(&self.outcomes)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock()
    }
}

impl Outcomes {
    pub(super) fn note(&self, result: &Result<(), ReleaseError>) {
        let count = match result {
            Ok(()) => &self.released,
            Err(ReleaseError::AlreadyEnded { .. }) => &self.gone,
            Err(_) => return,
        };
        count.fetch_add(1, Ordering::AcqRel);
    }

    /// One had been lost before, and its keys are left for its lock-delay.
    pub(super) fn note_left(&self) {
        self.gone.fetch_add(1, Ordering::AcqRel);
    }
}

impl Engine {
    /// A node votes again that was away: what is held is renewed soon, and has its keys there again.
    pub(super) fn handle_node_back(self: &Arc<Self>) {
        for grant in self.held.all() {
            // It asks the runtime, which is code of the user's and may panic.
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
        // One that is lost is not held, though nobody has dropped it yet.
        let held = || self.held.all().iter().filter(|grant| grant.left().is_ok()).count();
        match self.under_way() {
            0 => Ok(Closed { held: if self.is_served() { held() } else { 0 } }),
            unfinished => Err(CloseError::Unfinished { unfinished }),
        }
    }

    /// The same, and ends all leases that are held.
    pub(crate) async fn shutdown(self: &Arc<Self>) -> Result<Shutdown, ShutdownError> {
        self.refuse_acquires();
        if self.is_served() {
            self.held.shut_down();
            let all = self.held.all();
            telemetry::shutting_down(all.len());
            all.iter().for_each(|grant| grant.shut_down(self));
        }
        self.all_ended(|| self.under_way() == 0 && self.held.count() == 0).await;
        self.withdraw().await;
        self.result_of_shutdown()
    }

    pub(crate) fn result_of_shutdown(&self) -> Result<Shutdown, ShutdownError> {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Acquire);
        let Outcomes { ended, released, gone } = &*self.held.outcomes;
        // What ended is read last, so that it is not less than the others.
        let (released, gone) = (count(released), count(gone));
        let working = if self.is_served() { self.held.count() } else { 0 };
        let unconfirmed = count(ended).saturating_sub(released.saturating_add(gone));
        let unfinished = self.under_way();
        if unconfirmed == 0 {
            return Ok(Shutdown { released, gone, unfinished });
        }
        let unconfirmed = unconfirmed.saturating_sub(working);
        Err(ShutdownError::Unfinished { released, gone, unconfirmed, working })
    }

    fn under_way(&self) -> usize {
        self.active.tasks.load(Ordering::Acquire)
    }

    fn refuse_acquires(&self) {
        self.closed.store(true, Ordering::Release);
        if self.is_served() {
            // Only the line of the acquires: releases still go out, and those in line count as under way.
            self.closing.notify_waiters();
            self.close_line(Line::Acquires);
            self.close_lines();
        }
    }

    /// Waits until something is so, which is looked at whenever everything under way has ended; or until the time for
    /// closing is up.
    async fn all_ended(&self, wanted: impl Fn() -> bool) {
        // Otherwise nothing would end, nor could the lock of the list be had.
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

//! The queues of a client, and which of them have a resource in common.
//!
//! It decides which queues of this process block each other. A queue exists while it has users. Each reader has its
//! own: readers do not wait for each other.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{iter, mem, time::Duration};

use super::{Asks, Client, Event, Fails, GrantId, QueueId, Waiting, all_gone};
use crate::{
    handover::keeps_back, node_set::NodeSet, queue::Station, resource::Resource, slots::Slots,
    target::Target, time::Timestamp,
};

/// How queues are found.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct ByName {
    /// All queues but readers'.
    queues: BTreeMap<Target, QueueId>,
    /// Empty unless a queue is for a set, a semaphore or reading.
    beside: BTreeMap<Resource, Beside>,
}

/// The queues that use a resource in another way than alone.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Beside {
    /// Queues of sets, by each of their resources, and of semaphores, by their lines.
    several: BTreeSet<QueueId>,
    readers: BTreeSet<QueueId>,
    /// Readers that took a place in the nodes' lines, and have not been told since that it is gone.
    placed: BTreeSet<QueueId>,
}

/// Which queues with a resource in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Which {
    Readers,
    Others,
    All,
}

/// The resources under which a target is found in `beside`.
fn found_by(target: &Target) -> &[Resource] {
    if target.is_any() {
        // The nodes tell nothing of its slots, only of its line.
        return target.lines();
    }
    if target.is_set() || target.is_shared() { target.resources() } else { &[] }
}

impl ByName {
    /// Whether every queue is for one resource alone, so that none blocks another.
    pub(super) fn is_plain(&self) -> bool {
        self.beside.is_empty()
    }

    fn add(&mut self, target: &Target, id: QueueId) {
        if !target.is_shared() {
            self.queues.insert(target.clone(), id);
        }
        for resource in found_by(target) {
            let beside = self.beside.entry(resource.clone()).or_default();
            let of_kind =
                if target.is_shared() { &mut beside.readers } else { &mut beside.several };
            of_kind.insert(id);
        }
    }

    fn remove(&mut self, target: &Target, id: QueueId) {
        if !target.is_shared() {
            self.queues.remove(target);
        }
        for resource in found_by(target) {
            let Some(beside) = self.beside.get_mut(resource) else { continue };
            for of_kind in [&mut beside.several, &mut beside.readers, &mut beside.placed] {
                of_kind.remove(&id);
            }
            if beside.several.is_empty() && beside.readers.is_empty() {
                self.beside.remove(resource);
            }
        }
    }

    /// All queues that cover a resource: nearly always at most one.
    pub(super) fn told_of(&self, resource: &Resource) -> impl Iterator<Item = QueueId> + use<> {
        let one = self.queues.get(&Target::One(resource.clone())).copied();
        let beside = self.beside.get(resource);
        let more = beside.map(|beside| beside.several.iter().chain(&beside.readers).copied());
        one.into_iter().chain(more.map(Vec::from_iter).unwrap_or_default())
    }

    /// The queues that cover a resource.
    pub(super) fn covering(
        &self,
        resource: &Resource,
        which: Which,
    ) -> impl Iterator<Item = QueueId> {
        let others = which != Which::Readers;
        let one = if others { self.queues.get(&Target::One(resource.clone())) } else { None };
        let beside = self.beside.get(resource);
        let several = beside.filter(|_| others).into_iter();
        let readers = beside.filter(|_| which != Which::Others).into_iter();
        let several = several.flat_map(|beside| &beside.several);
        one.into_iter().chain(several).chain(readers.flat_map(|beside| &beside.readers)).copied()
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Adds a user to a target's queue, until [`close_queue`](Self::close_queue) is called as often.
    pub fn open_queue(&mut self, target: &Target) -> QueueId {
        if !target.is_shared()
            && let Some(id) = self.by_name.queues.get(target).copied()
            && let Some(waiting) = self.queues.get_mut(id.0)
        {
            waiting.users = waiting.users.saturating_add(1);
            return id;
        }
        let id = QueueId(self.queues.insert(Box::new(Waiting::new(target.clone()))));
        self.by_name.add(target, id);
        id
    }

    /// Removes a user that called [`open_queue`](Self::open_queue). The last one removes the queue, and its waiters are
    /// returned.
    pub fn close_queue(&mut self, id: QueueId) -> Vec<W> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Vec::new() };
        waiting.users = waiting.users.saturating_sub(1);
        if waiting.users > 0 {
            return Vec::new();
        }
        self.leave_place(id);
        let Some(mut waiting) = self.queues.remove(id.0) else { return Vec::new() };
        self.by_name.remove(&waiting.target, id);
        self.waiting_sets =
            self.waiting_sets.saturating_sub(usize::from(waiting.contended.waits_since.is_some()));
        all_gone(&mut self.timers, id, waiting.queue.take_all())
    }

    /// Adds a user.
    pub(super) fn hold_queue(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.users = waiting.users.saturating_add(1);
        }
    }

    /// Removes a user. A waiter would be a user itself, so that none is left.
    pub(super) fn let_go_of_queue(&mut self, id: QueueId) {
        let left = self.close_queue(id);
        self.events.extend(left.into_iter().map(Event::Gone));
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.queues.iter().count()
    }

    /// All other queues that have a resource in common with this one's target.
    pub(super) fn overlapping(&self, id: QueueId, which: Which) -> Vec<QueueId> {
        if self.by_name.beside.is_empty() {
            return Vec::new();
        }
        let Some(waiting) = self.queues.get(id.0).filter(|it| !it.target.is_any()) else {
            return Vec::new();
        };
        let covering = |one| self.by_name.covering(one, which);
        let mut all: Vec<_> = waiting.target.resources().iter().flat_map(covering).collect();
        if waiting.target.is_set() {
            all.sort_unstable();
            all.dedup();
        }
        all.retain(|other| *other != id);
        all
    }

    /// The queues that block this one or are blocked by it: those with a resource in common, except readers for a
    /// reader. A slot of a semaphore and its name as a lock of its own block each other too.
    fn in_the_way(&self, id: QueueId, which: Which) -> Vec<QueueId> {
        let Some(target) = self.target(id).filter(|_| !self.by_name.is_plain()) else {
            return Vec::new();
        };
        let which = if target.is_shared() { Which::Others } else { which };
        let resources = target.resources();
        let lines: Vec<Resource> = if target.is_any() {
            // Also of semaphores with another number of permits.
            target.lines().to_vec()
        } else {
            resources.iter().filter_map(Slots::line_of).collect()
        };
        let covering = |one| self.by_name.covering(one, which);
        let mut all: Vec<_> = lines.iter().chain(resources).flat_map(covering).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|other| *other != id);
        all
    }

    /// This queue, and all that may block it here.
    pub fn in_the_way_of(&self, id: QueueId) -> Vec<QueueId> {
        iter::once(id).chain(self.in_the_way(id, Which::All)).collect()
    }

    /// The target of a queue.
    pub fn target(&self, id: QueueId) -> Option<&Target> {
        self.queues.get(id.0).map(|waiting| &waiting.target)
    }

    /// Whether another request here asks the nodes for something that overlaps. The nodes' lines see both as one client
    /// and keep no order between them.
    pub fn is_wanted_beside(&self, id: QueueId) -> bool {
        // A reader gives nobody a moment: no other request of this process asks under its place.
        let is_shared = self.target(id).is_some_and(Target::is_shared);
        !is_shared && self.overlaps(id, |other| self.is_led(other))
    }

    /// Whether another queue that satisfies `is` has a resource in common with this one, or asks for permits that this
    /// one is a slot of. Always false for permits, which are not handed on.
    pub(super) fn overlaps(&self, id: QueueId, is: impl Fn(QueueId) -> bool) -> bool {
        let target = self.target(id).filter(|it| !self.by_name.is_plain() && !it.is_any());
        let resources = target.map(Target::resources).unwrap_or_default();
        let covers = |one: &Resource| {
            self.by_name.covering(one, Which::All).any(|other| other != id && is(other))
        };
        resources.iter().any(covers)
            || resources.iter().filter_map(Slots::line_of).any(|it| covers(&it))
    }

    /// Whether a queue has a leader.
    pub fn is_led(&self, id: QueueId) -> bool {
        let waiting = self.queues.get(id.0);
        waiting.is_some_and(|waiting| matches!(waiting.queue.station(), Station::Asked(_)))
    }

    /// How long a new request still leaves this to a set of this process that overlaps it and has waited long (H6).
    pub(super) fn kept_back_for(&self, id: QueueId, now: Timestamp) -> Option<Duration> {
        // The nodes' lines keep readers out.
        if self.waiting_sets == 0 || self.target(id).is_some_and(Target::is_shared) {
            return None;
        }
        let left = |other: QueueId| {
            let since = self.queues.get(other.0)?.contended.waits_since?;
            keeps_back(now.saturating_since(since), self.turn)
        };
        self.in_the_way(id, Which::Others).into_iter().filter_map(left).max()
    }

    /// Takes the kept grants of overlapping targets, which would block it: the nodes report no requests of the own
    /// client.
    pub fn take_kept_beside(&mut self, id: QueueId) -> Vec<GrantId> {
        // Readers keep nothing.
        let beside = self.in_the_way(id, Which::Others);
        beside.into_iter().filter_map(|other| self.take_kept(other)).collect()
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// A set's leader lost a round to others' keys; it has waited since `since`.
    pub(super) fn handle_set_waits(&mut self, id: QueueId, since: Timestamp) {
        if let Some(waiting) = self.queues.get_mut(id.0).filter(|it| it.target.is_set())
            && waiting.contended.waits_since.replace(since).is_none()
        {
            self.waiting_sets = self.waiting_sets.saturating_add(1);
        }
    }

    /// A set begins to be asked for, is held, or is no longer wanted: kept-back requests go on.
    pub(super) fn handle_set_served(&mut self, id: QueueId) {
        let waiting = self.queues.get_mut(id.0);
        let contended = waiting.and_then(|waiting| waiting.contended.written());
        if contended.and_then(|contended| contended.waits_since.take()).is_some() {
            self.waiting_sets = self.waiting_sets.saturating_sub(1);
            let kept_back = mem::take(&mut self.kept_back);
            self.events.extend(kept_back.into_iter().map(Event::GoOn));
        }
    }

    /// A target's key was released here: pausing requests here that it kept out ask at once. In the nodes' lines they
    /// have the same client name, and a grant has removed that.
    pub fn handle_released(&mut self, id: QueueId) {
        if self.target(id).is_some_and(Target::is_any) {
            // A request that still pauses has asked since then, too early.
            while self.wake_pausing(id) {}
            return;
        }
        self.handle_freed(id);
        self.in_the_way(id, Which::All).into_iter().for_each(|other| self.handle_freed(other));
    }

    /// A permit is given back, and the nodes learn that before any later request: one pausing request asks at once. Any
    /// other grant frees its own queue.
    pub fn handle_permit_given_back(&mut self, id: QueueId) {
        if self.target(id).is_some_and(Target::is_any) {
            self.handle_freed(id);
        }
    }

    /// It is now shared with readers: readers that pause here ask at once.
    pub fn handle_shared(&mut self, id: QueueId) {
        let readers = self.overlapping(id, Which::Readers);
        readers.into_iter().for_each(|reader| self.handle_freed(reader));
    }

    /// A quorum no longer has the key: one pausing request asks at once.
    pub(super) fn handle_freed(&mut self, id: QueueId) {
        let is_told = self.wake_pausing(id);
        if let Some(waiting) = self.queues.get_mut(id.0) {
            // Counted anew, because the next holder's key is another. If none pauses yet, the next pause is skipped.
            if let Some(contended) = waiting.contended.written() {
                contended.gone_from = NodeSet::NONE;
            }
            waiting.freed |= !is_told;
        }
    }

    /// The readers that took a place in the lines since the last call.
    pub(super) fn take_placed(&mut self, resource: &Resource) -> BTreeSet<QueueId> {
        let beside = self.by_name.beside.get_mut(resource);
        beside.map(|beside| mem::take(&mut beside.placed)).unwrap_or_default()
    }

    /// A reader has a place of its own in the nodes' lines, by the round that begins or was lost.
    pub(super) fn handle_placed(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get(id.0).filter(|it| it.target.is_shared())
            && let Some(beside) = self.by_name.beside.get_mut(waiting.target.resource())
        {
            beside.placed.insert(id);
        }
    }
}

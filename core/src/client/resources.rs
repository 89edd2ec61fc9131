//! Which queues there are, and which of them have a resource in common.
//!
//! It decides who is in whose way in this process. A queue is there for as long as anybody has to do with it. Readers have one
//! each: they do not wait for each other.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{iter, mem, time::Duration};

use super::{Asks, Client, Event, Fails, GrantId, NodeSet, QueueId, Waiting, all_gone};
use crate::{
    handover::keeps_back, queue::Station, resource::Resource, slots::Slots, target::Target,
    time::Timestamp,
};

/// Where queues are found.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct ByName {
    /// All but readers.
    queues: BTreeMap<Target, QueueId>,
    /// Where none is asked for together with others, there are none.
    beside: BTreeMap<Resource, Beside>,
}

/// Who has to do with a resource other than by itself.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Beside {
    /// Queues for several resources, by each of these; and those of semaphores, by their lines.
    several: BTreeSet<QueueId>,
    readers: BTreeSet<QueueId>,
    /// Those of them that have taken a place in the lines on the nodes, and have not been told since that it is gone.
    placed: BTreeSet<QueueId>,
}

/// Which of those who have a resource in common with a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Which {
    Readers,
    Others,
    All,
}

/// By which resources one is found beside others.
fn found_by(target: &Target) -> &[Resource] {
    if target.is_any() {
        // Of its slots nothing is told, but of its line.
        return target.lines();
    }
    if target.is_set() || target.is_shared() { target.resources() } else { &[] }
}

impl ByName {
    /// Whether each is wanted by itself, so that nobody is in the way of anybody else.
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

    /// All that cover a resource. Nearly always that is one at most.
    pub(super) fn told_of(&self, resource: &Resource) -> impl Iterator<Item = QueueId> + use<> {
        let one = self.queues.get(&Target::One(resource.clone())).copied();
        let beside = self.beside.get(resource);
        let more = beside.map(|beside| beside.several.iter().chain(&beside.readers).copied());
        one.into_iter().chain(more.map(Vec::from_iter).unwrap_or_default())
    }

    /// Those that cover a resource.
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
    /// Somebody has to do with a target, until [`close_queue`](Self::close_queue) is called as often.
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

    /// Who called [`open_queue`](Self::open_queue) has to do with it no more. Behind the last one it is gone, and whoever
    /// stood there is returned.
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

    /// One more has to do with it.
    pub(super) fn hold_queue(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.users = waiting.users.saturating_add(1);
        }
    }

    /// One less has. Whoever stands there would have to do with it: there is nobody.
    pub(super) fn let_go_of_queue(&mut self, id: QueueId) {
        let left = self.close_queue(id);
        self.events.extend(left.into_iter().map(Event::Gone));
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.queues.iter().count()
    }

    /// Those of all others that have a resource in common with the target of a queue.
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

    /// Whom it keeps out, or is kept out by: those who have a resource in common with it, but that a reader lets others read;
    /// and a slot of a semaphore those who want its name by itself, and the other way round.
    fn in_the_way(&self, id: QueueId, which: Which) -> Vec<QueueId> {
        let Some(target) = self.target(id).filter(|_| !self.by_name.is_plain()) else {
            return Vec::new();
        };
        let which = if target.is_shared() { Which::Others } else { which };
        let resources = target.resources();
        let lines: Vec<Resource> = if target.is_any() {
            // Of another number of permits too.
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

    /// This queue, and whatever is wanted or held here that may keep it out.
    pub fn in_the_way_of(&self, id: QueueId) -> Vec<QueueId> {
        iter::once(id).chain(self.in_the_way(id, Which::All)).collect()
    }

    /// For what a queue is.
    pub fn target(&self, id: QueueId) -> Option<&Target> {
        self.queues.get(id.0).map(|waiting| &waiting.target)
    }

    /// Whether somebody here asks the nodes for something else that it has a resource in common with. In the lines on the
    /// nodes that is the same client, so that they do not keep the order between the two.
    pub fn is_wanted_beside(&self, id: QueueId) -> bool {
        // A reader leaves nobody a moment: nobody else of this process asks under its place.
        let is_shared = self.target(id).is_some_and(Target::is_shared);
        !is_shared && self.overlaps(id, |other| self.is_led(other))
    }

    /// Whether there is another queue of this kind that has a resource in common with this one, or asks for permits that this
    /// one is a slot of. Of permits nothing is said: they are handed on to nobody.
    pub(super) fn overlaps(&self, id: QueueId, is: impl Fn(QueueId) -> bool) -> bool {
        let target = self.target(id).filter(|it| !self.by_name.is_plain() && !it.is_any());
        let resources = target.map(Target::resources).unwrap_or_default();
        let covers = |one: &Resource| {
            self.by_name.covering(one, Which::All).any(|other| other != id && is(other))
        };
        resources.iter().any(covers)
            || resources.iter().filter_map(Slots::line_of).any(|it| covers(&it))
    }

    /// Whether somebody asks the nodes for all who wait in a queue.
    pub fn is_led(&self, id: QueueId) -> bool {
        let waiting = self.queues.get(id.0);
        waiting.is_some_and(|waiting| matches!(waiting.queue.station(), Station::Asked(_)))
    }

    /// For how long yet one who comes anew leaves it to one here who wants several resources, this one among them, and has
    /// waited for long (H6).
    pub(super) fn kept_back_for(&self, id: QueueId, now: Timestamp) -> Option<Duration> {
        // Readers are kept out by the line on the nodes.
        if self.waiting_sets == 0 || self.target(id).is_some_and(Target::is_shared) {
            return None;
        }
        let left = |other: QueueId| {
            let since = self.queues.get(other.0)?.contended.waits_since?;
            keeps_back(now.saturating_since(since), self.turn)
        };
        self.in_the_way(id, Which::Others).into_iter().filter_map(left).max()
    }

    /// What is kept as nobody's of something else, and would be in its way: the nodes tell nobody of one who comes from here.
    pub fn take_kept_beside(&mut self, id: QueueId) -> Vec<GrantId> {
        // Readers keep nothing.
        let beside = self.in_the_way(id, Which::Others);
        beside.into_iter().filter_map(|other| self.take_kept(other)).collect()
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Who asks for several resources has lost a round by others' keys, and waits since then.
    pub(super) fn handle_set_waits(&mut self, id: QueueId, since: Timestamp) {
        if let Some(waiting) = self.queues.get_mut(id.0).filter(|it| it.target.is_set())
            && waiting.contended.waits_since.replace(since).is_none()
        {
            self.waiting_sets = self.waiting_sets.saturating_add(1);
        }
    }

    /// Somebody begins to ask for it, or has it, or does not want it any more: those who are kept back for it go on.
    pub(super) fn handle_set_served(&mut self, id: QueueId) {
        let waiting = self.queues.get_mut(id.0);
        let contended = waiting.and_then(|waiting| waiting.contended.written());
        if contended.and_then(|contended| contended.waits_since.take()).is_some() {
            self.waiting_sets = self.waiting_sets.saturating_sub(1);
            let kept_back = mem::take(&mut self.kept_back);
            self.events.extend(kept_back.into_iter().map(Event::GoOn));
        }
    }

    /// The key of a target has been released here: one who waits here for something that it keeps out asks at once. On the
    /// nodes they stand in its lines under the same name, and a grant has taken that out.
    pub fn handle_released(&mut self, id: QueueId) {
        if self.target(id).is_some_and(Target::is_any) {
            // Whoever pauses all the same has asked since then, too early.
            while self.wake_pausing(id) {}
            return;
        }
        self.handle_freed(id);
        self.in_the_way(id, Which::All).into_iter().for_each(|other| self.handle_freed(other));
    }

    /// A permit is given back, of which the nodes are told before whoever asks from now on: one of those who pause asks at
    /// once. Anything else makes room in its queue.
    pub fn handle_permit_given_back(&mut self, id: QueueId) {
        if self.target(id).is_some_and(Target::is_any) {
            self.handle_freed(id);
        }
    }

    /// It is shared with readers from now on: those who pause here until they may read ask at once.
    pub fn handle_shared(&mut self, id: QueueId) {
        let readers = self.overlapping(id, Which::Readers);
        readers.into_iter().for_each(|reader| self.handle_freed(reader));
    }

    /// The key is gone from a quorum: one of those who pause need not pause any longer.
    pub(super) fn handle_freed(&mut self, id: QueueId) {
        let is_told = self.wake_pausing(id);
        if let Some(waiting) = self.queues.get_mut(id.0) {
            // Counted anew from here: the next holder's key is another one. Where nobody pauses yet, the next one does not.
            if let Some(contended) = waiting.contended.written() {
                contended.gone_from = NodeSet::NONE;
            }
            waiting.freed |= !is_told;
        }
    }

    /// Readers that have taken a place in the lines since this was asked last.
    pub(super) fn take_placed(&mut self, resource: &Resource) -> BTreeSet<QueueId> {
        let beside = self.by_name.beside.get_mut(resource);
        beside.map(|beside| mem::take(&mut beside.placed)).unwrap_or_default()
    }

    /// It stands in the lines on the nodes with a place of its own, from the round on that begins, or that was lost.
    pub(super) fn handle_placed(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get(id.0).filter(|it| it.target.is_shared())
            && let Some(beside) = self.by_name.beside.get_mut(waiting.target.resource())
        {
            beside.placed.insert(id);
        }
    }
}

//! The resources that are wanted or held in this process: one object for each, for as long as anybody has to do with it.
//!
//! It tells one of those who pause between rounds for a resource that its key is gone. That is a hint: it ends a pause
//! early, and no vote and no deadline rests on it.

mod by_name;

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

pub(super) use self::by_name::Which;
use self::by_name::{ByName, line_of_slot};
use super::{Engine, Line, Unsent, UnsentHere, stand::OnNodes};
use crate::{
    error::NodeOutcome,
    lock::Lock,
    protocol::{
        ClientId, LineHint, NodeId, OthersWait, Patience, Quorum, Resource, Slots, Target, Ticket,
    },
    runtime::Runtime,
};

/// So many releases are sent at once for one who asks: all permits of a semaphore.
const MOST_AT_ONCE: usize = Slots::MOST;

/// All of them, by name.
#[derive(Debug)]
pub(super) struct Resources {
    quorum: Quorum,
    client: ClientId,
    runtime: Arc<dyn Runtime>,
    /// Whom this process has passed over in the lines on the nodes.
    patience: Arc<Lock<Patience>>,
    /// Carries out what is left to be done for a resource that nobody has to do with any more.
    engine: OnceLock<Weak<Engine>>,
    by_name: Lock<ByName>,
    /// Whether several resources were ever asked for at once: without that nothing is looked up that only sets need.
    knows_sets: AtomicBool,
    /// How many releases have not been sent.
    unsent: AtomicUsize,
}

/// One target that is wanted or held here.
pub(super) struct ResourceSlot {
    target: Target,
    home: Arc<Resources>,
    /// The nodes that have said that the key is gone, since that was a quorum last.
    gone_from: Lock<Vec<NodeId>>,
    freed: Notify,
    /// Somebody here asks the nodes for it.
    asks: AtomicBool,
    /// Who waits for it here.
    pub(super) line: Lock<Line>,
    /// The place of this process in the lines on the nodes.
    on_nodes: OnNodes,
    /// What has been given back of it and has not been sent.
    unsent: UnsentHere,
}

impl Resources {
    pub(super) fn new(quorum: Quorum, client: ClientId, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let (patience, engine, by_name) = (Arc::default(), OnceLock::new(), Lock::default());
        let (knows_sets, unsent) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Self { quorum, client, runtime, patience, engine, by_name, knows_sets, unsent })
    }

    /// Says whose they are, once.
    pub(super) fn belong_to(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// The object of a resource, which is made where there is none. Each reader has one: they do not wait for each other.
    pub(super) fn slot(self: &Arc<Self>, target: &Target) -> Arc<ResourceSlot> {
        let mut by_name = self.by_name.lock();
        if let Some(slot) = by_name.get(target) {
            return slot;
        }
        let slot = Arc::new(ResourceSlot {
            target: target.clone(),
            home: Arc::clone(self),
            gone_from: Lock::default(),
            freed: Notify::new(),
            asks: AtomicBool::new(false),
            line: Lock::default(),
            on_nodes: OnNodes::new(
                self.client,
                self.quorum,
                Arc::clone(&self.patience),
                Arc::clone(&self.runtime),
            ),
            unsent: UnsentHere::default(),
        });
        by_name.add(&slot);
        if target.is_set() || target.is_shared() {
            self.knows_sets.store(true, Ordering::Relaxed);
        }
        slot
    }

    /// All that cover a resource.
    fn covering(&self, resource: &Resource) -> Vec<Weak<ResourceSlot>> {
        self.by_name.lock().covering(resource, Which::All).cloned().collect()
    }

    /// Those of all others that have a resource in common with this target; of one that is shared, itself too.
    pub(super) fn overlapping(&self, target: &Target, which: Which) -> Vec<Arc<ResourceSlot>> {
        if !self.knows_sets.load(Ordering::Relaxed) || target.is_any() {
            return Vec::new();
        }
        let by_name = self.by_name.lock();
        let covering = |one| by_name.covering(one, which).cloned();
        let mut all: Vec<_> = target.resources().iter().flat_map(covering).collect();
        if target.is_set() {
            all.sort_unstable_by_key(Weak::as_ptr);
            all.dedup_by_key(|slot| slot.as_ptr());
        }
        // Upgraded without the lock: the last one to have it takes the lock when it drops it.
        drop(by_name);
        let all = all.iter().filter_map(Weak::upgrade);
        all.filter(|other| other.target.is_shared() || other.target != *target).collect()
    }

    /// On the nodes a process has one place in the line of a resource, whatever it wants it for, and one for all who want to
    /// read it. It has been given up or served for this target, so that those take it again who want something else that has
    /// a resource in common with it. Of readers, who are many, each is told once: whoever has not asked since then will.
    pub(super) fn handle_place_gone(&self, target: &Target) {
        let others = if target.is_shared() {
            let placed = self.by_name.lock().take_placed(target.resource());
            placed.iter().filter_map(Weak::upgrade).collect()
        } else {
            self.overlapping(target, Which::Others)
        };
        for other in others {
            other.on_nodes.handle_place_lost();
        }
    }

    /// All that are wanted or held here.
    pub(super) fn all(&self) -> Vec<Arc<ResourceSlot>> {
        let all = self.by_name.lock().all();
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// The same for what may be called in a process that was forked since: none there where somebody has the lock.
    pub(super) fn all_if(&self, is_here: impl FnOnce() -> bool) -> Vec<Arc<ResourceSlot>> {
        let all = self.by_name.lock_if(is_here).map(|by_name| by_name.all());
        all.iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// A node says that the key of a resource is gone there.
    pub(super) fn handle_gone(&self, node: NodeId, name: &Resource) {
        // Upgraded without the lock: the last one to have it takes the lock when it drops it.
        for slot in self.covering(name).iter().filter_map(Weak::upgrade) {
            slot.handle_gone(node);
        }
    }
}

impl Resources {
    /// The connection to a node is there again, or is lost.
    pub(super) fn handle_connection(&self, node: NodeId) {
        for slot in self.all() {
            slot.on_nodes.handle_connection(node);
        }
    }

    /// A node votes that did not before, and may have forgotten who stands in its lines.
    pub(super) fn handle_ready(&self, node: NodeId) {
        for slot in self.all() {
            slot.on_nodes.handle_ready(node);
        }
    }

    /// Readers are kept out on a node for a place of this process. Where nobody waits for it any more, it is given up again.
    fn handle_kept_out(&self, node: NodeId, name: &Resource, ticket: Ticket) {
        let writers: Vec<_> = self.by_name.lock().covering(name, Which::Others).cloned().collect();
        let is_wanted = writers.iter().filter_map(Weak::upgrade).any(|slot| slot.on_nodes.waits());
        if !is_wanted && let Some(engine) = self.engine.get().and_then(Weak::upgrade) {
            // One that is taken meanwhile has another ticket.
            engine.leave_lines(&Target::One(name.clone()), self.client, ticket, vec![node]);
        }
    }

    /// A node tells of the line for a resource.
    pub(super) fn handle_hint(&self, node: NodeId, name: &Resource, hint: LineHint) {
        if let LineHint::KeepsOut { ticket } = hint {
            return self.handle_kept_out(node, name, ticket);
        }
        // As above.
        for slot in self.covering(name).iter().filter_map(Weak::upgrade) {
            slot.on_nodes.handle_hint(node, hint);
            // Somebody has come for what nobody here has. It is a hint, and nothing is lost where it was wrong.
            if hint == LineHint::Wanted
                && let Some(engine) = self.engine.get().and_then(Weak::upgrade)
            {
                engine.give_back_kept(&slot);
            }
        }
    }
}

fn is_slot(weak: &Weak<ResourceSlot>, slot: &ResourceSlot) -> bool {
    std::ptr::eq(weak.as_ptr(), slot)
}

impl ResourceSlot {
    /// Whether others than those who stand in this line wait for it, as far as is known: other processes, or those of this
    /// one who want, or have, something else that it has a resource in common with.
    pub(super) fn others_wait(&self) -> OthersWait {
        if self.is_shared() { OthersWait::Somebody } else { self.on_nodes.others_wait() }
    }

    /// Whether somebody here wants, or has, something else that it has a resource in common with.
    fn is_shared(&self) -> bool {
        if !self.home.knows_sets.load(Ordering::Relaxed) || self.target.is_any() {
            return false;
        }
        let by_name = self.home.by_name.lock();
        let is_another = |other: &Weak<Self>| other.strong_count() > 0 && !is_slot(other, self);
        self.target.resources().iter().any(|one| by_name.covering(one, Which::All).any(is_another))
    }

    /// Somebody here begins to ask the nodes for it, or has it, or does not want it any more.
    pub(super) fn set_asks(&self, asks: bool) {
        self.asks.store(asks, Ordering::Relaxed);
    }

    /// Whether somebody here asks the nodes for something else that it has a resource in common with. In the lines on the
    /// nodes that is the same client, so that they do not keep the order between the two.
    pub(super) fn is_wanted_beside(&self) -> bool {
        // A reader leaves nobody a moment: nobody else of this process asks under its place.
        if self.target.is_shared() {
            return false;
        }
        let others = self.home.overlapping(&self.target, Which::All);
        others.iter().any(|other| other.asks.load(Ordering::Relaxed))
    }

    /// It has been released: whoever waits here for something that it has a resource in common with asks at once. On the
    /// nodes they stand in its lines under the same name, and a grant has taken that out.
    pub(super) fn handle_released(&self) {
        if self.target.is_any() {
            // Whoever pauses all the same has asked since then, too early.
            self.freed.notify_waiters();
            return;
        }
        self.handle_freed();
        for other in self.home.overlapping(&self.target, self.in_the_way()) {
            other.handle_freed();
        }
    }

    /// A permit is given back, of which the nodes are told before whoever asks from now on: one of those who pause asks at
    /// once. Anything else makes room in its line.
    pub(super) fn handle_given_back(&self) {
        if self.target.is_any() {
            self.handle_freed();
        }
    }

    /// Whom it keeps out, of those who have a resource in common with it: a reader lets others read.
    const fn in_the_way(&self) -> Which {
        if self.target.is_shared() { Which::Others } else { Which::All }
    }

    /// Whether nodes have denied a round, which said who asks, for another place of this process in its lines, with which
    /// nobody here waits: one to read, where this one is for all else, and the other way round.
    pub(super) fn has_left_a_place(&self, outcomes: &[NodeOutcome]) -> bool {
        let own = Some(self.home.client);
        let is_own = |it: &NodeOutcome| matches!(it, NodeOutcome::Denied(it) if it.behind == own);
        if !outcomes.iter().any(is_own) {
            return false;
        }
        let which = if self.target.is_shared() { Which::Others } else { Which::Readers };
        let others = self.home.overlapping(&self.target, which);
        !others.iter().any(|other| other.asks.load(Ordering::Relaxed) && other.on_nodes.waits())
    }

    /// It stands in the lines on the nodes with a place of its own, from the round on that begins, or that was lost.
    pub(super) fn handle_placed(self: &Arc<Self>) {
        if self.target.is_shared() {
            self.home.by_name.lock().note_placed(self);
        }
    }

    /// A release of it waits to be sent.
    pub(super) fn count_unsent(&self) {
        self.home.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// It waits no longer.
    pub(super) fn discount_unsent(&self) {
        self.home.unsent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whoever asks here finds this one.
    pub(super) fn handle_unsent(&self, unsent: &Arc<Unsent>) {
        self.unsent.add(unsent);
    }

    /// What waits to be sent, and whoever asks for it would be denied without: of its own line, and of whatever it has a
    /// resource in common with, but for other readers where it is one. No more than so many, of thousands of readers: they
    /// would take the room of renewals.
    pub(super) fn unsent_in_the_way(&self) -> Vec<Arc<Unsent>> {
        // Nearly always there are none. What has been given back before this was asked for is counted by now.
        if self.home.unsent.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut all = self.unsent.take(MOST_AT_ONCE);
        for other in self.in_the_way_of_it() {
            let left = MOST_AT_ONCE.saturating_sub(all.len());
            if left == 0 {
                break;
            }
            all.append(&mut other.unsent.take(left));
        }
        all
    }

    /// Whatever is wanted or held here that may keep it out. A slot of a semaphore is in the way of whoever wants its name
    /// by itself, and the other way round.
    fn in_the_way_of_it(&self) -> Vec<Arc<Self>> {
        let resources = self.target.resources();
        let mut all: Vec<Weak<Self>> = Vec::new();
        if self.target.is_any() {
            // Of another number of permits too.
            let by_name = self.home.by_name.lock();
            let named = self.target.lines().iter().chain(resources);
            named.for_each(|name| all.extend(by_name.covering(name, Which::All).cloned()));
        } else {
            let lines = resources.iter().filter_map(line_of_slot);
            lines.for_each(|line| all.append(&mut self.home.covering(&line)));
        }
        // Upgraded without the lock, as in `overlapping`.
        let mut others: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
        if !self.target.is_any() {
            others.append(&mut self.home.overlapping(&self.target, self.in_the_way()));
        }
        others
    }

    /// It is shared with readers from now on: those who pause here until they may read ask at once.
    pub(super) fn handle_shared(&self) {
        for other in self.home.overlapping(&self.target, Which::Readers) {
            other.handle_freed();
        }
    }

    /// The place of this process in the lines on the nodes.
    pub(super) const fn on_nodes(&self) -> &OnNodes {
        &self.on_nodes
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// The key is gone from a quorum: one of those who pause need not pause any longer.
    pub(super) fn handle_freed(&self) {
        // Counted anew from here: the next holder's key is another one. One permit is kept where nobody waits yet.
        self.gone_from.lock().clear();
        self.freed.notify_one();
    }

    /// Ends when the key is gone from a quorum, for one of those who wait for that.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    fn handle_gone(&self, node: NodeId) {
        let is_quorum = {
            let mut gone_from = self.gone_from.lock();
            if !gone_from.contains(&node) {
                gone_from.push(node);
            }
            gone_from.len() >= self.home.quorum.needed()
        };
        if is_quorum {
            self.handle_freed();
        }
    }
}

impl Drop for ResourceSlot {
    fn drop(&mut self) {
        // A process that was forked drops its copies too, and in its parent another thread may have had the lock. Where
        // one of this process has it, what is left in the map is looked for later.
        if let Some(mut by_name) = self.home.by_name.try_lock() {
            by_name.forget(self);
        }
        if let Some((client, ticket)) = self.on_nodes.leave()
            && let Some(engine) = self.home.engine.get().and_then(Weak::upgrade)
            && engine.is_served()
        {
            engine.leave_line(&self.target, client, ticket);
        }
    }
}

impl fmt::Debug for ResourceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSlot").field("target", &self.target).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{by_name::FEW, *};
    use crate::protocol::ResourceSet;

    fn resources() -> Arc<Resources> {
        let clock = Arc::new(crate::runtime::ByHand::default());
        Resources::new(Quorum::of(3), ClientId::new([1; 8]), clock)
    }

    fn name() -> Resource {
        Resource::new("r").unwrap()
    }

    #[test]
    fn there_is_one_object_for_as_long_as_somebody_has_it() {
        let resources = resources();
        let (one, two) = (resources.slot(&name().into()), resources.slot(&name().into()));
        assert!(Arc::ptr_eq(&one, &two));
        drop(one);
        assert_eq!(resources.by_name.lock().len(), 1);
        drop(two);
        assert_eq!(resources.by_name.lock().len(), 0);
    }

    /// In a process that was forked it may never be free.
    #[test]
    fn to_give_one_up_waits_for_no_lock_and_what_stays_is_forgotten_later() {
        let resources = resources();
        let name = |number: usize| Resource::new(number.to_string()).unwrap();
        let slots: Vec<_> = (0..FEW).map(|number| resources.slot(&name(number).into())).collect();
        let locked = resources.by_name.lock();
        drop(slots);
        assert_eq!(locked.len(), FEW);
        drop(locked);
        let _held = resources.slot(&name(FEW).into());
        assert_eq!(resources.by_name.lock().len(), 1);
    }

    /// Each has an object of its own, and each that comes or goes is dealt with by itself.
    #[test]
    fn readers_and_sets_are_found_by_each_resource_for_as_long_as_somebody_has_them() {
        let resources = resources();
        let other = Resource::new("other").unwrap();
        let set = ResourceSet::new([name(), other.clone()]).unwrap();
        let set = resources.slot(&Target::Set(set));
        let reader = || resources.slot(&Target::Shared(name()));
        let (one, two) = (reader(), reader());
        let plain = resources.slot(&name().into());
        let found = |target: &Target, which| resources.overlapping(target, which).len();
        let reading = one.target().clone();
        for (which, by_reader, by_plain) in
            [(Which::Readers, 2, 2), (Which::Others, 2, 1), (Which::All, 4, 3)]
        {
            assert_eq!(found(&reading, which), by_reader, "{which:?}");
            assert_eq!(found(&name().into(), which), by_plain, "{which:?}");
        }
        assert_eq!(found(set.target(), Which::All), 3);
        assert_eq!(found(&other.into(), Which::All), 1);
        assert_eq!(resources.all().len(), 4);
        drop(one);
        assert_eq!(found(&reading, Which::Readers), 1);
        // In a process that was forked the lock may never be free.
        let locked = resources.by_name.lock();
        drop((two, plain, set));
        assert_eq!(locked.besides(), 2);
        drop(locked);
        assert_eq!(found(&reading, Which::All), 0);
        drop((0..FEW).map(|_| reader()).collect::<Vec<_>>());
        let name = |number: usize| Resource::new(number.to_string()).unwrap();
        drop((0..FEW).map(|number| resources.slot(&name(number).into())).collect::<Vec<_>>());
        assert_eq!(resources.by_name.lock().besides(), 0);
    }

    #[test]
    fn a_reader_hears_that_its_place_is_gone_once_until_it_has_taken_it_again() {
        let resources = resources();
        let readers = [(); 3].map(|()| resources.slot(&Target::Shared(name())));
        let told = || resources.by_name.lock().take_placed(&name()).len();
        assert_eq!(told(), 0, "they have not asked");
        readers.iter().chain(&readers).for_each(ResourceSlot::handle_placed);
        assert_eq!((told(), told()), (3, 0));
        readers[1].handle_placed();
        readers[2].handle_placed();
        let [_one, two, _three] = readers;
        drop(two);
        assert_eq!((told(), told()), (1, 0));
        resources.slot(&name().into()).handle_placed();
        assert_eq!(told(), 0, "that is no reader");
    }

    #[test]
    fn one_who_waits_is_told_when_a_quorum_of_nodes_has_lost_the_key() {
        let resources = resources();
        let slot = resources.slot(&name().into());
        let told = || slot.freed().now_or_never().is_some();
        resources.handle_gone(NodeId::new(0), &name());
        resources.handle_gone(NodeId::new(0), &name());
        assert!(!told(), "one node twice is no quorum");
        resources.handle_gone(NodeId::new(2), &name());
        assert!(told());
        assert!(!told(), "only one of them is told");
        resources.handle_gone(NodeId::new(1), &name());
        assert!(!told(), "it is counted anew");
        slot.handle_freed();
        assert!(told());
        resources.handle_gone(NodeId::new(1), &Resource::new("another").unwrap());
    }
}

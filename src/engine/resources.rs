//! The resources that are wanted or held in this process: one object for each, for as long as anybody has to do with it.
//!
//! It tells one of those who pause between rounds for a resource that its key is gone. That is a hint: it ends a pause
//! early, and no vote and no deadline rests on it.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

use super::{Engine, Line, Unsent, UnsentHere, stand::OnNodes};
use crate::{
    lock::Lock,
    protocol::{ClientId, LineHint, NodeId, OthersWait, Patience, Quorum, Resource, Target},
    runtime::Runtime,
};

/// The map is looked through for what nobody has any more no sooner than at this size.
const FEW: usize = 32;

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

/// With some that nobody has any more, where the lock was not free when the last one gave it up.
#[derive(Debug, Default)]
struct ByName {
    slots: HashMap<Target, Weak<ResourceSlot>>,
    /// Those of several resources, by each of these, and those of readers, of whom each has one of its own; and those of semaphores, by their lines. Where none is
    /// asked for together with others, there are none.
    sets: HashMap<Resource, Vec<Weak<ResourceSlot>>>,
    /// The size at which those are taken out that nobody has.
    prune_at: usize,
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
        if let Some(slot) = by_name.slots.get(target).and_then(Weak::upgrade) {
            return slot;
        }
        // Looked through only when it has doubled, it costs each acquire little however much is held.
        if by_name.slots.len() >= by_name.prune_at {
            by_name.slots.retain(|_, slot| slot.strong_count() > 0);
            by_name.sets.retain(|_, sets| {
                sets.retain(|set| set.strong_count() > 0);
                !sets.is_empty()
            });
            by_name.prune_at = by_name.slots.len().saturating_mul(2).max(FEW);
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
        if !target.is_shared() {
            by_name.slots.insert(target.clone(), Arc::downgrade(&slot));
        }
        if target.is_any() {
            // Of its slots nothing is told, but of its line.
            for line in target.lines() {
                by_name.sets.entry(line.clone()).or_default().push(Arc::downgrade(&slot));
            }
        }
        if target.is_set() || target.is_shared() {
            self.knows_sets.store(true, Ordering::Relaxed);
            for resource in target.resources() {
                let sets = by_name.sets.entry(resource.clone()).or_default();
                sets.push(Arc::downgrade(&slot));
            }
        }
        slot
    }

    /// All that cover a resource.
    fn covering(&self, resource: &Resource) -> Vec<Weak<ResourceSlot>> {
        self.by_name.lock().covering(resource).cloned().collect()
    }

    /// All others that have a resource in common with this target; of one that is shared, itself too.
    pub(super) fn overlapping(&self, target: &Target) -> Vec<Arc<ResourceSlot>> {
        if !self.knows_sets.load(Ordering::Relaxed) || target.is_any() {
            return Vec::new();
        }
        let by_name = self.by_name.lock();
        let covering = |one| by_name.covering(one).cloned();
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
    /// a resource in common with it.
    pub(super) fn handle_place_gone(&self, target: &Target) {
        for other in self.overlapping(target) {
            if other.target.is_shared() == target.is_shared() {
                other.on_nodes.handle_place_lost();
            }
        }
    }

    /// All that are wanted or held here.
    pub(super) fn all(&self) -> Vec<Arc<ResourceSlot>> {
        let all = self.by_name.lock().all();
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// The same without waiting for a lock: none where somebody has it.
    pub(super) fn try_all(&self) -> Vec<Arc<ResourceSlot>> {
        let all = self.by_name.try_lock().map(|by_name| by_name.all());
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

    /// A node tells of the line for a resource.
    pub(super) fn handle_hint(&self, node: NodeId, name: &Resource, hint: LineHint) {
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

impl ByName {
    /// Each once. They are upgraded without the lock: the last one to have one takes the lock when it drops it.
    fn all(&self) -> Vec<Weak<ResourceSlot>> {
        let of_several = self.sets.values().flatten();
        let mut all: Vec<_> = self.slots.values().chain(of_several).cloned().collect();
        if !self.sets.is_empty() {
            all.sort_unstable_by_key(Weak::as_ptr);
            all.dedup_by_key(|slot| slot.as_ptr());
        }
        all
    }

    fn covering(&self, resource: &Resource) -> impl Iterator<Item = &Weak<ResourceSlot>> {
        let one = self.slots.get(&Target::One(resource.clone()));
        one.into_iter().chain(self.sets.get(resource).into_iter().flatten())
    }

    /// Forgets what nobody has any more.
    fn forget(&mut self, target: &Target) {
        self.slots.remove(target);
        if target.is_set() || target.is_shared() || target.is_any() {
            for resource in if target.is_any() { target.lines() } else { target.resources() } {
                if let Some(sets) = self.sets.get_mut(resource) {
                    sets.retain(|set| set.strong_count() > 0);
                    if sets.is_empty() {
                        self.sets.remove(resource);
                    }
                }
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
        self.target.resources().iter().any(|one| by_name.covering(one).any(is_another))
    }

    /// Somebody here begins to ask the nodes for it, or has it, or does not want it any more.
    pub(super) fn set_asks(&self, asks: bool) {
        self.asks.store(asks, Ordering::Relaxed);
    }

    /// Whether somebody here asks the nodes for something else that it has a resource in common with. In the lines on the
    /// nodes that is the same client, so that they do not keep the order between the two.
    pub(super) fn is_wanted_beside(&self) -> bool {
        let others = self.home.overlapping(&self.target);
        others.iter().any(|other| other.asks.load(Ordering::Relaxed))
    }

    /// It has been released: whoever waits here for something that it has a resource in common with asks at once. On the
    /// nodes they stand in its lines under the same name, and a grant has taken that out.
    pub(super) fn handle_released(&self) {
        self.handle_freed();
        for other in self.home.overlapping(&self.target) {
            other.handle_freed();
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

    /// The releases that wait to be sent and would be in the way of whoever asks for it: its own, but for those of other
    /// readers, and those of whatever it has a resource in common with.
    pub(super) fn unsent_in_the_way(&self) -> Vec<Arc<Unsent>> {
        // Nearly always there are none. What has been given back before this was asked for is counted by now.
        if self.home.unsent.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut all = self.unsent.take();
        let others = if self.target.is_any() {
            // Of another number of permits too.
            self.home.covering(self.target.resource()).iter().filter_map(Weak::upgrade).collect()
        } else {
            self.home.overlapping(&self.target)
        };
        let in_the_way =
            |other: &&Arc<Self>| !(self.target.is_shared() && other.target.is_shared());
        all.extend(others.iter().filter(in_the_way).flat_map(|other| other.unsent.take()));
        all
    }

    /// It is shared with readers from now on: those who pause here until they may read ask at once.
    pub(super) fn handle_shared(&self) {
        for other in self.home.overlapping(&self.target) {
            if other.target.is_shared() {
                other.handle_freed();
            }
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
        // A process that was forked drops its copies too, and in its parent another thread may have had the lock.
        let Some(mut by_name) = self.home.by_name.try_lock() else { return };
        // Another one may have been made in its place.
        let own = by_name.slots.get(&self.target);
        if self.target.is_shared() || own.is_some_and(|slot| slot.strong_count() == 0) {
            by_name.forget(&self.target);
        }
        drop(by_name);
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

    use super::*;

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
        assert_eq!(resources.by_name.lock().slots.len(), 1);
        drop(two);
        assert_eq!(resources.by_name.lock().slots.len(), 0);
    }

    /// In a process that was forked it may never be free.
    #[test]
    fn to_give_one_up_waits_for_no_lock_and_what_stays_is_forgotten_later() {
        let resources = resources();
        let name = |number: usize| Resource::new(number.to_string()).unwrap();
        let slots: Vec<_> = (0..FEW).map(|number| resources.slot(&name(number).into())).collect();
        let locked = resources.by_name.lock();
        drop(slots);
        assert_eq!(locked.slots.len(), FEW);
        drop(locked);
        let _held = resources.slot(&name(FEW).into());
        assert_eq!(resources.by_name.lock().slots.len(), 1);
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

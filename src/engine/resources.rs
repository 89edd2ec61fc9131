//! The resources that are wanted or held in this process: one object for each, for as long as anybody has to do with it.
//!
//! It decides whose object hears what a node tells: of its key, its line or its connection. All of that are hints, on
//! which no vote and no deadline rests; and it must not give up an object while it has the lock of the map.

mod by_name;
mod slot;

use std::{
    future::Future,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

use self::by_name::ByName;
pub(super) use self::{by_name::Which, slot::ResourceSlot};
use super::{Engine, client::SharedClient};
use crate::{
    lock::Lock,
    protocol::{ClientId, LineHint, NodeId, Patience, Quorum, Resource, Target, Ticket},
    runtime::Runtime,
};

/// All of them, by name.
#[derive(Debug)]
pub(super) struct Resources {
    quorum: Quorum,
    client: ClientId,
    /// Who waits for each.
    here: SharedClient,
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
    /// How many want several resources, and wait.
    waiting_sets: AtomicUsize,
    /// Tells those who are kept back for one of them that it waits no more.
    set_served: Notify,
}

impl Resources {
    pub(super) fn new(
        quorum: Quorum,
        client: ClientId,
        here: SharedClient,
        runtime: Arc<dyn Runtime>,
    ) -> Arc<Self> {
        let (patience, engine, by_name) = (Arc::default(), OnceLock::new(), Lock::default());
        let (knows_sets, unsent) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (waiting_sets, set_served) = (AtomicUsize::new(0), Notify::new());
        Arc::new(Self {
            quorum,
            client,
            here,
            runtime,
            patience,
            engine,
            by_name,
            knows_sets,
            unsent,
            waiting_sets,
            set_served,
        })
    }

    /// Says whose they are, once.
    pub(super) fn belong_to(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// The object of a resource, which is made where there is none. Each reader has one: they do not wait for each other.
    pub(super) fn slot(self: &Arc<Self>, target: &Target) -> Arc<ResourceSlot> {
        if let Some(slot) = self.by_name.lock().get(target) {
            return slot;
        }
        // Made without the lock of the map, which is taken inside the one of the queues.
        let queue = self.here.lock().open_queue();
        let slot = ResourceSlot::new(self, target, queue);
        let mut by_name = self.by_name.lock();
        if let Some(found) = by_name.get(target) {
            drop(by_name);
            return found;
        }
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
        all.filter(|other| other.target().is_shared() || other.target() != target).collect()
    }

    /// Whether anybody waits here for several resources.
    pub(super) fn have_waiting_sets(&self) -> bool {
        self.waiting_sets.load(Ordering::Relaxed) > 0
    }

    /// Ends when a set that was waited for here waits no more, for all who are kept back when this is called.
    pub(super) fn set_served(&self) -> impl Future<Output = ()> + '_ {
        self.set_served.notified()
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
            other.on_nodes().handle_place_lost();
        }
    }

    /// All that are wanted or held here.
    pub(super) fn all(&self) -> Vec<Arc<ResourceSlot>> {
        let all = self.by_name.lock().all();
        all.iter().filter_map(Weak::upgrade).collect()
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
            slot.on_nodes().handle_connection(node);
        }
    }

    /// A node votes that did not before, and may have forgotten who stands in its lines.
    pub(super) fn handle_ready(&self, node: NodeId) {
        for slot in self.all() {
            slot.on_nodes().handle_ready(node);
        }
    }

    /// Readers are kept out on a node for a place of this process. Where nobody waits for it any more, it is given up again.
    fn handle_kept_out(&self, node: NodeId, name: &Resource, ticket: Ticket) {
        let writers: Vec<_> = self.by_name.lock().covering(name, Which::Others).cloned().collect();
        let is_wanted =
            writers.iter().filter_map(Weak::upgrade).any(|slot| slot.on_nodes().waits());
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
            slot.on_nodes().handle_hint(node, hint);
            // Somebody has come for what nobody here has. It is a hint, and nothing is lost where it was wrong.
            if hint == LineHint::Wanted
                && let Some(engine) = self.engine.get().and_then(Weak::upgrade)
            {
                engine.give_back_kept(&slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{by_name::FEW, *};
    use crate::{protocol::ResourceSet, runtime::Process};

    fn resources() -> Arc<Resources> {
        let clock = Arc::new(crate::runtime::ByHand::default());
        let here = SharedClient::new(Process::current());
        Resources::new(Quorum::of(3), ClientId::new([1; 8]), here, clock)
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

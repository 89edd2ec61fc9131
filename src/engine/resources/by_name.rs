//! Where the objects of resources are found: by what they are for, and by whatever has a resource in common with that.
//!
//! It decides nothing. What nobody has any more is forgotten when it is given up, without a look at the others, or later,
//! where the lock was not free then.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::ResourceSlot;
use crate::protocol::{Resource, Target};

/// A map is looked through for what nobody has any more no sooner than at this size.
pub(super) const FEW: usize = 32;

/// With some that nobody has any more, where the lock was not free when the last one gave it up.
#[derive(Debug, Default)]
pub(super) struct ByName {
    /// All but readers.
    slots: HashMap<Target, Weak<ResourceSlot>>,
    /// Where none is asked for together with others, there are none.
    beside: HashMap<Resource, Beside>,
    /// The size at which those are taken out that nobody has.
    prune_at: usize,
}

/// Whoever has to do with a resource other than by itself.
#[derive(Debug, Default)]
struct Beside {
    /// Those of several resources, by each of these; and those of semaphores, by their lines.
    several: Crowd,
    /// Of whom each has an object of its own.
    readers: Crowd,
    /// Those of them that have taken a place in the lines on the nodes, and have not been told since that it is gone.
    placed: Crowd,
}

/// Many, each of which comes and goes without a look at the others.
#[derive(Debug, Default)]
struct Crowd {
    /// By where they are in memory, which nobody else is for as long as they are here.
    by_place: HashMap<usize, Weak<ResourceSlot>>,
    prune_at: usize,
}

/// Which of those who have a resource in common with a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::engine) enum Which {
    Readers,
    Others,
    All,
}

impl Crowd {
    fn add(&mut self, slot: &Arc<ResourceSlot>) {
        // Looked through only when it has doubled, it costs each of them little.
        if self.by_place.len() >= self.prune_at {
            self.prune();
            self.prune_at = self.by_place.len().saturating_mul(2).max(FEW);
        }
        self.by_place.insert(Arc::as_ptr(slot).addr(), Arc::downgrade(slot));
    }

    fn remove(&mut self, slot: &ResourceSlot) {
        self.by_place.remove(&std::ptr::from_ref(slot).addr());
    }

    fn prune(&mut self) {
        self.by_place.retain(|_, slot| slot.strong_count() > 0);
    }

    fn all(&self) -> impl Iterator<Item = &Weak<ResourceSlot>> {
        self.by_place.values()
    }
}

impl Beside {
    fn is_empty(&self) -> bool {
        self.several.by_place.is_empty() && self.readers.by_place.is_empty()
    }

    fn prune(&mut self) {
        for crowd in [&mut self.several, &mut self.readers, &mut self.placed] {
            crowd.prune();
        }
    }
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
    /// The one that there is. Readers are not found so: they do not wait for each other.
    pub(super) fn get(&self, target: &Target) -> Option<Arc<ResourceSlot>> {
        self.slots.get(target).and_then(Weak::upgrade)
    }

    pub(super) fn add(&mut self, slot: &Arc<ResourceSlot>) {
        // Looked through only when it has doubled, it costs each acquire little however much is held.
        if self.slots.len().saturating_add(self.beside.len()) >= self.prune_at {
            self.slots.retain(|_, slot| slot.strong_count() > 0);
            self.beside.retain(|_, beside| {
                beside.prune();
                !beside.is_empty()
            });
            let left = self.slots.len().saturating_add(self.beside.len());
            self.prune_at = left.saturating_mul(2).max(FEW);
        }
        let target = slot.target();
        if !target.is_shared() {
            self.slots.insert(target.clone(), Arc::downgrade(slot));
        }
        for resource in found_by(target) {
            let beside = self.beside.entry(resource.clone()).or_default();
            let crowd = if target.is_shared() { &mut beside.readers } else { &mut beside.several };
            crowd.add(slot);
        }
    }

    /// Forgets one that nobody has any more.
    pub(super) fn forget(&mut self, slot: &ResourceSlot) {
        let target = slot.target();
        // Another one may have been made in its place.
        if self.slots.get(target).is_some_and(|other| other.strong_count() == 0) {
            self.slots.remove(target);
        }
        for resource in found_by(target) {
            if let Some(beside) = self.beside.get_mut(resource) {
                beside.several.remove(slot);
                beside.readers.remove(slot);
                beside.placed.remove(slot);
                if beside.is_empty() {
                    self.beside.remove(resource);
                }
            }
        }
    }

    /// Those that cover a resource. They are upgraded without the lock: the last one to have one takes it when it drops it.
    pub(super) fn covering(
        &self,
        resource: &Resource,
        which: Which,
    ) -> impl Iterator<Item = &Weak<ResourceSlot>> {
        let one =
            self.slots.get(&Target::One(resource.clone())).filter(|_| which != Which::Readers);
        let beside = self.beside.get(resource);
        let several = beside.filter(|_| which != Which::Readers).into_iter();
        let readers = beside.filter(|_| which != Which::Others).into_iter();
        let several = several.flat_map(|beside| beside.several.all());
        one.into_iter().chain(several).chain(readers.flat_map(|beside| beside.readers.all()))
    }

    /// Each once. They are upgraded without the lock, as above.
    pub(super) fn all(&self) -> Vec<Weak<ResourceSlot>> {
        let readers = self.beside.values().flat_map(|beside| beside.readers.all());
        self.slots.values().chain(readers).cloned().collect()
    }

    /// One reader takes its place in the lines on the nodes.
    pub(super) fn note_placed(&mut self, slot: &Arc<ResourceSlot>) {
        if let Some(beside) = self.beside.get_mut(slot.target().resource()) {
            beside.placed.add(slot);
        }
    }

    /// Takes out the readers that have taken a place since this was asked last.
    pub(super) fn take_placed(&mut self, resource: &Resource) -> Vec<Weak<ResourceSlot>> {
        let placed = self.beside.get_mut(resource).map(|beside| std::mem::take(&mut beside.placed));
        placed.unwrap_or_default().by_place.into_values().collect()
    }

    /// How many there are, but for readers.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// By how many resources others are found beside them.
    #[cfg(test)]
    pub(super) fn besides(&self) -> usize {
        self.beside.len()
    }
}

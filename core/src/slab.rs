//! Values that are found again by a unique key.
//!
//! It decides where a value stands. The key of a removed value must never find another one. The places of a burst stay
//! for as long as any of them is taken: a large value must stand in a box.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// Above this size, a slab that becomes empty gives its memory back.
const MANY: usize = 1024;

/// Where a value stands.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    index: u32,
    /// Rises with each value removed from the place. Never zero, so that an `Option` of a key needs no more room.
    generation: NonZeroU32,
}

impl Key {
    /// The place, which another value may take later.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

/// The values.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    /// The empty entries.
    free: Vec<u32>,
    /// The generation of new entries.
    generation: NonZeroU32,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Entry<T> {
    generation: NonZeroU32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), generation: NonZeroU32::MIN }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        let free = self.free.pop();
        if let Some(index) = free
            && let Some(entry) = self.entries.get_mut(index as usize)
        {
            entry.value = Some(value);
            return Key { index, generation: entry.generation };
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let generation = self.generation;
        self.entries.push(Entry { generation, value: Some(value) });
        Key { index, generation }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entry(key)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let generation = entry.generation;
        self.generation = self.generation.max(generation);
        self.free.push(key.index);
        if self.free.len() == self.entries.len() && self.entries.len() > MANY {
            (self.entries, self.free) = (Vec::new(), Vec::new());
        }
        Some(value)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.index as usize)?;
        entry.value.as_ref().filter(|_| entry.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entry(key)?.value.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let entries = self.entries.iter().zip(0..);
        entries.filter_map(|(entry, index)| {
            let key = Key { index, generation: entry.generation };
            Some((key, entry.value.as_ref()?))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        let entries = self.entries.iter_mut().zip(0..);
        entries.filter_map(|(entry, index)| {
            let key = Key { index, generation: entry.generation };
            Some((key, entry.value.as_mut()?))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len().saturating_sub(self.free.len())
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(key.index as usize)?;
        (entry.generation == key.generation).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_value_and_no_later_one() {
        let mut slab = Slab::default();
        let (one, two) = (slab.insert("one"), slab.insert("two"));
        assert_eq!((slab.get(one), slab.get(two), slab.len()), (Some(&"one"), Some(&"two"), 2));
        assert_eq!((slab.remove(one), slab.remove(one), slab.len()), (Some("one"), None, 1));
        let three = slab.insert("three");
        assert_eq!(slab.get_mut(one), None);
        assert_eq!((slab.get(one), slab.get(three)), (None, Some(&"three")));
        assert_eq!(slab.iter().map(|(key, _)| key).collect::<Vec<_>>(), [three, two]);
    }

    #[test]
    fn a_key_finds_nothing_behind_the_memory_that_was_given_back() {
        let mut slab = Slab::default();
        let keys: Vec<Key> = (0..=MANY).map(|number| slab.insert(number)).collect();
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(slab.remove(*key), Some(number));
        }
        assert_eq!((slab.len(), slab.entries.capacity()), (0, 0));
        let new = slab.insert(7);
        assert_eq!((slab.get(keys[0]), slab.get(new)), (None, Some(&7)));
    }
}

//! A value that is seldom written to: until then it takes the room of a pointer.
//!
//! It decides nothing. Whether it was written to must never make a difference: a value that was written to and is as
//! before equals a value that never was.

use alloc::{boxed::Box, collections::BTreeMap};
use core::{
    hash::{Hash, Hasher},
    ops::{Deref, DerefMut},
};

/// A value with an unwritten state.
pub(crate) trait Unwritten {
    /// The value in that state.
    fn unwritten<'a>() -> &'a Self
    where
        Self: 'a;
}

impl<K, V> Unwritten for BTreeMap<K, V> {
    fn unwritten<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::new() }
    }
}

/// Such a value. A mutable borrow allocates it: a caller that would change nothing uses [`written`](Rare::written).
#[derive(Clone, Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T> Rare<T> {
    /// The value, if it was written to.
    pub(crate) fn written(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Unwritten> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(T::unwritten)
    }
}

impl<T: Unwritten + Default> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Unwritten + PartialEq> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Unwritten + Eq> Eq for Rare<T> {}

impl<T: Unwritten + Hash> Hash for Rare<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Map = Rare<BTreeMap<u8, u8>>;

    struct Sum(u64);

    impl Hasher for Sum {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte) + 1);
            }
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }

    fn hashed(map: &Map) -> u64 {
        let mut sum = Sum(0);
        map.hash(&mut sum);
        sum.finish()
    }

    #[test]
    fn whether_it_was_written_to_makes_no_difference() {
        let (never, mut written) = (Map::default(), Map::default());
        assert!(written.written().is_none() && written.is_empty(), "a look makes no room");
        written.insert(1, 1);
        assert!(written != never && hashed(&written) != hashed(&never));
        written.clear();
        assert!(written.written().is_some(), "it keeps its room");
        assert!(written == never && hashed(&written) == hashed(&never));
    }
}

//! How soon a node is tried again that cannot be reached: the sooner the shorter the leases are that are held, because each of
//! them is lost when other nodes go before this one is back for long enough to be renewed on.
//!
//! It decides the longest pause between two attempts. It must never make it shorter than what a server bears from every client
//! of a fleet at once.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The longest pause where nothing is held, or nothing short.
pub(super) const UNHURRIED: Duration = Duration::from_millis(500);

/// The longest pause however short a lease is.
const HURRIED: Duration = Duration::from_millis(50);

/// Between two attempts lies this part of the shortest ttl at most.
const PART: u32 = 16;

/// A ttl has as many milliseconds as this power of two at least. Above the last, nothing hurries.
const POWERS: usize = 14;

/// How many leases are held of which ttl.
#[derive(Debug)]
pub(crate) struct Haste([Arc<AtomicUsize>; POWERS]);

/// A lease that is held. Dropping it says that it is not any more.
#[derive(Debug)]
pub(crate) struct Hurries(Arc<AtomicUsize>);

impl Default for Haste {
    fn default() -> Self {
        Self(array::from_fn(|_| Arc::default()))
    }
}

impl Haste {
    /// A lease of this ttl is held from now on. Nothing where that is long.
    pub(crate) fn hold(&self, ttl: Duration) -> Option<Hurries> {
        let power = ttl.as_millis().max(1).ilog2() as usize;
        let held = self.0.get(power)?;
        held.fetch_add(1, Ordering::Relaxed);
        Some(Hurries(Arc::clone(held)))
    }

    /// The longest pause before the next attempt to connect.
    pub(super) fn longest_pause(&self) -> Duration {
        let shortest = self.0.iter().position(|count| count.load(Ordering::Relaxed) > 0);
        let ttl = shortest.map(|power| Duration::from_millis(1 << power));
        ttl.map_or(UNHURRIED, |ttl| (ttl / PART).clamp(HURRIED, UNHURRIED))
    }
}

impl Drop for Hurries {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_shortest_lease_that_is_held_decides() {
        let haste = Haste::default();
        assert_eq!(haste.longest_pause(), 500 * MS);
        let long = haste.hold(3600 * 1000 * MS);
        let usual = haste.hold(10_000 * MS);
        assert_eq!(haste.longest_pause(), 500 * MS);
        let short = haste.hold(2000 * MS);
        assert_eq!(haste.longest_pause(), 64 * MS);
        let shorter = haste.hold(MS);
        let none = haste.hold(Duration::ZERO);
        assert_eq!(haste.longest_pause(), 50 * MS, "never less");
        drop((none, shorter, long));
        assert_eq!(haste.longest_pause(), 64 * MS);
        drop((short, usual));
        assert_eq!(haste.longest_pause(), 500 * MS);
    }
}

//! How soon an unreachable node is tried again: the shorter the held leases, the sooner. A lease is lost if other nodes
//! fail before this node has been back for long enough to renew it.
//!
//! It decides the longest pause between two attempts. It must never make it shorter than a server bears from every
//! client of a fleet at once.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The longest pause while no short lease is held.
pub(super) const UNHURRIED: Duration = Duration::from_millis(500);

/// The least value of the longest pause, however short a lease is.
const HURRIED: Duration = Duration::from_millis(50);

/// The longest pause is the shortest ttl divided by this.
const PART: u32 = 16;

/// Ttls are counted by powers of two of milliseconds. A ttl of 2 to this power, or longer, does not hurry.
const POWERS: usize = 14;

/// How many leases are held, by ttl.
#[derive(Debug)]
pub(crate) struct Haste([Arc<AtomicUsize>; POWERS]);

/// A held lease. Dropping it ends the hold.
#[derive(Debug)]
pub(crate) struct Hurries(Arc<AtomicUsize>);

impl Default for Haste {
    fn default() -> Self {
        Self(array::from_fn(|_| Arc::default()))
    }
}

impl Haste {
    /// Counts a lease of this ttl as held. `None` if it is long.
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

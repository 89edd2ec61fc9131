//! A footprint that the round, its lease and its releases share, and the key that it is of.
//!
//! It decides nothing. Whoever makes a footprint order releases takes these orders under the same lock, or somebody else
//! would: each order is sent by whoever has taken it.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use super::Engine;
use crate::{
    lock::Lock,
    protocol::{Footprint, Owner, ReleaseOrder, Target, Timestamp, validity},
};

/// A footprint that several have to do with.
#[derive(Debug)]
pub(super) struct SharedFootprint(Lock<Footprint>);

impl SharedFootprint {
    pub(super) const fn new(footprint: Footprint) -> Self {
        Self(Lock::new(footprint))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Footprint> {
        self.0.lock()
    }

    /// Gives the lease back, and says where to release.
    pub(super) fn give_back(&self) -> Vec<ReleaseOrder> {
        let mut footprint = self.lock();
        footprint.handle_given_back();
        orders(&mut footprint)
    }

    /// Where to release now.
    pub(super) fn orders(&self) -> Vec<ReleaseOrder> {
        orders(&mut self.lock())
    }
}

fn orders(footprint: &mut Footprint) -> Vec<ReleaseOrder> {
    std::iter::from_fn(|| footprint.poll_release()).collect()
}

/// Which keys are to be deleted, or kept for a while, and where it may stand.
#[derive(Clone)]
pub(super) struct Released {
    pub(super) target: Target,
    pub(super) owner: Owner,
    /// For how long a node keeps it.
    pub(super) key_life: Duration,
    pub(super) footprint: Arc<SharedFootprint>,
    /// Up to when others are kept out all the same. By the steady clock, which may only run behind: never for less.
    pub(super) hold: Option<Timestamp>,
}

impl Released {
    /// For how long a node is to keep the key from now on; `None` where it is to delete it. Asked whenever it is sent, so
    /// that one that is sent again does not keep it for longer.
    pub(super) fn keep(&self, engine: &Engine) -> Option<Duration> {
        let left = self.hold?.saturating_since(engine.steady());
        (!left.is_zero()).then(|| validity::kept_for(left, engine.config.drift()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::protocol::NodeId;

    /// A lease that was released while its round was still waiting for stragglers was reported as ended before.
    #[test]
    fn whoever_ends_a_grant_gets_all_orders_though_its_round_asks_at_the_same_time() {
        const NODES: usize = 5;
        let footprint = || {
            let mut footprint = Footprint::new(NODES);
            (0..NODES).for_each(|node| footprint.handle_acquire_sent(NodeId::new(node)));
            SharedFootprint::new(footprint)
        };
        let all: Vec<SharedFootprint> = (0..20_000).map(|_| footprint()).collect();
        let (at, stolen, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let orders = all[at.load(Ordering::Acquire)].orders();
                    stolen.fetch_add(orders.len(), Ordering::Relaxed);
                }
            });
            for (index, footprint) in all.iter().enumerate() {
                at.store(index, Ordering::Release);
                std::hint::spin_loop();
                stolen.fetch_add(NODES - footprint.give_back().len(), Ordering::Relaxed);
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(stolen.into_inner(), 0);
    }
}

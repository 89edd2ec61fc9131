//! A footprint that the round, its lease and its releases share, and the key that it is of.
//!
//! It decides nothing. Whoever makes a footprint order releases takes these orders under the same lock, or somebody else
//! would: each order is sent by whoever has taken it.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use crate::{
    lock::Lock,
    protocol::{Footprint, Owner, ReleaseOrder, Resource},
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

/// Which key is to be deleted, and where it may stand.
#[derive(Clone)]
pub(super) struct Released {
    pub(super) resource: Resource,
    pub(super) owner: Owner,
    pub(super) ttl: Duration,
    pub(super) footprint: Arc<SharedFootprint>,
}

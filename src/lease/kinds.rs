//! The methods that leases of one kind alone have.
//!
//! It decides nothing.

use std::sync::Arc;

use super::Lease;
use crate::{
    kind::{Nested, Shared, Slot},
    protocol::Target,
};

/// A clone holds the same lease: the last one that is dropped or released releases it.
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let lease = redlock.read("catalog").await?;
/// let beside = lease.clone();
/// lease.release().await?;
/// beside.check()?; // it still holds
/// beside.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
impl Clone for Lease<Shared> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.held))
    }
}

impl Lease<Slot> {
    /// The number of this permit, from zero.
    #[must_use]
    pub fn slot(&self) -> u8 {
        match self.target() {
            Target::Slot(slot) => slot.number(),
            // A permit is always a slot.
            _ => 0,
        }
    }

    /// The permit as a plain lease, for code that keeps both. It stays a permit on the nodes.
    pub fn into_lease(self) -> Lease {
        Lease::of(self.into_held())
    }
}

impl Lease<Nested> {
    /// How many holders share this lease, this one included.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.held)
    }
}

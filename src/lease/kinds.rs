//! What a lease of one kind alone can be asked.
//!
//! It decides nothing.

use std::sync::Arc;

use super::Lease;
use crate::{
    kind::{Nested, Shared, Slot},
    protocol::Target,
};

/// Another hand on the same lease: the last one that is dropped or released releases it.
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
    /// Which of the permits it is, from zero.
    #[must_use]
    pub fn slot(&self) -> u8 {
        match self.target() {
            Target::Slot(slot) => slot.number(),
            // A permit is a slot.
            _ => 0,
        }
    }

    /// The permit as a plain lease, for code that keeps both. It stays a permit on the nodes.
    pub fn into_lease(self) -> Lease {
        Lease::of(self.held)
    }
}

impl Lease<Nested> {
    /// How many hold this lease, this one included.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.held)
    }
}

//! A semaphore of permits, each a lease on a resource of its own. The nodes pick the permit of a request.
//!
//! It decides nothing: `protocol::Slots` says what a permit is, `protocol::Round` which one is won, and the lease how
//! long it holds.

use std::{fmt, sync::Arc};

use crate::{
    acquire::Acquire,
    engine::Engine,
    kind::Slot,
    protocol::{Slots, WaitPolicy},
};

/// A number of permits, each with one holder at a time, made by [`Redlock::semaphore`](crate::Redlock::semaphore). A
/// clone is the same semaphore.
///
/// A permit is granted in one round trip where one is free. Never more are held than there are, even while nodes
/// restart empty, under the assumptions that `docs/safety.md` numbers for leases: each permit is a lease.
#[derive(Clone)]
pub struct Semaphore {
    engine: Arc<Engine>,
    slots: Slots,
}

impl Semaphore {
    pub(crate) const fn new(engine: Arc<Engine>, slots: Slots) -> Self {
        Self { engine, slots }
    }

    /// A request for any free permit. While all are held it waits, up to its deadline. Processes that wait get the next
    /// permit roughly in the order of arrival.
    #[doc(alias = "acquire_owned")]
    pub fn acquire(&self) -> Acquire<Slot> {
        self.request(WaitPolicy::For(self.engine.config.wait))
    }

    /// A request for a permit in one round: it does not wait while all are held, and where few are left other clients
    /// may be faster.
    pub fn try_acquire(&self) -> Acquire<Slot> {
        self.request(WaitPolicy::OneRound)
    }

    /// How many permits there are.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.slots.len()
    }

    fn request(&self, wait_policy: WaitPolicy) -> Acquire<Slot> {
        Acquire::any(Arc::clone(&self.engine), self.slots.clone(), wait_policy)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("slots", &self.slots).finish_non_exhaustive()
    }
}

//! A semaphore: so many permits, each of them a lease on a resource of its own, and who asks for one has the nodes pick it.
//!
//! It decides nothing: what a permit is, `protocol::Slots` says, which one is won, `protocol::Round`, and how long it holds, the
//! lease.

use std::{fmt, sync::Arc};

use crate::{
    acquire::Acquire,
    engine::Engine,
    kind::Slot,
    protocol::{Slots, WaitPolicy},
};

/// So many permits, of which each is held by one at a time, made by [`Redlock::semaphore`](crate::Redlock::semaphore). A clone
/// is the same semaphore.
///
/// A permit is granted in one round trip where one is free. Never more are held than there are, also while nodes restart
/// empty, for as long as the assumptions hold that `docs/safety.md` numbers for leases: each permit is one.
#[derive(Clone)]
pub struct Semaphore {
    engine: Arc<Engine>,
    slots: Slots,
}

impl Semaphore {
    pub(crate) const fn new(engine: Arc<Engine>, slots: Slots) -> Self {
        Self { engine, slots }
    }

    /// A request for a permit, whichever is free. It waits while all are held, up to the request's deadline; whoever came
    /// first among the processes that wait gets the next one, about.
    #[doc(alias = "acquire_owned")]
    pub fn acquire(&self) -> Acquire<Slot> {
        self.request(WaitPolicy::For(self.engine.config.wait))
    }

    /// A request for a permit that is one round: it does not wait while all are held, and may find that others were faster
    /// where few are left.
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

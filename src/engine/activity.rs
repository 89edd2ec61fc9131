//! What is under way, counted, so that closing can wait for its end.
//!
//! It decides nothing. A close looks at the count; each task beside a caller keeps a part of it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

use super::Engine;

/// Counts the tasks under way, so that closing can wait for them.
#[derive(Debug, Default)]
pub(super) struct Activity {
    pub(super) tasks: AtomicUsize,
    pub(super) ended: Notify,
}

/// Counts as a task under way until it is dropped.
pub(super) struct Counted {
    engine: Arc<Engine>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let active = &self.engine.active;
        // A close looks at the count after it has registered, so notifying the last end is enough.
        if active.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            active.ended.notify_waiters();
        }
    }
}

impl Engine {
    /// Counts something as under way until it is dropped.
    pub(super) fn count(self: &Arc<Self>) -> Counted {
        self.active.tasks.fetch_add(1, Ordering::AcqRel);
        Counted { engine: Arc::clone(self) }
    }

    /// Tells a waiting close if all work under way has ended.
    pub(super) fn tell_settled(&self) {
        if self.closed.load(Ordering::Acquire) && self.client.lock().under_way() == 0 {
            self.active.ended.notify_waiters();
        }
    }
}

//! What is wanted or held in this process, as those have it who have to do with it; and what nodes tell of it.
//!
//! It decides nothing: who waits, who is in whose way and what follows from what a node tells, `protocol::Client` decides. What
//! nodes tell comes in on the task that reads a connection, and is dealt with there and then.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use super::Engine;
use crate::{
    node::Fleet,
    protocol::{QueueId, Target},
};

/// The queue of one target, for as long as anybody has to do with it.
pub(super) struct ResourceSlot {
    engine: Weak<Engine>,
    target: Target,
    queue: QueueId,
}

impl ResourceSlot {
    pub(super) fn new(engine: &Arc<Engine>, target: &Target) -> Arc<Self> {
        let queue = engine.client.lock().open_queue(target);
        Arc::new(Self { engine: Arc::downgrade(engine), target: target.clone(), queue })
    }

    pub(super) const fn queue(&self) -> QueueId {
        self.queue
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }
}

impl Drop for ResourceSlot {
    fn drop(&mut self) {
        // Without its engine nobody looks at the queue any more.
        let Some(engine) = self.engine.upgrade() else { return };
        // A process that was forked drops its copies too, and in its parent another thread may have had the lock.
        let Some(mut client) = engine.client.lock_here() else { return };
        let all = client.close_queue(self.queue);
        let follows = client.has_events();
        drop(client);
        // Whoever stood there would keep it: there is nobody. All the same, none is dropped under the lock.
        drop(all);
        if follows && engine.is_served() {
            engine.carry_out();
        }
    }
}

impl fmt::Debug for ResourceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSlot").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Has an engine, once there is one, hear what its nodes tell. The fleet does not keep it.
pub(super) fn listen(fleet: &Fleet) -> Arc<OnceLock<Weak<Engine>>> {
    let engine: Arc<OnceLock<Weak<Engine>>> = Arc::default();
    let with = |engine: &OnceLock<Weak<Engine>>| engine.get().and_then(Weak::upgrade);
    let told = Arc::clone(&engine);
    fleet.on_freed(move |node, resource| {
        if let Some(engine) = with(&told) {
            engine.decide(|client| client.handle_gone(node, resource));
        }
    });
    let told = Arc::clone(&engine);
    fleet.on_line(move |node, resource, hint| {
        if let Some(engine) = with(&told) {
            // Read before the lock is taken: it is code of the user's.
            let now = engine.now();
            engine.decide(|client| client.handle_hint(node, resource, hint, now));
        }
    });
    let told = Arc::clone(&engine);
    fleet.on_connected(move |node| {
        if let Some(engine) = with(&told) {
            let now = engine.now();
            engine.decide(|client| client.handle_connection(node, now));
        }
    });
    engine
}

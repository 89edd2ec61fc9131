//! The queues of what is wanted or held in this process, and what nodes tell of it.
//!
//! It decides nothing: `protocol::Client` decides which requests wait, which are in each other's way, and what follows
//! from a node's message. Messages come in on the task that reads a connection, and are handled there and then.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use super::Engine;
use crate::{
    node::Fleet,
    protocol::{QueueId, Target},
};

/// The queue of one target, open as long as a request or a grant uses it.
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
        // Without its engine the queue is not used any more.
        let Some(engine) = self.engine.upgrade() else { return };
        // A forked child drops its copies too, and in its parent another thread may have held the lock.
        let Some(mut client) = engine.client.lock_here() else { return };
        let all = client.close_queue(self.queue);
        let follows = client.has_events();
        drop(client);
        // It is empty, since a waiter keeps its queue. All the same, nothing is dropped under the lock.
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

/// Lets an engine, once there is one, hear its nodes' messages. The fleet does not keep it alive.
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
            // Read before locking: the clock is user code.
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

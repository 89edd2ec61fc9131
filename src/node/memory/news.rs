//! What a command has changed that clients are to hear of. It is told once the node's lock is free.

use crate::{
    node::Watcher,
    protocol::{ClientId, LineHint, Resource},
};

/// What is told of a resource.
pub(super) struct News {
    pub(super) resource: Resource,
    /// Its key is gone.
    pub(super) is_freed: bool,
    pub(super) told: Vec<(ClientId, LineHint)>,
}

impl News {
    pub(super) fn tell(&self, watchers: &[Watcher]) {
        for (client, hint) in &self.told {
            for watcher in watchers.iter().filter(|watcher| watcher.client() == *client) {
                watcher.line(&self.resource, *hint);
            }
        }
        if self.is_freed {
            watchers.iter().for_each(|watcher| watcher.freed(&self.resource));
        }
    }
}

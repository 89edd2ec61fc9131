//! What a node is given when it starts: its place, the runtime, and what the fleet knows of each other.
//!
//! It decides one thing: two nodes that are the same server are not both accepted.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{config::Config, protocol::NodeId, runtime::Runtime};

/// What a [`Node`](super::Node) is given when it starts.
#[derive(Clone)]
pub struct NodeContext {
    id: NodeId,
    runtime: Arc<dyn Runtime>,
    fleet: Arc<Fleet>,
    connect_timeout: Duration,
    node_timeout: Duration,
    allow_eviction: bool,
    classic: bool,
}

impl NodeContext {
    pub(crate) fn new(
        id: NodeId,
        runtime: Arc<dyn Runtime>,
        fleet: Arc<Fleet>,
        config: &Config,
    ) -> Self {
        Self {
            id,
            runtime,
            fleet,
            connect_timeout: config.connect_timeout,
            node_timeout: config.node_timeout,
            allow_eviction: config.allow_eviction,
            classic: config.classic,
        }
    }

    /// The node's place in the configuration.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The runtime to sleep, spawn and draw randomness with.
    pub const fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// The time for making and checking one connection.
    pub const fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// The time for one command.
    pub const fn node_timeout(&self) -> Duration {
        self.node_timeout
    }

    /// Whether leases are taken without fencing tokens and admission.
    pub const fn classic(&self) -> bool {
        self.classic
    }

    /// Whether a server that may evict keys is accepted all the same.
    pub const fn allow_eviction(&self) -> bool {
        self.allow_eviction
    }

    /// Tells whoever waits for nodes that this one's status has changed.
    pub fn changed(&self) {
        self.fleet.change();
    }

    /// A way to tell of a change that does not keep the fleet alive.
    pub(crate) fn watcher(&self) -> Watcher {
        Watcher(Arc::downgrade(&self.fleet))
    }

    /// Claims the identity of a server for this node: `run_id` in Redis, anything unique per process.
    ///
    /// # Errors
    ///
    /// The address of the node that is the same server already. This node must then not vote.
    pub fn claim(&self, address: &Arc<str>, identity: &str) -> Result<(), Arc<str>> {
        let mut claims = self.fleet.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) =
            claims.iter().find(|claim| claim.identity == identity && claim.id != self.id)
        {
            return Err(Arc::clone(&other.address));
        }
        claims.retain(|claim| claim.id != self.id);
        claims.push(Claim {
            id: self.id,
            address: Arc::clone(address),
            identity: identity.to_owned(),
        });
        Ok(())
    }
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Tells a fleet of a change, as long as it is there.
#[derive(Clone, Debug)]
pub(crate) struct Watcher(Weak<Fleet>);

impl Watcher {
    /// Whether there is anybody to tell still.
    pub(crate) fn is_needed(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn changed(&self) {
        if let Some(fleet) = self.0.upgrade() {
            fleet.change();
        }
    }
}

/// What the nodes of one `Redlock` share.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    claims: Mutex<Vec<Claim>>,
    pub(crate) changed: Notify,
    /// For the one task that looks after admission.
    pub(crate) attention: Notify,
}

impl Fleet {
    /// A node's status has changed.
    pub(crate) fn change(&self) {
        self.attention.notify_one();
        self.tell();
    }

    /// Tells whoever waits for nodes to look again.
    pub(crate) fn tell(&self) {
        self.changed.notify_waiters();
    }
}

#[derive(Debug)]
struct Claim {
    id: NodeId,
    address: Arc<str>,
    identity: String,
}

//! What a node is given when it starts: its place, the runtime, and what nodes report of themselves and each other.
//!
//! It decides one thing: two nodes that are the same server at the same time are not both accepted. What a node reports
//! is a hint, and no verdict may rest on it.

use std::{
    fmt,
    sync::{
        Arc, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::haste::Haste;
use crate::{
    lock::Lock,
    protocol::{ClientId, LineHint, Members, NodeId, Resource, Timestamp},
    runtime::Runtime,
    shield::shielded,
};

/// The settings of a `Redlock` that concern its nodes.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    /// The time for making and checking one connection.
    pub(crate) connect_timeout: Duration,
    /// The time for one command.
    pub(crate) node_timeout: Duration,
    pub(crate) allow_eviction: bool,
    pub(crate) skips_quarantine: bool,
    pub(crate) classic: bool,
    pub(crate) counter_retention: Duration,
    /// The nodes of the fleet, by their names.
    pub(crate) members: Members,
    /// The prefix of the names of all resources.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only a server has rights"))]
    pub(crate) key_prefix: Vec<u8>,
    /// The name of this client in the lines on the nodes.
    pub(crate) client: ClientId,
}

/// What a [`Node`](super::Node) is given when it starts.
#[derive(Clone)]
pub struct NodeContext {
    id: NodeId,
    runtime: Arc<dyn Runtime>,
    fleet: Arc<Fleet>,
    settings: Arc<NodeSettings>,
}

impl NodeContext {
    pub(crate) const fn new(
        id: NodeId,
        runtime: Arc<dyn Runtime>,
        fleet: Arc<Fleet>,
        settings: Arc<NodeSettings>,
    ) -> Self {
        Self { id, runtime, fleet, settings }
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
    pub fn connect_timeout(&self) -> Duration {
        self.settings.connect_timeout
    }

    /// The time for one command.
    pub fn node_timeout(&self) -> Duration {
        self.settings.node_timeout
    }

    /// The names of the fleet's nodes. A node that belongs to another fleet must not vote.
    pub fn members(&self) -> &Members {
        &self.settings.members
    }

    /// The least time for which a node keeps the counter of a resource that nobody acquires. It may keep it for ever. A
    /// node that drops it raises the floor of absent counters above it in the same step.
    pub fn counter_retention(&self) -> Duration {
        self.settings.counter_retention
    }

    /// A key under the user's prefix, which the check of rights names. The check never touches it: in classic mode it
    /// could be anybody's.
    #[cfg(feature = "redis")]
    pub(crate) fn probe(&self) -> Vec<u8> {
        [self.settings.key_prefix.as_slice(), b"quorlock:rights"].concat()
    }

    /// Whether leases are taken without fencing tokens and admission.
    pub fn classic(&self) -> bool {
        self.settings.classic
    }

    /// Whether a server that may evict keys is still accepted.
    pub fn allow_eviction(&self) -> bool {
        self.settings.allow_eviction
    }

    /// Whether this client admits nodes at once that may have forgotten leases, for every client
    /// (`Builder::danger_skip_quarantine`). A node over a network then refuses itself with
    /// [`Refusal::NotThrowaway`](super::Refusal::NotThrowaway), unless its server is known to be a throwaway. A node in
    /// this process need not ask.
    pub fn skips_quarantine(&self) -> bool {
        self.settings.skips_quarantine
    }

    /// The longest pause before the next attempt to connect, before jitter is added.
    #[cfg(feature = "redis")]
    pub(super) fn longest_pause(&self) -> Duration {
        self.fleet.haste.longest_pause()
    }

    /// Tells every task that waits for nodes that this one's status has changed.
    pub fn changed(&self) {
        self.fleet.change();
    }

    /// Reports that the key of `resource` is gone on this node, whichever client deleted it. A waiter may then try now.
    ///
    /// This is a hint that may be left out: waiters poll anyway. It may come late, twice, or for a key that exists
    /// again. Do not call it under a lock of the node: the listener may ask the node something.
    pub fn freed(&self, resource: &Resource) {
        self.fleet.free(self.id, resource);
    }

    /// The name of this client in the lines on the nodes.
    pub fn client(&self) -> ClientId {
        self.settings.client
    }

    /// Reports what this node says of the line for `resource`.
    ///
    /// This is a hint, as [`freed`](NodeContext::freed): it may come late, twice, or be wrong, and waiters poll anyway.
    /// Do not call it under a lock of the node.
    pub fn line(&self, resource: &Resource, hint: LineHint) {
        self.fleet.line(self.id, resource, hint);
    }

    /// Reports a new connection, before which this node's messages about lines were not heard: each waiter asks the
    /// node once. Held leases are renewed soon after the node votes, since it may have lost their keys. Call it before
    /// [`changed`](NodeContext::changed).
    pub fn connected(&self) {
        self.fleet.connected(self.id);
    }

    /// A handle for the same reports that does not keep the fleet alive.
    pub(crate) fn watcher(&self) -> Watcher {
        Watcher::new(self.id, self.settings.client, &self.fleet)
    }

    /// Claims the identity of a server for this node: `run_id` in Redis, anything unique per process. Keep the
    /// [`Claim`] for as long as the connection lasts, and no longer: servers may exchange their addresses. Another node
    /// may claim the server one node timeout after that, when every round that counted a vote of this node is over.
    ///
    /// # Errors
    ///
    /// The address of the node that already claimed this server. This node must then not vote; try again later.
    pub fn claim(&self, address: &Arc<str>, identity: &str) -> Result<Claim, Arc<str>> {
        // Read before the lock is taken: the runtime is user code.
        let now = self.runtime.steady();
        let mut claims = self.fleet.claims();
        // Drops claims whose connection ended a node timeout ago.
        claims.held.retain(|claim| claim.until.is_none_or(|until| now < until));
        let same = |claim: &&Claimed| claim.identity == identity && claim.id != self.id;
        if let Some(other) = claims.held.iter().find(same) {
            return Err(Arc::clone(&other.address));
        }
        claims.next = claims.next.wrapping_add(1);
        let number = claims.next;
        claims.held.push(Claimed {
            number,
            id: self.id,
            address: Arc::clone(address),
            identity: identity.to_owned(),
            until: None,
        });
        Ok(Claim { context: self.clone(), number })
    }
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A node's claim of a server, made by [`NodeContext::claim`]. Dropping it gives the server up: a node timeout later
/// another node may claim it.
#[must_use = "dropping it gives the server up"]
pub struct Claim {
    context: NodeContext,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A round that counted this server's grant could have it confirmed through another node, and count it twice. By
        // `until` every round that began before now is over.
        let until = self.context.runtime.steady().saturating_add(self.context.node_timeout());
        let mut claims = self.context.fleet.claims();
        if let Some(claim) = claims.held.iter_mut().find(|claim| claim.number == self.number) {
            claim.until = Some(until);
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").finish_non_exhaustive()
    }
}

/// Reports the news of one node to its fleet while the fleet exists.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    id: NodeId,
    client: ClientId,
    fleet: Weak<Fleet>,
}

impl Watcher {
    pub(crate) fn new(id: NodeId, client: ClientId, fleet: &Arc<Fleet>) -> Self {
        Self { id, client, fleet: Arc::downgrade(fleet) }
    }

    /// Whether the fleet still exists.
    pub(crate) fn is_needed(&self) -> bool {
        self.fleet.strong_count() > 0
    }

    /// As [`NodeContext::changed`].
    pub(crate) fn changed(&self) {
        if let Some(fleet) = self.fleet.upgrade() {
            fleet.change();
        }
    }

    /// As [`NodeContext::freed`].
    pub(crate) fn freed(&self, resource: &Resource) {
        if let Some(fleet) = self.fleet.upgrade() {
            fleet.free(self.id, resource);
        }
    }

    /// The client that is told.
    pub(crate) const fn client(&self) -> ClientId {
        self.client
    }

    /// As [`NodeContext::line`].
    pub(crate) fn line(&self, resource: &Resource, hint: LineHint) {
        if let Some(fleet) = self.fleet.upgrade() {
            fleet.line(self.id, resource, hint);
        }
    }
}

/// Hears that a key is gone on a node.
type FreedListener = Box<dyn Fn(NodeId, &Resource) + Send + Sync>;

/// Hears what a node says of a line.
type LineListener = Box<dyn Fn(NodeId, &Resource, LineHint) + Send + Sync>;

/// Hears that a node has a new connection.
type ConnectionListener = Box<dyn Fn(NodeId) + Send + Sync>;

/// What the nodes of one `Redlock` share.
#[derive(Default)]
pub(crate) struct Fleet {
    claims: Lock<Claims>,
    pub(crate) changed: Notify,
    /// Wakes the one task that looks after admission: `notify_one` keeps a permit while that is busy.
    pub(crate) attention: Notify,
    /// Wakes the same task while it is busy: a node has refused.
    pub(crate) refused: Notify,
    /// How soon unreachable nodes are tried again.
    pub(crate) haste: Haste,
    /// A node has a new connection that the admission task has not seen.
    has_connected: AtomicBool,
    /// While it is unset, nothing happens.
    on_freed: OnceLock<FreedListener>,
    /// The same.
    on_line: OnceLock<LineListener>,
    /// The same.
    on_connected: OnceLock<ConnectionListener>,
}

impl Fleet {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock()
    }

    /// A node's status has changed.
    pub(crate) fn change(&self) {
        self.attention.notify_one();
        self.tell();
    }

    /// Calls `listener` for each key that a node reports gone, on the reporting thread. The first listener stays. It
    /// must not keep the fleet alive.
    pub(crate) fn on_freed(&self, listener: impl Fn(NodeId, &Resource) + Send + Sync + 'static) {
        let _ = self.on_freed.set(Box::new(listener));
    }

    /// A key is gone on a node. A panic of the listener does not reach the node.
    fn free(&self, node: NodeId, resource: &Resource) {
        if let Some(listener) = self.on_freed.get() {
            shielded(|| listener(node, resource));
        }
    }

    /// Calls `listener` for each hint of a node about a line, in the same way.
    pub(crate) fn on_line(
        &self,
        listener: impl Fn(NodeId, &Resource, LineHint) + Send + Sync + 'static,
    ) {
        let _ = self.on_line.set(Box::new(listener));
    }

    fn line(&self, node: NodeId, resource: &Resource, hint: LineHint) {
        if let Some(listener) = self.on_line.get() {
            shielded(|| listener(node, resource, hint));
        }
    }

    /// Calls `listener` for each new connection of a node, in the same way.
    pub(crate) fn on_connected(&self, listener: impl Fn(NodeId) + Send + Sync + 'static) {
        let _ = self.on_connected.set(Box::new(listener));
    }

    /// Whether a node has connected since the last call.
    pub(crate) fn take_connected(&self) -> bool {
        self.has_connected.swap(false, Ordering::AcqRel)
    }

    fn connected(&self, node: NodeId) {
        // `changed` follows and makes the task look: a notification here would be one probe more.
        self.has_connected.store(true, Ordering::Release);
        if let Some(listener) = self.on_connected.get() {
            shielded(|| listener(node));
        }
    }

    /// Wakes every task that waits for nodes.
    pub(crate) fn tell(&self) {
        self.changed.notify_waiters();
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("claims", &self.claims).finish_non_exhaustive()
    }
}

/// The identities that nodes have claimed.
#[derive(Debug, Default)]
struct Claims {
    held: Vec<Claimed>,
    /// The number of the latest one.
    next: u64,
}

#[derive(Debug)]
struct Claimed {
    /// A node may have several claims: of connections that have just ended, and of the next one.
    number: u64,
    id: NodeId,
    address: Arc<str>,
    identity: String,
    /// Until when it still counts after its connection has ended.
    until: Option<Timestamp>,
}

#[cfg(test)]
#[path = "context_test.rs"]
mod tests;

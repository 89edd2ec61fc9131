//! What a node is given when it starts: its place, the runtime, and what the nodes tell of themselves and each other.
//!
//! It decides one thing: two nodes that are the same server at the same time are not both accepted. What a node tells
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
    /// What the names of all resources begin with.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only a server has rights"))]
    pub(crate) key_prefix: Vec<u8>,
    /// Who this is in the lines on the nodes.
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

    /// The nodes of the fleet, by their names: a node that belongs to other ones must not vote.
    pub fn members(&self) -> &Members {
        &self.settings.members
    }

    /// How long a node keeps the counter of a resource that nobody acquires, at the least. It may keep it for ever; one
    /// that drops it raises the floor of absent counters above it in the same step.
    pub fn counter_retention(&self) -> Duration {
        self.settings.counter_retention
    }

    /// A key that the user of this crate may well use, to ask with whether a command may be run. It is never touched:
    /// in classic mode it could be anybody's.
    #[cfg(feature = "redis")]
    pub(crate) fn probe(&self) -> Vec<u8> {
        [self.settings.key_prefix.as_slice(), b"quorlock:rights"].concat()
    }

    /// Whether leases are taken without fencing tokens and admission.
    pub fn classic(&self) -> bool {
        self.settings.classic
    }

    /// Whether a server that may evict keys is accepted all the same.
    pub fn allow_eviction(&self) -> bool {
        self.settings.allow_eviction
    }

    /// Whether this client lets nodes vote at once that may have forgotten leases, and so admits them for everybody
    /// (`Builder::danger_skip_quarantine`). A node over a network refuses itself then, with
    /// [`Refusal::NotThrowaway`](super::Refusal::NotThrowaway), unless it is known to be one that may be thrown away.
    /// One in this process need not ask.
    pub fn skips_quarantine(&self) -> bool {
        self.settings.skips_quarantine
    }

    /// The longest pause before the next attempt to connect, before chance is added.
    #[cfg(feature = "redis")]
    pub(super) fn longest_pause(&self) -> Duration {
        self.fleet.haste.longest_pause()
    }

    /// Tells whoever waits for nodes that this one's status has changed.
    pub fn changed(&self) {
        self.fleet.change();
    }

    /// Tells that the key of `resource` is gone on this node, by whomever it was deleted, so that somebody who waits
    /// for it may try now.
    ///
    /// It is a hint that costs nothing to leave out: who waits tries again by itself. It may come late, twice, or for
    /// a key that is there again. Call it under no lock of the node's: what follows may ask the node something.
    pub fn freed(&self, resource: &Resource) {
        self.fleet.free(self.id, resource);
    }

    /// Who this client is in the lines on the nodes.
    pub fn client(&self) -> ClientId {
        self.settings.client
    }

    /// Tells what this node says of the line for `resource`.
    ///
    /// It is a hint, as [`freed`](NodeContext::freed): it may come late, twice, or be wrong, and who waits tries again by
    /// itself. Call it under no lock of the node's.
    pub fn line(&self, resource: &Resource, hint: LineHint) {
        self.fleet.line(self.id, resource, hint);
    }

    /// Tells that what this node says of lines was not heard up to now, since it has a new connection: whoever waits there
    /// asks once. What is held is renewed soon after it votes, since it may have lost the keys meanwhile. Call it before
    /// [`changed`](NodeContext::changed).
    pub fn connected(&self) {
        self.fleet.connected(self.id);
    }

    /// A way to tell of these things that does not keep the fleet alive.
    pub(crate) fn watcher(&self) -> Watcher {
        Watcher::new(self.id, self.settings.client, &self.fleet)
    }

    /// Claims the identity of a server for this node: `run_id` in Redis, anything unique per process. Keep what is
    /// returned for as long as the connection lasts, and no longer: servers may exchange their addresses. Other nodes
    /// may claim the server a node timeout after that, when no round is left that has counted a vote of this one.
    ///
    /// # Errors
    ///
    /// The address of the node that is the same server already. This node must then not vote; try again later.
    pub fn claim(&self, address: &Arc<str>, identity: &str) -> Result<Claim, Arc<str>> {
        // Read before the lock is taken: it is code of the user's.
        let now = self.runtime.steady();
        let mut claims = self.fleet.claims();
        // Claims of connections that ended a node timeout ago are dropped here, where the next one asks.
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

/// A server that is taken for one node, made by [`NodeContext::claim`]. Dropping it gives the server up: a node
/// timeout later another node may claim it.
#[must_use = "dropping it gives the server up"]
pub struct Claim {
    context: NodeContext,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A round that has counted what the server granted by this connection could have it confirmed by another
        // node's, and so count it twice. Every round that was begun before now is over by then.
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

/// Tells a fleet of one of its nodes, as long as it is there.
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

    /// Whether there is anybody to tell still.
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

    /// Who is told.
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
    /// For the one task that looks after admission: `notify_one` keeps a permit while that is busy.
    pub(crate) attention: Notify,
    /// For the same task, while it is busy: a node has refused.
    pub(crate) refused: Notify,
    /// How soon nodes are tried again that are away.
    pub(crate) haste: Haste,
    /// A node has a new connection, which whoever looks after admission has not seen.
    has_connected: AtomicBool,
    /// Nothing happens while there is none.
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

    /// Calls `listener` for each key that a node says is gone, on the thread that the node says it on. The first
    /// listener stays. It must not keep the fleet alive.
    pub(crate) fn on_freed(&self, listener: impl Fn(NodeId, &Resource) + Send + Sync + 'static) {
        let _ = self.on_freed.set(Box::new(listener));
    }

    /// A key is gone on a node. A panic of the listener's is none of the node's business.
    fn free(&self, node: NodeId, resource: &Resource) {
        if let Some(listener) = self.on_freed.get() {
            shielded(|| listener(node, resource));
        }
    }

    /// Calls `listener` for each thing that a node says of a line, in the same way.
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

    /// Whether a node has connected since this was asked last.
    pub(crate) fn take_connected(&self) -> bool {
        self.has_connected.swap(false, Ordering::AcqRel)
    }

    fn connected(&self, node: NodeId) {
        // The change that follows has it seen: a notification of its own would be one probe more.
        self.has_connected.store(true, Ordering::Release);
        if let Some(listener) = self.on_connected.get() {
            shielded(|| listener(node));
        }
    }

    /// Tells whoever waits for nodes to look again.
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
    /// One node may have several: of connections that have just ended, and of the next one.
    number: u64,
    id: NodeId,
    address: Arc<str>,
    identity: String,
    /// Up to when it counts still, once its connection has ended.
    until: Option<Timestamp>,
}

#[cfg(test)]
#[path = "context_test.rs"]
mod tests;

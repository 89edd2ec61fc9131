//! What a node is given when it starts: its place, the runtime, and what the fleet knows of each other.
//!
//! It decides one thing: two nodes that are the same server at the same time are not both accepted.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    config::Config,
    protocol::{NodeId, Timestamp},
    runtime::Runtime,
};

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
    fleet_name: Arc<str>,
    counter_retention: Duration,
    /// A key that the user of this crate may well use, to ask for rights with.
    #[cfg(feature = "redis")]
    probe: Arc<[u8]>,
}

impl NodeContext {
    pub(crate) fn new(
        id: NodeId,
        runtime: Arc<dyn Runtime>,
        fleet: Arc<Fleet>,
        config: &Config,
        nodes: usize,
    ) -> Self {
        Self {
            id,
            runtime,
            fleet,
            fleet_name: Arc::from(format!("{}/{nodes}", config.fleet)),
            #[cfg(feature = "redis")]
            probe: Arc::from([config.key_prefix.as_slice(), b"quorlock:rights"].concat()),
            counter_retention: config.counter_retention,
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

    /// The name of the fleet, and the number of its nodes: a node that belongs to another one must not vote.
    pub const fn fleet(&self) -> &Arc<str> {
        &self.fleet_name
    }

    /// How long a node keeps the counter of a resource that nobody acquires, at the least. It may keep it for ever; one
    /// that drops it raises the floor of absent counters above it in the same step.
    pub const fn counter_retention(&self) -> Duration {
        self.counter_retention
    }

    /// A key to ask with whether the user of the server may run a command. It is never touched: in classic mode
    /// it could be anybody's.
    #[cfg(feature = "redis")]
    pub(crate) fn probe(&self) -> &[u8] {
        &self.probe
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

    /// Claims the identity of a server for this node: `run_id` in Redis, anything unique per process. Keep what is
    /// returned for as long as the connection lasts, and no longer: servers may exchange their addresses. Other nodes
    /// may claim the server a node timeout after that, when no round is left that has counted a vote of this one.
    ///
    /// # Errors
    ///
    /// The address of the node that is the same server already. This node must then not vote; try again later.
    pub fn claim(&self, address: &Arc<str>, identity: &str) -> Result<Claim, Arc<str>> {
        let mut claims = self.fleet.claims();
        let now = self.runtime.steady();
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
        let until = self.context.runtime.steady().saturating_add(self.context.node_timeout);
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
    claims: Mutex<Claims>,
    pub(crate) changed: Notify,
    /// For the one task that looks after admission.
    pub(crate) attention: Notify,
}

impl Fleet {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
mod tests {
    use super::*;
    use crate::runtime::Task;

    /// A time that is set by hand.
    #[derive(Debug, Default)]
    struct Clock(Mutex<Duration>);

    impl Clock {
        fn pass(&self, time: Duration) {
            *self.0.lock().unwrap() += time;
        }
    }

    impl Runtime for Clock {
        fn now(&self) -> Timestamp {
            Timestamp::from_origin(*self.0.lock().unwrap())
        }

        fn wall_us(&self) -> u64 {
            0
        }

        fn sleep_until(&self, _: Timestamp) -> Task {
            Box::pin(std::future::pending())
        }

        fn spawn(&self, _: Task) {}

        fn random(&self) -> [u8; 16] {
            [0; 16]
        }
    }

    #[test]
    fn a_claim_keeps_other_nodes_out_until_the_rounds_of_its_connection_are_over() {
        let clock = Arc::new(Clock::default());
        let fleet = Arc::new(Fleet::default());
        let config = Config::default();
        let context = |id| {
            let runtime = Arc::clone(&clock) as Arc<dyn Runtime>;
            NodeContext::new(NodeId::new(id), runtime, Arc::clone(&fleet), &config, 3)
        };
        let (one, two) = (context(0), context(1));
        let (a, b) = (Arc::from("a:1"), Arc::from("b:1"));
        let first = one.claim(&a, "server").unwrap();
        assert_eq!(two.claim(&b, "server").unwrap_err(), a);
        // The node itself comes back at once. That its last claim ends does not end this one.
        drop(first);
        let next = one.claim(&a, "server").unwrap();
        clock.pass(config.node_timeout);
        assert_eq!(two.claim(&b, "server").unwrap_err(), a);
        drop(next);
        clock.pass(config.node_timeout - Duration::from_millis(1));
        assert_eq!(two.claim(&b, "server").unwrap_err(), a, "a round may have counted its vote");
        clock.pass(Duration::from_millis(1));
        let moved = two.claim(&b, "server").unwrap();
        assert_eq!(one.claim(&a, "server").unwrap_err(), b);
        assert_eq!(fleet.claims().held.len(), 1, "what is over is forgotten");
        drop(moved);
    }
}

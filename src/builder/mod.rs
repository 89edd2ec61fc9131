//! The builder: settings, and the runtime to run on.
//!
//! It collects, checks once, and starts. Each setting is documented here, and nowhere else; `nodes` has the forms in
//! which a node is given.

mod env;
mod nodes;

use std::{sync::Arc, time::Duration};

use crate::{
    config::{Config, ConfigError},
    engine::Engine,
    error::ConnectError,
    node::NodeSpec,
    protocol::{AdmissionPolicy, Label},
    redlock::Redlock,
    runtime::{Runtime, TokioRuntime, block_on, process_label},
};

impl Redlock {
    /// Connects to the nodes with the default settings: [`Builder::connect`] without a change.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: too few nodes can be reached and may vote, or the list cannot work.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections. Nothing has been set on any node.
    pub async fn connect<I>(nodes: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: Into<NodeSpec>,
    {
        Self::builder().nodes(nodes).connect().await
    }

    /// [`connect`](Redlock::connect), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Redlock::connect).
    pub fn blocking_connect<I>(nodes: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: Into<NodeSpec>,
    {
        Self::builder().nodes(nodes).blocking_connect()
    }

    /// A builder, to choose settings before connecting.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Settings of a [`Redlock`], made by [`Redlock::builder`].
///
/// ```
/// use std::time::Duration;
/// use quorlock::{Redlock, node::MemoryNode};
///
/// # futures::executor::block_on(async {
/// let redlock = Redlock::builder()
///     .nodes([MemoryNode::new(), MemoryNode::new(), MemoryNode::new()])
///     .ttl(Duration::from_secs(5))
///     .node_timeout(Duration::from_millis(50))
///     .connect()
///     .await?;
/// # drop(redlock);
/// # Ok::<(), quorlock::ConnectError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until build or connect is called"]
pub struct Builder {
    config: Config,
    nodes: Vec<NodeSpec>,
    before: Vec<NodeSpec>,
    runtime: Option<Arc<dyn Runtime>>,
    #[cfg(feature = "redis")]
    tls: crate::node::redis::TlsSettings,
    #[cfg(feature = "redis")]
    credentials: Option<crate::node::redis::CredentialSource>,
}

impl Builder {
    /// The lifetime of a lease, unless the request sets another. Default 10 s, from 10 ms to `max_ttl`, in classic mode
    /// to a day.
    ///
    /// Too short, and a pause of the process, or work without renewal, outlives it; too long, and others wait that long
    /// after a crash.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.config.ttl = ttl;
        self
    }

    /// How long an acquire waits while another client holds the resource, or nodes are in quarantine, unless the
    /// request says otherwise. Default 15 s, any length.
    ///
    /// Too short, and callers fail just before the resource is free, or a new deployment votes (1.1 times `max_ttl` and
    /// two node timeouts); too long, and callers pile up.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.config.wait = wait;
        self
    }

    /// The least validity of a granted lease, unless the request says otherwise. Default zero: any.
    ///
    /// At zero a lease may be granted that ends in a moment. At or above the ttl minus its drift no round can be won,
    /// so that is refused.
    pub const fn min_validity(mut self, min_validity: Duration) -> Self {
        self.config.min_validity = min_validity;
        self
    }

    /// The allowance for clocks that run at different rates: `per_mille` thousandths of the ttl plus a fixed part.
    /// Default 10 and 2 ms, from 1 to 500 and from zero to 1 s.
    ///
    /// Too small, and a node with a fast clock forgets a lease that its holder still trusts (chrony may slew a clock by
    /// up to 83 per mille); too large, and validity is given away.
    pub const fn drift(mut self, per_mille: u32, fixed: Duration) -> Self {
        self.config.drift_per_mille = per_mille;
        self.config.drift_fixed = fixed;
        self
    }

    /// The time limit of one command to one node. Default 100 ms, from 1 ms to 60 s.
    ///
    /// Too short, and slow replies count as failures, so that rounds fail that would have been won; too long, and a
    /// round that needs a hung node takes that long to fail, out of the lease's validity. A minority of hung nodes
    /// costs nothing either way.
    pub const fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.config.node_timeout = node_timeout;
        self
    }

    /// The time limit for making and checking one connection. Default 1 s, from 10 ms to 60 s. No acquire waits for it.
    ///
    /// Too short, and a slow handshake never succeeds; too long, and a returning node is noticed late.
    pub const fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.config.connect_timeout = connect_timeout;
        self
    }

    /// The bounds of the ceiling of the pause between two rounds. Default 1 ms and 100 ms, from 100 us to 60 s.
    ///
    /// The ceiling is the measured round trip, doubled with each lost round. The pause is random, from a quarter of the
    /// ceiling to all of it. Too short, and waiters load the nodes; too long, and a released resource lies idle.
    pub const fn retry(mut self, min: Duration, max: Duration) -> Self {
        self.config.retry_min = min;
        self.config.retry_max = max;
        self
    }

    /// How long [`Redlock::close`] and [`Redlock::shutdown`] wait at most. Default 2 s, up to an hour.
    ///
    /// Too short, and releases are cut off and have to expire; too long, and a dead node delays the exit.
    pub const fn close_timeout(mut self, close_timeout: Duration) -> Self {
        self.config.close_timeout = close_timeout;
        self
    }

    /// Bytes put before every resource to make the key. Default none: the key is the resource itself, and excludes
    /// redsync, node-redlock, rslock, redlock and others on the same nodes. Up to 1024.
    ///
    /// It must not begin with `quorlock:`, where the nodes keep their own keys. `redlock:` matches RedLock.net and
    /// pottery. Processes with different prefixes do not exclude each other.
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.config.key_prefix = prefix.as_ref().to_vec();
        self
    }

    /// The name of the fleet, of 1 to 64 bytes; the default is `default`. Every process that configures these nodes
    /// gives the same.
    ///
    /// A node remembers the name of its fleet and the names of all nodes, and refuses processes of another fleet or
    /// with another list ([`Refusal::OtherMembers`](crate::node::Refusal::OtherMembers)): quorums of two lists that
    /// share a node need not meet. Give each of several fleets on one server its own database.
    pub fn fleet(mut self, name: impl Into<String>) -> Self {
        self.config.fleet = name.into();
        self
    }

    /// The name by which [`Redlock::holder`] shows the leases of this handle, such as `host/pid/name`: any 1 to 128
    /// bytes. By default there is none.
    ///
    /// The nodes keep it beside the fencing counter of each resource, with the time of the grant by this process's wall
    /// clock. That takes up to 144 bytes more for each acquire and, on each node, for each resource until its counter
    /// is dropped ([`counter_retention`](Builder::counter_retention)). A lease that is held for longer than that goes
    /// on without a label. Renewals keep it, and a node that lost the lease's key gets both back together. Without a
    /// label nothing is sent or kept. In classic mode nodes keep none.
    ///
    /// Nothing is decided by it, and everybody who can read the nodes can read it: no secrets.
    pub fn label(mut self, label: impl AsRef<[u8]>) -> Self {
        let label = label.as_ref();
        self.config.label = Label::new(label).map(Some).ok_or(label.len());
        self
    }

    /// A [`label`](Builder::label) that tells this process from others: `host/pid/program`, cut where a name is long.
    pub fn label_process(self) -> Self {
        self.label(process_label())
    }

    /// The certificate authority for `rediss://` nodes, in PEM, instead of the system's.
    #[cfg(feature = "tls-rustls")]
    pub fn tls_ca(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.tls.ca = Some(pem.as_ref().to_vec());
        self
    }

    /// The certificate and key, in PEM, by which this client identifies itself to `rediss://` nodes.
    #[cfg(feature = "tls-rustls")]
    pub fn tls_identity(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.tls.identity = Some((certificate.as_ref().to_vec(), key.as_ref().to_vec()));
        self
    }

    /// The longest ttl that any process of the fleet asks for. Default 10 s, from 10 ms to a day. A longer ttl is
    /// refused, except in classic mode, where nothing depends on it.
    ///
    /// A node that may have forgotten leases is kept from voting for a little longer than this. Too short, and the ttl
    /// that the work needs is refused; too long, and a restarted node, or a new deployment, waits that long. Nodes
    /// remember the longest value that they were told, and every process honours it.
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.config.max_ttl = max_ttl;
        self
    }

    /// How long a node keeps the fencing counter of a resource that is not acquired. Default an hour, from a second to
    /// 30 days. The counter is gone after one to two of these, at a client's look; each client looks every ten seconds.
    ///
    /// Tokens rise all the same, since the floor is raised above every dropped counter. Too short, and tokens jump to
    /// that floor, which runs up to a minute ahead of the clocks, and acquires take longer paths; too long, and names
    /// that are used once fill the nodes (`docs/deploying.md` has the formula). Every process gives the same: where
    /// they differ, each looks by its own, so that about the shortest counts. A [`MemoryNode`](crate::node::MemoryNode)
    /// keeps counters for ever.
    pub const fn counter_retention(mut self, retention: Duration) -> Self {
        self.config.counter_retention = retention;
        self
    }

    /// Does not renew leases, unless a request asks for it by [`with_renewal`](crate::Acquire::with_renewal). By
    /// default they are renewed.
    pub const fn without_renewal(mut self) -> Self {
        self.config.renewal.renew = false;
        self
    }

    /// The longest time that a lease is held in all, unless the request says otherwise. After it, the lease is neither
    /// renewed nor extended. Default: no limit.
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.config.renewal.max_hold = Some(max_hold);
        self
    }

    /// How long a resource that no request here waits for is kept after its last release, unless the request says
    /// otherwise: see [`Acquire::linger`](crate::Acquire::linger). Default: not at all.
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.config.linger = linger;
        self
    }

    /// How long the nodes keep others out beyond what a holder believes, unless the request says otherwise: see
    /// [`Acquire::lock_delay`](crate::Acquire::lock_delay). Default: not at all. The ttl plus this delay must not
    /// exceed [`max_ttl`](Builder::max_ttl), and the defaults of those two are the same.
    pub const fn lock_delay(mut self, delay: Duration) -> Self {
        self.config.lock_delay = delay;
        self
    }

    /// Plain Redlock: `SET NX PX` without fencing tokens and without admission. Use it for nodes on which this crate
    /// must keep nothing but the locks, and for comparison. Releases and extensions are still scripts, so it needs
    /// `EVAL` and `EVALSHA`. A node that restarts without its data votes at once, so two holders are possible: keep
    /// such a node down for longer than the longest ttl.
    pub const fn classic(mut self) -> Self {
        self.config.classic = true;
        self
    }

    /// Where a majority of the nodes may have forgotten, as in a new deployment, admits no node until an operator says
    /// so (`docs/deploying.md`). By default such a fleet waits the quarantine, and its tokens continue from a minute
    /// ahead of the wall clock, or from the largest counter that is left if that is more.
    pub const fn strict_admission(mut self) -> Self {
        self.config.admission = AdmissionPolicy::Strict;
        self
    }

    /// Connecting fails unless every node is ready or in quarantine. By default a quorum is enough, and the log reports
    /// the other nodes at once and every minute: a node that is down as a warning, a node that must not vote as an
    /// error.
    ///
    /// Use it to find a misspelt or forgotten node at a deployment. A service that starts while a node is down then
    /// does not start. [`build`](Builder::build) does not wait, and so ignores it.
    pub const fn require_all_nodes(mut self) -> Self {
        self.config.require_all_nodes = true;
        self
    }

    /// Waits even while too few nodes can be reached. An acquire goes on until its deadline, as by
    /// [`Acquire::wait_through_outages`](crate::Acquire::wait_through_outages). [`connect`](Builder::connect) goes on
    /// for `wait`, or the connect timeout if that is longer. By default an acquire reports an outage after a quarter of
    /// its wait, and connecting at once.
    ///
    /// Use it for services that start together with their Redis, as in a `compose.yaml`. The wait of `connect` ends at
    /// once where so many nodes are refused that the others are no quorum, or the list itself is refused, since that
    /// does not end by itself. To wait not at all use [`build`](Builder::build).
    pub const fn wait_through_outages(mut self) -> Self {
        self.config.through_outages = true;
        self
    }

    /// Lets nodes vote at once, though they may have forgotten what they granted. A restart can then give two holders
    /// and repeat a token: only for throwaway nodes in development and tests.
    ///
    /// It lets them vote for every client, not only for this process. So it is honoured only for a node in this
    /// process, for a server on this machine (an address such as `127.0.0.1`, or a unix socket), and for a server that
    /// itself says that it may be thrown away: `redis-cli -h HOST SET quorlock:throwaway yes`, in the database that the
    /// URL names. Any other node is refused ([`Refusal::NotThrowaway`](crate::node::Refusal::NotThrowaway)). A tunnel
    /// that ends on this machine looks like a server on it: never let a tunnel to production be open beside this
    /// setting.
    pub const fn danger_skip_quarantine(mut self) -> Self {
        self.config.admission = AdmissionPolicy::DangerSkip;
        self
    }

    /// The runtime of rounds and timers, by value or in an `Arc`. Default [`TokioRuntime::shared`], one thread for the
    /// process.
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = Some(Arc::new(runtime));
        self
    }

    /// Accepts servers that may evict keys. An evicted lock is lost silently, and two holders follow: only for nodes
    /// whose memory never fills up.
    pub const fn danger_allow_eviction(mut self) -> Self {
        self.config.allow_eviction = true;
        self
    }

    /// Accepts two nodes. A failure of either stops every acquire, so two are less available than one.
    pub const fn danger_allow_two_nodes(mut self) -> Self {
        self.config.allow_two_nodes = true;
        self
    }

    /// Checks everything and starts to connect, without waiting for any node: for services that must start
    /// whatever state the nodes are in. Nodes that are down or must not vote are retried for ever, and shown
    /// by [`Redlock::nodes`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`]. Nothing has been connected.
    pub fn build(self) -> Result<Redlock, ConfigError> {
        self.config.validate()?;
        let (nodes, members, quorum) = self.open_nodes()?;
        // Last, so that a refused configuration starts no thread.
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => {
                let shared = TokioRuntime::shared();
                Arc::new(shared.map_err(|error| ConfigError::Runtime { error: Arc::new(error) })?)
            }
        };
        Ok(Redlock::new(Engine::start(self.config, nodes, (members, quorum), runtime)))
    }

    /// Builds, and waits until every node has been tried, even if one has been refused already. That takes at most the
    /// connect timeout and a node timeout.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a configuration that cannot work, or no quorum of nodes that can be reached and may vote. A
    /// minority that is down, or must not vote for a reason of its own such as its password, is no error, unless
    /// [`require_all_nodes`](Builder::require_all_nodes) is set; the log and [`Redlock::nodes`] tell of it. A node that
    /// shows the list itself to be wrong is always an error: the same server twice, a node of another fleet while no
    /// quorum votes, or a node for which [`danger_skip_quarantine`](Builder::danger_skip_quarantine) is not honoured.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections. Nothing has been set on any node.
    pub async fn connect(self) -> Result<Redlock, ConnectError> {
        self.build()?.connected().await
    }

    /// [`connect`](Builder::connect), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Builder::connect), and [`ConnectError::WouldDeadlock`].
    pub fn blocking_connect(self) -> Result<Redlock, ConnectError> {
        let redlock = self.build()?;
        if redlock.runs_here() {
            return Err(ConnectError::WouldDeadlock);
        }
        block_on(redlock.connected())
    }
}

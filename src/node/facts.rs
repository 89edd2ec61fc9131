//! What a server says of itself when it is asked for all that matters to a lock, and a page of the keys that it has.
//!
//! Plain values. They decide nothing: `inspect` judges them, for people, and no vote and no lease may rest on them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::protocol::Members;

/// What the server behind a node says of itself, whether or not it may vote. What it did not say, or may not be asked, is
/// `None`; a list is then empty.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerFacts {
    /// Its name and version, such as `redis 7.0.15`.
    pub version: Option<Arc<str>>,
    /// The version of Redis that it says it speaks, as two numbers: that of Valkey is another.
    pub speaks: Option<(u32, u32)>,
    /// What tells one process from another behind the same address.
    pub run_id: Option<Arc<str>>,
    /// `standalone`, `cluster` or `sentinel`.
    pub mode: Option<Arc<str>>,
    /// `master`, or `slave` of a replica.
    pub role: Option<Arc<str>>,
    /// How many replicas are connected to it.
    pub replicas: Option<u64>,
    /// Whether it is part of a cluster.
    pub cluster: Option<bool>,
    /// The most memory that it takes, in bytes; 0 is no limit.
    pub max_memory: Option<u64>,
    /// What it does when that is used up: `maxmemory-policy`.
    pub eviction: Option<Arc<str>>,
    /// The memory that it takes for its data, in bytes.
    pub used_memory: Option<u64>,
    /// Whether it writes each change to a file: `appendonly`.
    pub append_only: Option<bool>,
    /// When that file is flushed to the disk: `appendfsync`. It can be asked only where `CONFIG` may be used.
    pub append_fsync: Option<Arc<str>>,
    /// When it takes snapshots: `save`. It can be asked only where `CONFIG` may be used.
    pub save: Option<Arc<str>>,
    /// Why it cannot write its data to its disk, if that has failed last: it may refuse every write then.
    pub not_written: Option<Arc<str>>,
    /// The database that is used.
    pub database: i64,
    /// Whether TLS is spoken with it.
    pub encrypted: bool,
    /// Whether it is certainly on this machine.
    pub local: bool,
    /// The commands that are needed for locks and that this user may not run. A server before Redis 7 cannot say, but for
    /// those that were tried.
    pub missing_rights: Vec<Arc<str>>,
    /// Whether it carries the key by which a server says that it may be thrown away (`quorlock:throwaway`).
    pub throwaway: Option<bool>,
    /// What its marker says; none in classic mode, and of a server that no client has looked at yet.
    pub marker: Option<MarkerFacts>,
    /// What the looks at its clock have shown, in their order.
    pub samples: Vec<ClockSample>,
    /// How many looks at its clock got no answer within the connect timeout.
    pub unanswered: u32,
    /// Why nothing more could be asked, where its connection broke while it was looked at.
    pub lost: Option<Arc<str>>,
}

/// What a node's marker says, as it stands there. Others may have written anything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MarkerFacts {
    /// `ready` or `joining`, or `approved` by an operator.
    pub state: Option<Arc<str>>,
    /// The epoch in which it is so.
    pub epoch: Option<u64>,
    /// The nodes to which it belongs; `None` where no node of a list was let in here yet.
    pub members: Option<Members>,
    /// Since when it belongs to them, by its clock.
    pub since: Option<SystemTime>,
    /// Before it belongs to any: the nodes with which a client means to use it, or meant to.
    pub meant: Option<Members>,
    /// Until when they are meant, by its clock; `None` where it is held for them, which does not end by itself.
    pub meant_until: Option<SystemTime>,
    /// The longest ttl that it was told of.
    pub max_ttl: Option<Duration>,
}

/// One look at a node's clock: a command, and its reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClockSample {
    /// When the command was sent, by our steady clock, since the first look.
    pub sent: Duration,
    /// When the reply arrived, by the same clock.
    pub arrived: Duration,
    /// Our wall clock when the command was sent, in microseconds since 1970.
    pub wall_us: u64,
    /// The node's clock, in microseconds since 1970; `None` where this user may not ask for it.
    pub node_us: Option<u64>,
    /// How much later than it had asked for this process was woken before this look. On a busy machine a reply waits as long
    /// to be read, which is not the node's fault.
    pub woken_late: Duration,
}

impl ClockSample {
    /// A look with these readings.
    pub const fn new(
        sent: Duration,
        arrived: Duration,
        wall_us: u64,
        node_us: Option<u64>,
    ) -> Self {
        Self { sent, arrived, wall_us, node_us, woken_late: Duration::ZERO }
    }

    /// The same of a process that was woken so late before it.
    #[must_use]
    pub const fn woken_late(mut self, late: Duration) -> Self {
        self.woken_late = late;
        self
    }

    /// How long the reply took.
    pub const fn round_trip(&self) -> Duration {
        self.arrived.saturating_sub(self.sent)
    }
}

/// Which keys are asked for, and from where on.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Scan {
    /// Where the page before has ended; 0 begins.
    pub cursor: u64,
    /// Which names, as the server's `MATCH` reads them: `*` for any bytes, `?` for one, `[ab]` for one of these.
    pub pattern: Arc<[u8]>,
    /// About how many keys the server looks at.
    pub count: usize,
}

impl Scan {
    /// The first page of the names that match.
    pub const fn new(pattern: Arc<[u8]>, count: usize) -> Self {
        Self { cursor: 0, pattern, count }
    }
}

/// A page of the keys of a node that look like locks: their value is the owner of a lease, or says that readers share them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ScanPage {
    /// Where the next page begins; 0 where this was the last one.
    pub cursor: u64,
    /// The keys. One may be told twice, also in one page.
    pub keys: Vec<Box<[u8]>>,
}

impl ScanPage {
    /// A page that ends at this cursor.
    pub const fn new(cursor: u64, keys: Vec<Box<[u8]>>) -> Self {
        Self { cursor, keys }
    }
}

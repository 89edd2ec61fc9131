//! What a server reports of everything that matters to a lock, and a page of its keys or lines.
//!
//! Plain values. They decide nothing: `inspect` judges them, for people, and no vote and no lease may rest on them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::protocol::{LinePlace, Members, Slots};

/// What the server behind a node reports of itself, whether or not it may vote. A fact that it did not report, or may
/// not be asked for, is `None` or an empty list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerFacts {
    /// Its name and version, such as `redis 7.0.15`.
    pub version: Option<Arc<str>>,
    /// The version of Redis that it claims to speak, as two numbers. Valkey's own version is another.
    pub speaks: Option<(u32, u32)>,
    /// Distinguishes the processes behind one address.
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
    /// What it does at that limit: `maxmemory-policy`.
    pub eviction: Option<Arc<str>>,
    /// The memory that it takes for its data, in bytes.
    pub used_memory: Option<u64>,
    /// Whether it writes each change to a file: `appendonly`.
    pub append_only: Option<bool>,
    /// When that file is flushed to the disk: `appendfsync`. It can be asked only where `CONFIG` may be used.
    pub append_fsync: Option<Arc<str>>,
    /// When it takes snapshots: `save`. It can be asked only where `CONFIG` may be used.
    pub save: Option<Arc<str>>,
    /// Why its last write to disk failed, if it did: it may then refuse every write.
    pub not_written: Option<Arc<str>>,
    /// The database that is used.
    pub database: i64,
    /// Whether the connection uses TLS.
    pub encrypted: bool,
    /// Whether it is certainly on this machine.
    pub local: bool,
    /// The commands that locks need and this user may not run. A server before Redis 7 reports only those that were
    /// tried.
    pub missing_rights: Vec<Arc<str>>,
    /// Whether it has the key by which a server declares itself a throwaway (`quorlock:throwaway`).
    pub throwaway: Option<bool>,
    /// What its marker says; `None` in classic mode, and for a server that no client has looked at yet.
    pub marker: Option<MarkerFacts>,
    /// The clients of this crate that are connected to it, but this one; `None` where this user may not run `CLIENT LIST`.
    pub clients: Option<Vec<ConnectedClient>>,
    /// The samples of its clock, in order.
    pub samples: Vec<ClockSample>,
    /// How many samples of its clock got no answer within the connect timeout.
    pub unanswered: u32,
    /// Why its connection broke during the examination, after which nothing more was asked.
    pub lost: Option<Arc<str>>,
}

/// What a node's marker says, unchecked: other programs may have written anything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MarkerFacts {
    /// `ready` or `joining`, or `approved` by an operator.
    pub state: Option<Arc<str>>,
    /// The epoch of that state.
    pub epoch: Option<u64>,
    /// The nodes to which it belongs; `None` until a list of nodes has admitted it.
    pub members: Option<Members>,
    /// Since when it belongs to them, by its clock.
    pub since: Option<SystemTime>,
    /// Before it belongs to any: the nodes with which a client means, or meant, to use it.
    pub meant: Option<Members>,
    /// Until when that holds, by its clock; `None` for a hold, which does not end by itself.
    pub meant_until: Option<SystemTime>,
    /// The longest ttl that it was told of.
    pub max_ttl: Option<Duration>,
}

/// A client of this crate, as it has named its connection. Anybody may have written that.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub struct ConnectedClient {
    /// Distinguishes clients.
    pub client: Arc<str>,
    /// The names of the nodes in its list, as [`Members::names`] has them.
    pub members: Arc<str>,
    /// From where it is connected, without the port, as the server sees it.
    pub host: Option<Arc<str>>,
}

impl ConnectedClient {
    /// A client with this list.
    pub const fn new(client: Arc<str>, members: Arc<str>) -> Self {
        Self { client, members, host: None }
    }

    /// The same, connected from this host.
    #[must_use]
    pub fn at(mut self, host: Option<Arc<str>>) -> Self {
        self.host = host;
        self
    }
}

/// One sample of a node's clock: a command and its reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClockSample {
    /// When the command was sent, by our steady clock, since the first sample.
    pub sent: Duration,
    /// When the reply arrived, by the same clock.
    pub arrived: Duration,
    /// Our wall clock when the command was sent, in microseconds since 1970.
    pub wall_us: u64,
    /// The node's clock, in microseconds since 1970; `None` where this user may not ask for it.
    pub node_us: Option<u64>,
    /// How much too late this process was woken before this sample. On a busy machine a reply waits as long to be read,
    /// which is not the node's fault.
    pub woken_late: Duration,
}

impl ClockSample {
    /// A sample with these readings.
    pub const fn new(
        sent: Duration,
        arrived: Duration,
        wall_us: u64,
        node_us: Option<u64>,
    ) -> Self {
        Self { sent, arrived, wall_us, node_us, woken_late: Duration::ZERO }
    }

    /// The same sample, of a process that was woken this late.
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

/// A request for one page of keys, or of lines.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Scan {
    /// The cursor of the page before; 0 begins.
    pub cursor: u64,
    /// The pattern of the names, as the server's `MATCH` reads it: `*` for any bytes, `?` for one, `[ab]` for one of
    /// these.
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

/// A page of what a node has: of keys that look like locks, whose value is the owner of a lease, or says that readers share
/// them; or of lines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// Where the next page begins; 0 where this was the last one.
    pub cursor: u64,
    /// What was found. It may appear twice, even in one page.
    pub found: Vec<T>,
}

impl<T> Page<T> {
    /// A page that ends at this cursor.
    pub const fn new(cursor: u64, found: Vec<T>) -> Self {
        Self { cursor, found }
    }
}

/// A line on a node: those who wait there for a resource, or for any slot of a semaphore.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeLine {
    /// The key for which they wait; of a semaphore its name, behind the key prefix too.
    pub key: Box<[u8]>,
    /// Whether it is a semaphore.
    pub is_semaphore: bool,
    /// The first of them, in order.
    pub first: Vec<LinePlace>,
    /// How many wait, those told included.
    pub waiting: usize,
}

impl NodeLine {
    /// How many places a node tells.
    pub const TOLD: usize = 100;

    /// A line with the key that stands in its name.
    pub fn new(line: &[u8], first: Vec<LinePlace>, waiting: usize) -> Self {
        let semaphore = Slots::semaphore_of_line(line);
        let key = Box::from(semaphore.unwrap_or(line));
        Self { key, is_semaphore: semaphore.is_some(), first, waiting }
    }
}

//! The status of a node, for a user to look at. Nothing is decided by it.

use std::{sync::Arc, time::Duration};

use super::refusal::Refusal;

/// Whether a node can be asked.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeState {
    /// The first connection is being made.
    Connecting,
    /// It is connected, checked, and votes.
    Ready,
    /// It is connected but does not vote yet, because it may have forgotten what it granted: it has restarted, has lost
    /// its data, is new, or its clock has jumped. Its marker says *joining*.
    Quarantined {
        /// How long the quarantine still lasts; at most a little longer if other nodes cannot be reached.
        remaining: Duration,
    },
    /// There is no connection, or its marker cannot be read or set; another attempt is under way or due.
    Down {
        /// Why the last attempt failed, or the connection was given up.
        reason: Arc<str>,
    },
    /// It answers and is not allowed to vote; it is checked again from time to time.
    Refused(Refusal),
}

/// Whether waiters for a resource queue in a line on a node, and the node wakes them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LineState {
    /// The node has not been connected yet, or does not say.
    #[default]
    Unknown,
    /// Yes.
    On,
    /// No: waiters poll this node. Locks work as with a line.
    Off {
        /// Why, for people to read.
        reason: Arc<str>,
    },
}

/// The status of one node, as last seen.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its address, without credentials.
    pub address: Arc<str>,
    /// Whether it can be asked.
    pub state: NodeState,
    /// The server's name and version, once known.
    pub version: Option<Arc<str>>,
    /// Distinguishes the processes behind this address, once known: `run_id` in Redis.
    pub identity: Option<Arc<str>>,
    /// The epoch of its marker in which it was last seen ready, once known.
    pub epoch: Option<u64>,
    /// How many attempts to connect have failed since the last connection, or ever. Zero for a node that does not count
    /// them.
    pub failed_attempts: u64,
    /// The smoothed time of one command and its reply, once measured.
    pub round_trip: Option<Duration>,
    /// Whether waiters queue in a line there.
    pub line: LineState,
    /// The offset of its clock from ours, as of its last reply. A constant offset does no harm; a changing one does.
    pub clock: Option<ClockOffset>,
}

/// The offset of a node's clock from this process's wall clock, up to the time that a reply takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a clock is ahead or behind; there is no third")]
pub enum ClockOffset {
    /// The node's clock shows a later time.
    Ahead(Duration),
    /// The node's clock shows an earlier time, or the same.
    Behind(Duration),
}

impl ClockOffset {
    /// From two readings in microseconds.
    #[cfg(any(feature = "redis", feature = "inspect"))]
    pub(crate) fn between(node_us: u64, ours_us: u64) -> Self {
        // Both are unsigned: the difference has a sign only here.
        match node_us.checked_sub(ours_us) {
            Some(ahead) if ahead > 0 => Self::Ahead(Duration::from_micros(ahead)),
            _ => Self::Behind(Duration::from_micros(ours_us.saturating_sub(node_us))),
        }
    }
}

impl NodeStatus {
    /// The status of a node with nothing else known.
    pub const fn new(address: Arc<str>, state: NodeState) -> Self {
        Self {
            address,
            state,
            version: None,
            identity: None,
            epoch: None,
            failed_attempts: 0,
            round_trip: None,
            line: LineState::Unknown,
            clock: None,
        }
    }
}

//! How a node is, for a user to look at. Nothing is decided by it.

use std::{sync::Arc, time::Duration};

use super::error::Refusal;

/// Whether a node can be asked.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeState {
    /// The first connection is being made.
    Connecting,
    /// It is connected, checked, and votes.
    Ready,
    /// There is no connection; another attempt is under way or due.
    Down {
        /// Why the last attempt failed, or the connection was given up.
        reason: Arc<str>,
    },
    /// It answers and is not allowed to vote; it is checked again from time to time.
    Refused(Refusal),
}

/// How one node is, as last seen.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its address, without credentials.
    pub address: Arc<str>,
    /// Whether it can be asked.
    pub state: NodeState,
    /// The server's name and version, once known.
    pub version: Option<Arc<str>>,
    /// The smoothed time of one command and its reply, once measured.
    pub round_trip: Option<Duration>,
}

impl NodeStatus {
    /// The status of a node of which no more than this is known.
    pub const fn new(address: Arc<str>, state: NodeState) -> Self {
        Self { address, state, version: None, round_trip: None }
    }
}

//! What has come of the nodes' standing, for a log. Nothing is decided by it.

use alloc::boxed::Box;
use core::time::Duration;

use super::{AdmissionBlock, Blame, Floor};
use crate::protocol::command::NodeId;

/// What has happened, for a log. Nothing depends on whether it is read.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AdmissionNews {
    /// A node has begun to wait.
    Quarantined {
        /// Which.
        node: NodeId,
        /// How long that still lasts, as far as the longest ttl is known.
        quarantine: Duration,
    },
    /// A node whose quarantine is over has to wait longer.
    HeldBack {
        /// Which.
        node: NodeId,
        /// Why.
        block: AdmissionBlock,
    },
    /// A node has been admitted by this client.
    Admitted {
        /// Which.
        node: NodeId,
        /// From where its counters go on.
        floor: Floor,
    },
    /// Jumps have been judged: who is to blame for that of each node, where there is one.
    Judged(Box<[Option<Blame>]>),
}

//! What has come of the nodes' standing, for a log. Nothing is decided by it.

use alloc::boxed::Box;
use core::time::Duration;

use super::{AdmissionBlock, ClockFault, Floor};
use crate::command::NodeId;

/// What has happened, for a log. Nothing depends on whether it is read.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
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
    /// This client uses longer leases than a node knew of, which waits for longer from now on where it may have forgotten.
    MaxTtlRaised {
        /// Which node said so first.
        node: NodeId,
        /// The longest ttl that it knew of.
        from: Duration,
        /// That of this client.
        to: Duration,
    },
    /// Jumps have been judged: who is to blame for that of each node, where there is one.
    Judged(Box<[Option<ClockFault>]>),
}

//! Events of the nodes' standing, for a log. They decide nothing.

use alloc::boxed::Box;
use core::time::Duration;

use super::{AdmissionBlock, ClockFault, Floor};
use crate::command::NodeId;

/// An event, for a log. Nothing depends on whether it is read.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum AdmissionNews {
    /// A node has begun to wait.
    Quarantined {
        /// Which.
        node: NodeId,
        /// The time left, by the longest ttl known.
        quarantine: Duration,
    },
    /// A node whose quarantine is over has to wait longer.
    HeldBack {
        /// Which.
        node: NodeId,
        /// Why.
        block: AdmissionBlock,
    },
    /// This client has admitted a node.
    Admitted {
        /// Which.
        node: NodeId,
        /// Where its counters go on.
        floor: Floor,
    },
    /// This client uses longer leases than a node knew of. From now on the node's quarantines last longer.
    MaxTtlRaised {
        /// Which node said so first.
        node: NodeId,
        /// The longest ttl that it knew of.
        from: Duration,
        /// This client's longest ttl.
        to: Duration,
    },
    /// A majority of the list before a change is sealed. The nodes of the list behind it are opened after this wait.
    Sealed {
        /// How long.
        wait: Duration,
    },
    /// This client opens the nodes of the list behind a change, as the first.
    Opened,
    /// Clock jumps were judged: per node with a jump, whose clock is to blame.
    Judged(Box<[Option<ClockFault>]>),
}

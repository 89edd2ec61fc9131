//! Why a detached lease was not adopted.

use std::{fmt, sync::Arc};

/// Why a detached lease was not adopted.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NotAdopted {
    /// Its keys are gone from too many nodes: its time was over, or nodes have forgotten it. Acquire the resource.
    Over,
    /// Another owner has had its keys on a quorum for a node timeout, or in a single round: it was adopted before, or it was over and the resource was acquired. Acquire
    /// the resource, which waits.
    Taken,
    /// The wait ended first: others tried to adopt it at the same time, or too few nodes still have its keys and too few
    /// have lost them. Try again, or acquire the resource.
    Undecided,
    /// It is of another fleet. Nothing was sent. Adopt it with a [`Redlock`](crate::Redlock) of that fleet.
    OtherFleet {
        /// The fleet of the lease.
        of: Arc<str>,
        /// The fleet of the `Redlock`.
        ours: Arc<str>,
    },
}

impl fmt::Display for NotAdopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over => f.write_str(
                "the detached lease is over: its keys are gone from too many nodes; nothing of this attempt stays on the \
                 nodes; acquire the resource",
            ),
            Self::Taken => f.write_str(
                "the detached lease was adopted before, or it was over and the resource was acquired; nothing of this \
                 attempt stays on the nodes; acquire the resource, which waits",
            ),
            Self::Undecided => f.write_str(
                "the wait ended before the detached lease was adopted: others tried at the same time, or too few nodes \
                 have its keys; what this attempt took is being given back to it; try again, or acquire the resource",
            ),
            Self::OtherFleet { of, ours } => write!(
                f,
                "the detached lease is of the fleet `{}`, and this is the fleet `{}`; nothing was sent; adopt it with a \
                 Redlock of its fleet",
                of.escape_debug(),
                ours.escape_debug()
            ),
        }
    }
}

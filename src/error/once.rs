//! Why work of a period was not begun, or is not known to be done.
//!
//! One error for each verb; none has a source, since its text is complete.

use std::time::Duration;

use thiserror::Error;

use super::{AcquireError, Reports, WOULD_DEADLOCK};
use crate::text::counted;

/// Why it is not known whether the work of a period is due, or the work was not begun. Nothing of it stays on the nodes, but for a ttl
/// where the runtime has ended.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The length of a period is less than 1 ms, or more than 366 days. Nothing was sent.
    #[error("a period of {every:?} is out of range; nothing was sent; ask for 1 ms to 366 days")]
    Period {
        /// What was asked for.
        every: Duration,
    },
    /// It was asked for several resources, or for a detached lease. Nothing was sent. Name the work by one resource.
    #[error(
        "only a request for one resource can be once per period; nothing was sent; name the work by one resource"
    )]
    NotOne,
    /// It waited for so long that the nodes may have forgotten who has done the work, or its moment was that long ago, or it
    /// lost the lease again. Nothing stays on the nodes. Ask again, for the present period.
    #[error(
        "it took {waited:?} to be granted, or its moment was long ago, and of a period of {every:?} the nodes may have \
         forgotten by then who has done the work; nothing stays on the nodes; ask again"
    )]
    Late {
        /// How long it has waited.
        waited: Duration,
        /// The length of the period.
        every: Duration,
    },
    /// Too few nodes said whether the work is done. The lease under which they were asked has been released. Ask again, or
    /// repair the nodes that failed.
    #[error(
        "it is not known whether the work is done: {answered} of {} said so; the lease is given back; ask again, or repair \
         the nodes that failed{}",
        counted(*needed, "needed node"), .nodes.after_look(": ")
    )]
    Unknown {
        /// How many nodes have answered.
        answered: usize,
        /// The nodes that were needed.
        needed: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// The lease was not acquired. In classic mode it is [`AcquireError::Unsupported`].
    #[error("the work was not begun: {0}")]
    Acquire(AcquireError),
}

debug_is_text! { enum OnceError {
    Period { every },
    NotOne,
    Late { waited, every },
    Unknown { answered, needed, nodes },
    Acquire(error),
} }

impl OnceError {
    /// Whether another client is at the work now, or several asked at once and none was first.
    #[must_use]
    pub const fn is_contended(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_contended())
    }
}

// Not by `#[from]`, which would make it a source.
impl From<AcquireError> for OnceError {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

/// Why it is not certain that others know that the work is done. The lease is as it was.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum DoneError {
    /// Fewer than a quorum of nodes have taken it within ten node timeouts; those keep it. If the lease ends now, somebody
    /// may do the work again. Call it again, or let the work bear that.
    #[error(
        "the work is done, and {told} of {} took that within ten node timeouts; it may be done again in this period; \
         call it again while the lease holds{}",
        counted(*needed, "needed node"), .nodes.after_look(": ")
    )]
    Unconfirmed {
        /// How many nodes have taken it.
        told: usize,
        /// The nodes that were needed.
        needed: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// The runtime has ended, or this process was forked and the lease is its parent's. Some nodes may have taken it.
    /// Call it in the process that did the work.
    #[error(
        "the runtime ended, or this process was forked; it is not known whether any node took it; call it in the process \
         that did the work"
    )]
    RuntimeEnded,
    /// The blocking form was called on the very thread that has to answer it. Nothing was sent. Await it there, or block
    /// another thread.
    #[error("{WOULD_DEADLOCK}; nothing was sent; await it instead, or block another thread")]
    WouldDeadlock,
}

debug_is_text! { enum DoneError {
    Unconfirmed { told, needed, nodes },
    RuntimeEnded,
    WouldDeadlock,
} }

//! Why there is no semaphore: what was asked for, or of whom.

use std::sync::Arc;

use thiserror::Error;

use crate::protocol::{NodeId, SlotsError};

/// Why there is no such semaphore. Nothing has been sent.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// No permits, too many of them, or a name that cannot be one. The field says what is accepted.
    #[error("{0}")]
    Slots(SlotsError),
    /// In classic mode nodes set the key that they are told, and cannot pick one that is free. Leave out
    /// [`Builder::classic`](crate::Builder::classic).
    #[error("in classic mode a node cannot pick a permit that is free, leave out Builder::classic")]
    Classic,
    /// A node of a user's does not pick slots. Have it do so, and say so by
    /// [`Node::picks_slots`](crate::node::Node::picks_slots).
    #[error("{node} ({address}) does not pick a permit that is free, see Node::picks_slots")]
    PicksNone {
        /// The first of them.
        node: NodeId,
        /// Its address, without credentials.
        address: Arc<str>,
    },
}

debug_is_text! { enum SemaphoreError {
    Slots(error),
    Classic,
    PicksNone { node, address },
} }

impl From<SlotsError> for SemaphoreError {
    fn from(error: SlotsError) -> Self {
        Self::Slots(error)
    }
}

//! Why several resources cannot be had at once, or one by several readers: what was asked for, or of whom.

use std::sync::Arc;

use thiserror::Error;

use super::AcquireError;
use crate::protocol::{NodeId, ResourceSetError};

/// Why several resources cannot be had at once.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TogetherError {
    /// There is none, or there are too many. The field says what is accepted.
    #[error("{0}")]
    Set(ResourceSetError),
    /// In classic mode each node sets one key with one command, so that a node might have some of them and not the others.
    /// Leave out [`Builder::classic`](crate::Builder::classic).
    #[error("in classic mode a node sets one key at a time, leave out Builder::classic")]
    Classic,
    /// A node of a user's does not take several keys in one step. Have it do so, and say so by
    /// [`Node::takes_sets`](crate::node::Node::takes_sets).
    #[error("{node} ({address}) takes one key at a time, see Node::takes_sets")]
    OneAtATime {
        /// The first of them.
        node: NodeId,
        /// Its address, without credentials.
        address: Arc<str>,
    },
}

debug_is_text! { enum TogetherError {
    Set(error),
    Classic,
    OneAtATime { node, address },
} }

/// Why a resource cannot be read together with others: of whom that was asked.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ReadersError {
    /// In classic mode a node keeps one key for a resource, and nobody beside its owner. Leave out
    /// [`Builder::classic`](crate::Builder::classic).
    #[error("in classic mode a node knows no readers, leave out Builder::classic")]
    Classic,
    /// It was asked of a lease of several resources, which are read one by one. Release it, and
    /// [`read`](crate::Redlock::read) each.
    #[error("it is of {resources} resources, release it and read each of them")]
    Several {
        /// How many.
        resources: usize,
    },
    /// It was asked of the lease of a [`Permit`](crate::Permit), which is one holder's: to let more in, ask for more permits.
    #[error("it is a permit of a semaphore, which nobody shares, ask for another permit")]
    Permit,
    /// A node of a user's knows no readers. Have it do so, and say so by
    /// [`Node::takes_readers`](crate::node::Node::takes_readers).
    #[error("{node} ({address}) knows no readers, see Node::takes_readers")]
    OneAtATime {
        /// The first of them.
        node: NodeId,
        /// Its address, without credentials.
        address: Arc<str>,
    },
}

debug_is_text! { enum ReadersError {
    Classic,
    Several { resources },
    Permit,
    OneAtATime { node, address },
} }

impl From<ReadersError> for AcquireError {
    fn from(error: ReadersError) -> Self {
        Self::Readers(error)
    }
}

impl From<TogetherError> for AcquireError {
    fn from(error: TogetherError) -> Self {
        Self::Together(error)
    }
}

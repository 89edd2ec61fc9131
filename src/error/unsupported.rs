//! Why these nodes cannot grant a kind of lease: in classic mode, or of a custom node.
//!
//! One error for all kinds: what a node would have to be able to do stands in it.

use std::sync::Arc;

use thiserror::Error;

use super::AcquireError;
use crate::protocol::NodeId;

/// Why these nodes cannot grant a kind of lease. Nothing has been sent.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Unsupported {
    /// In classic mode a node sets and deletes one key by the commands of plain Redlock, and knows nothing else. Leave out
    /// [`Builder::classic`](crate::Builder::classic).
    #[error("in classic mode a node {}; leave out Builder::classic", ability.lacking())]
    Classic {
        /// What it would have to be able to do.
        ability: Ability,
    },
    /// A custom node cannot do it. Implement it there, and say so by the method of [`Node`](crate::node::Node) that the text
    /// names.
    #[error("{node} ({address}) {}; see Node::{}", ability.lacking(), ability.method())]
    Node {
        /// What it would have to be able to do.
        ability: Ability,
        /// The first of them.
        node: NodeId,
        /// Its address, without credentials.
        address: Arc<str>,
    },
}

debug_is_text! { enum Unsupported {
    Classic { ability },
    Node { ability, node, address },
} }

/// What a node has to be able to do for a kind of lease, beside plain leases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Ability {
    /// It takes the keys of several resources in one step: for [`acquire_all`](crate::Redlock::acquire_all).
    Sets,
    /// It keeps several readers of a resource: for [`read`](crate::Redlock::read) and
    /// [`downgrade`](crate::Lease::downgrade).
    Readers,
    /// It picks a slot that is free: for [`semaphore`](crate::Redlock::semaphore).
    Slots,
    /// It gives a key from one owner to another: for [`detach`](crate::Lease::detach) and
    /// [`adopt`](crate::Redlock::adopt).
    HandingOver,
    /// It keeps what is done: for [`once_per`](crate::Acquire::once_per).
    Completions,
    /// It counts terms, and keeps what their leaders say: for [`election`](crate::Redlock::election).
    Elections,
}

impl Ability {
    /// What a node does that cannot do it, and the method of `Node` that says whether it can.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Sets => ("takes one key at a time", "takes_sets"),
            Self::Readers => ("supports no readers", "takes_readers"),
            Self::Slots => ("cannot pick a free permit", "picks_slots"),
            Self::HandingOver => ("cannot give a key from one owner to another", "hands_over"),
            Self::Completions => ("keeps nothing of what is done", "keeps_completions"),
            // Every node of a user's counts tokens.
            Self::Elections => ("keeps no election terms and no texts of leaders", "call"),
        }
    }

    const fn lacking(self) -> &'static str {
        self.words().0
    }

    const fn method(self) -> &'static str {
        self.words().1
    }
}

impl From<Unsupported> for AcquireError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

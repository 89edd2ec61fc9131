//! What an acquire round asks for. Plain values: what comes of it, the round decides.

use alloc::boxed::Box;
use core::time::Duration;

use crate::{
    command::{EpochMark, NodeId},
    line::Stand,
    note::Note,
    owner::Owner,
    target::Target,
    validity::{self, Drift},
};

/// What a round asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RoundSpec {
    /// What is to be held.
    pub target: Target,
    /// The value, fresh for every acquire round.
    pub owner: Owner,
    /// The lifetime asked for.
    pub ttl: Duration,
    /// For how long the nodes keep the key beyond that.
    pub lock_delay: Duration,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// A win with less than this left is no win.
    pub min_validity: Duration,
    /// The client's wall clock in microseconds, the same for all nodes, where a fencing token is wanted. For any slot it always
    /// is: none is zero there.
    pub hint: Option<u64>,
    /// How many fencing tokens are wanted, from 1 to [`TokenRange::MOST`](crate::TokenRange::MOST); others are
    /// cut. More than one only where every node counts them. A reader and a slot have one.
    pub count: u64,
    /// Of any slot of a semaphore, the number of that which the nodes look at first.
    pub first: u8,
    /// What is known of each node before the round begins, in their order, where a fencing token is wanted.
    pub marks: Box<[EpochMark]>,
    /// What the holder leaves beside its key, where it wants to be known.
    pub note: Option<Note>,
    /// What is said of the client's place in the line, the same to all nodes.
    pub stand: Option<Stand>,
}

impl RoundSpec {
    /// A spec with the default drift, no minimum validity and no fencing token.
    pub fn new(target: impl Into<Target>, owner: Owner, ttl: Duration) -> Self {
        Self {
            target: target.into(),
            owner,
            ttl,
            lock_delay: Duration::ZERO,
            drift: Drift::default(),
            min_validity: Duration::ZERO,
            hint: None,
            count: 1,
            first: 0,
            marks: Box::default(),
            note: None,
            stand: None,
        }
    }

    /// For how long a node keeps the key.
    pub const fn key_life(&self) -> Duration {
        validity::key_life(self.ttl, self.lock_delay)
    }

    /// What it knows of a node.
    pub(crate) fn mark(&self, node: NodeId) -> EpochMark {
        self.marks.get(node.index()).copied().unwrap_or_default()
    }
}

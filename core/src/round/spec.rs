//! What an acquire round asks for. Plain values: the round decides what comes of it.

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
    /// The target.
    pub target: Target,
    /// The value of the keys, fresh for every acquire round.
    pub owner: Owner,
    /// The lifetime asked for.
    pub ttl: Duration,
    /// How much longer the nodes keep the key.
    pub lock_delay: Duration,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// A win with less than this left is no win.
    pub min_validity: Duration,
    /// The client's wall clock in microseconds, the same for all nodes, if a fencing token is wanted. A round for any
    /// slot always wants one: without a hint it takes zero.
    pub hint: Option<u64>,
    /// How many fencing tokens are wanted, clamped to 1 to [`TokenRange::MOST`](crate::TokenRange::MOST). More than one
    /// only if every node counts them. A reader and a slot have one.
    pub count: u64,
    /// For any slot of a semaphore, the number of the slot that the nodes try first.
    pub first: u8,
    /// The mark of each node before the round begins, in their order, if a fencing token is wanted.
    pub marks: Box<[EpochMark]>,
    /// The holder's note beside its key, if any.
    pub note: Option<Note>,
    /// The client's place in the line, the same for all nodes.
    pub stand: Option<Stand>,
    /// The owner from whom the keys are taken over, where they are not to be free: a round that adopts. It gives back to
    /// that owner what it does not win.
    pub from: Option<Owner>,
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
            from: None,
        }
    }

    /// How long a node keeps the key.
    pub const fn key_life(&self) -> Duration {
        validity::key_life(self.ttl, self.lock_delay)
    }

    /// The mark of a node.
    pub(crate) fn mark(&self, node: NodeId) -> EpochMark {
        self.marks.get(node.index()).copied().unwrap_or_default()
    }
}

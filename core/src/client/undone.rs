//! What a release deletes, and its result. Plain values: others decide what follows.

use alloc::boxed::Box;
use core::time::Duration;

use super::{FootprintId, Said};
use crate::{
    command::Command,
    node_set::NodeSet,
    owner::Owner,
    round::RoundLoss,
    target::Target,
    time::Timestamp,
    validity::{self, Drift},
};

/// Keys to delete or keep for a while, and where they may stand.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Undone {
    pub(super) target: Target,
    pub(super) owner: Owner,
    /// How long a node keeps them.
    pub(super) key_life: Duration,
    pub(super) footprint: FootprintId,
    /// The owner to whom they are given back, where a round was to take them over.
    pub(super) from: Option<Owner>,
    /// Until when others are kept out all the same, and never for less: the steady clock only runs behind.
    pub(super) hold: Option<Timestamp>,
}

/// The result of a release.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Released<E> {
    /// Its target.
    pub target: Target,
    /// Its owner.
    pub owner: Owner,
    /// Whether a quorum confirmed it; if not, whether too few answered or it was over already.
    pub result: Result<(), RoundLoss>,
    /// The nodes that did it.
    pub released: NodeSet,
    /// Each node's answer.
    pub said: Box<[Said<E>]>,
}

impl Undone {
    /// How long a node keeps the key from now on; `None`: it deletes it. Asked at each send, so that a repeated release
    /// keeps it no longer.
    pub(super) fn keep(&self, steady: Timestamp, drift: Drift) -> Option<Duration> {
        let left = self.hold?.saturating_since(steady);
        (!left.is_zero()).then(|| validity::kept_for(left, drift))
    }

    pub(super) fn command(&self, keep: Option<Duration>) -> Command {
        let (target, owner) = (self.target.clone(), self.owner);
        match (keep, self.from) {
            (None, from) => Command::undo(target, owner, from),
            (keep, _) => Command::Release { target, owner, keep },
        }
    }
}

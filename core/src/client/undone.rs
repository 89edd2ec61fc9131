//! What a release is about, and what it has come to. Plain values: what follows, others decide.

use alloc::boxed::Box;
use core::time::Duration;

use super::{FootprintId, Said};
use crate::{
    command::Command,
    owner::Owner,
    round::RoundLoss,
    target::Target,
    time::Timestamp,
    validity::{self, Drift},
};

/// Which keys are to be deleted, or kept for a while, and where they may stand.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Undone {
    pub(super) target: Target,
    pub(super) owner: Owner,
    /// For how long a node keeps them.
    pub(super) key_life: Duration,
    pub(super) footprint: FootprintId,
    /// Up to when others are kept out all the same. By the steady clock, which may only run behind: never for less.
    pub(super) hold: Option<Timestamp>,
}

/// What a release has come to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Released<E> {
    /// Of what.
    pub target: Target,
    /// Whose.
    pub owner: Owner,
    /// Whether a quorum has confirmed it; where not, whether that is since too few have answered, or since it was over.
    pub result: Result<(), RoundLoss>,
    /// How many nodes have done it.
    pub released: usize,
    /// What each node has said.
    pub said: Box<[Said<E>]>,
}

impl Undone {
    /// For how long a node is to keep the key from now on; `None` where it is to delete it. It is asked whenever it is sent, so
    /// that one that is sent again does not keep it for longer.
    pub(super) fn keep(&self, steady: Timestamp, drift: Drift) -> Option<Duration> {
        let left = self.hold?.saturating_since(steady);
        (!left.is_zero()).then(|| validity::kept_for(left, drift))
    }

    pub(super) fn command(&self, keep: Option<Duration>) -> Command {
        let (target, owner) = (self.target.clone(), self.owner);
        Command::Release { target, owner, keep }
    }
}

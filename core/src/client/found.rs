//! What a round is begun with, and what a lost one has met. Plain values: what follows, others decide.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::Said;
use crate::{
    acquisition::LostRound,
    command::{EpochMark, NodeId},
    lifecycle::RenewalPolicy,
    note::Note,
    owner::Owner,
    round::RoundLoss,
    target::Target,
    time::Timestamp,
    validity::Drift,
};

/// What a request asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RoundAsked {
    /// What is to be held.
    pub target: Target,
    /// For how long.
    pub ttl: Duration,
    /// What has to be left of that when it is won.
    pub min_validity: Duration,
    /// For how long the nodes keep the key beyond it.
    pub lock_delay: Duration,
    /// How it is renewed.
    pub renewal: RenewalPolicy,
    /// For how long others are kept out at least, also where it is released before.
    pub hold_at_least: Option<Duration>,
    /// For how long the grant is kept behind it as nobody's.
    pub linger: Duration,
    /// It is to have a round of its own, and is not handed on.
    pub alone: bool,
}

/// What a driver begins a round with.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RoundStart<E> {
    /// Whose the keys are: of this round, and of no other.
    pub owner: Owner,
    /// How many tokens are asked for, as [`tokens_wanted`](super::Client::tokens_wanted) says.
    pub count: u64,
    /// From where nodes count; nothing where they count nothing.
    pub hint: Option<u64>,
    /// What is known of each node.
    pub marks: Box<[EpochMark]>,
    /// What is kept beside the key, for people to read.
    pub note: Option<Note>,
    /// Any byte: it says with which slot of a semaphore the nodes begin.
    pub random: u8,
    /// The nodes that cannot be asked, and why.
    pub blocked: Vec<(NodeId, E)>,
}

/// What a lost round has met, for the one that it was begun for and for all who wait behind that.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Met<E> {
    /// What it says for the next one.
    pub lost: LostRound,
    /// When that was known.
    pub at: Timestamp,
    /// How much clocks may be off by.
    pub drift: Drift,
    /// How many nodes have granted it.
    pub granted: usize,
    /// What each node has said.
    pub said: Box<[Said<E>]>,
}

impl<E> Met<E> {
    /// Whether a round that took as long would have been in time for this, which it was not for the leader of the line.
    pub fn would_do_for(&self, ttl: Duration, min_validity: Duration) -> bool {
        let took = self.at.saturating_since(self.lost.begun);
        let left = ttl.saturating_sub(self.drift.of(ttl)).saturating_sub(took);
        self.lost.loss == RoundLoss::TooLate && !left.is_zero() && left >= min_validity
    }
}

//! What a round starts with, and what a lost one found. Plain values: others decide what follows.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::Said;
use crate::{
    acquisition::{AdoptionEnd, LostRound},
    command::{Denial, EpochMark, NodeId},
    lifecycle::RenewalPolicy,
    node_set::NodeSet,
    note::Note,
    owner::Owner,
    round::{Quorum, RoundLoss},
    target::Target,
    time::Timestamp,
    validity::Drift,
};

/// What a request asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RoundAsked {
    /// The target.
    pub target: Target,
    /// The owner that had it and has let it go, where it is taken over from that owner.
    pub from: Option<Owner>,
    /// For how long.
    pub ttl: Duration,
    /// The validity that a win must have left.
    pub min_validity: Duration,
    /// How much longer the nodes keep the key.
    pub lock_delay: Duration,
    /// How it is renewed.
    pub renewal: RenewalPolicy,
    /// The least time to keep others out, even after an earlier release.
    pub hold_at_least: Option<Duration>,
    /// How long the grant is kept after it without a lease.
    pub linger: Duration,
    /// It gets a round of its own, and is not handed on.
    pub alone: bool,
}

/// What a driver begins a round with.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RoundStart<E> {
    /// The owner of the keys, of this round only.
    pub owner: Owner,
    /// How many tokens are asked for, as [`tokens_wanted`](super::Client::tokens_wanted) says.
    pub count: u64,
    /// The least counter to ask for; `None` if nodes count nothing.
    pub hint: Option<u64>,
    /// The mark of each node.
    pub marks: Box<[EpochMark]>,
    /// The note beside the key, for people to read.
    pub note: Option<Note>,
    /// Any byte: it chooses the slot that the nodes try first.
    pub random: u8,
    /// The nodes that cannot be asked, and why.
    pub blocked: Vec<(NodeId, E)>,
}

/// What a lost round found, for its own request and for all that wait behind it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Met<E> {
    /// What it means for the next round.
    pub lost: LostRound,
    /// When that was known.
    pub at: Timestamp,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// The nodes that granted it.
    pub granted: NodeSet,
    /// Each node's answer.
    pub said: Box<[Said<E>]>,
}

impl<E> Met<E> {
    /// Whether a round as long would be in time for these values, though too late for the leader.
    pub fn would_do_for(&self, ttl: Duration, min_validity: Duration) -> bool {
        let took = self.at.saturating_since(self.lost.begun);
        let left = ttl.saturating_sub(self.drift.of(ttl)).saturating_sub(took);
        self.lost.loss == RoundLoss::TooLate && !left.is_zero() && left >= min_validity
    }
}

/// Why nobody can adopt a detached lease any more, by what the nodes said to a round that was to. Several who try at once
/// may each have some nodes, and give them back.
pub(super) fn adoption_end<E>(quorum: Quorum, said: &[Said<E>]) -> Option<AdoptionEnd> {
    let denials = || {
        (0..).map(NodeId::new).zip(said).filter_map(|(node, said)| match said {
            Said::Denied(denial) => Some((node, denial)),
            _ => None,
        })
    };
    let those = |is: &dyn Fn(&Denial) -> bool| -> NodeSet {
        denials().filter(|(_, denial)| is(denial)).map(|(node, _)| node).collect()
    };
    let has_quorum = |holder: &Option<Box<[u8]>>| {
        holder.is_some() && quorum.is_met_by(those(&|denial| denial.holder == *holder))
    };
    if denials().any(|(_, denial)| has_quorum(&denial.holder)) {
        Some(AdoptionEnd::Taken)
    } else {
        (!quorum.can_miss(those(&|denial| denial.gone))).then_some(AdoptionEnd::Over)
    }
}

//! The state of one node in one round, and the count over all of them.
//!
//! It decides what counts as a vote, and for which of several slots. It must count each node once, and never add up
//! votes for different slots.

use alloc::{vec, vec::Vec};
use core::{cmp::Reverse, time::Duration};

use super::quorum::Quorum;
use crate::{
    command::{Cause, Failure, NodeId},
    fencing::FencingToken,
    node_set::NodeSet,
};

/// A day, in microseconds.
pub(crate) const IMPLAUSIBLY_AHEAD: u64 = 86_400_000_000;

/// The state of one node in a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Vote {
    NotAsked,
    Waiting,
    /// It granted, with this counter if it keeps one.
    Granted(Option<FencingToken>),
    /// It granted, and was asked to confirm the round's token.
    Confirming,
    Confirmed,
    /// It granted, but will not confirm the round's token.
    Outvoted,
    /// It granted, with a counter that no clock explains. Its writer is unknown, so it counts as a failure.
    Implausible,
    /// Another owner holds the key, for so long if known.
    Denied(Option<Duration>),
    Failed(Failure),
}

impl Vote {
    /// Whether a reply is awaited.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Confirming)
    }
}

/// The votes of all configured nodes.
///
/// A round for any slot of a semaphore counts one slot at a time: the one that a quorum took, or else most nodes. A node
/// that took another slot has denied that one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Votes {
    quorum: Quorum,
    votes: Vec<Vote>,
    /// The slot that each node took, whatever became of its vote; empty in a round for no slots.
    took: Vec<Option<u8>>,
    /// The counted slot: the one that a quorum took, or else the lowest of those that most nodes took.
    counted: Option<u8>,
}

impl Votes {
    pub(super) fn new(quorum: Quorum, of_slots: bool) -> Self {
        let nodes = quorum.nodes();
        let took = if of_slots { vec![None; nodes] } else { Vec::new() };
        Self { quorum, votes: vec![Vote::NotAsked; nodes], took, counted: None }
    }

    pub(super) fn get(&self, node: NodeId) -> Option<Vote> {
        self.votes.get(node.index()).copied()
    }

    pub(super) fn set(&mut self, node: NodeId, vote: Vote) {
        if let Some(place) = self.votes.get_mut(node.index()) {
            *place = vote;
        }
    }

    /// The slot that `node` took.
    pub(super) fn took(&self, node: NodeId) -> Option<u8> {
        self.took.get(node.index()).copied().flatten()
    }

    /// The counted slot.
    pub(super) const fn counted(&self) -> Option<u8> {
        self.counted
    }

    /// A node took this slot. Once a quorum took one slot, no other is ever counted.
    pub(super) fn take(&mut self, node: NodeId, slot: u8) {
        if let Some(place) = self.took.get_mut(node.index()) {
            *place = Some(slot);
        }
        let by = |slot: u8| -> NodeSet {
            let took = self.took.iter().enumerate().filter(|(_, took)| **took == Some(slot));
            took.map(|(index, _)| NodeId::new(index)).collect()
        };
        let weight = |slot: &u8| {
            let nodes = by(*slot);
            (self.quorum.is_met_by(nodes), nodes.len(), Reverse(*slot))
        };
        self.counted = self.took.iter().flatten().copied().max_by_key(weight);
    }

    /// Each node's vote on the counted slot or target.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, Vote)> + '_ {
        self.votes.iter().enumerate().map(|(index, vote)| {
            let node = NodeId::new(index);
            let other = self.took(node).filter(|slot| Some(*slot) != self.counted);
            (node, other.map_or(*vote, |_| Vote::Denied(None)))
        })
    }

    pub(super) fn nodes(&self, matching: impl Fn(Vote) -> bool) -> NodeSet {
        self.iter().filter(|(_, vote)| matching(*vote)).map(|(node, _)| node).collect()
    }

    /// The nodes that granted, whether or not they have confirmed.
    pub(super) fn granted(&self) -> NodeSet {
        self.nodes(|vote| {
            matches!(
                vote,
                Vote::Granted(_)
                    | Vote::Confirming
                    | Vote::Confirmed
                    | Vote::Outvoted
                    | Vote::Implausible
            )
        })
    }

    /// The nodes whose counter is the token, by grant or by confirm.
    pub(super) fn for_token(&self, token: Option<FencingToken>) -> NodeSet {
        self.nodes(|vote| vote == Vote::Granted(token) || vote == Vote::Confirmed)
    }

    /// The nodes that will not vote any more.
    pub(super) fn against(&self) -> NodeSet {
        self.nodes(|vote| {
            matches!(
                vote,
                Vote::NotAsked
                    | Vote::Denied(_)
                    | Vote::Outvoted
                    | Vote::Implausible
                    | Vote::Failed(_)
            )
        })
    }

    pub(super) fn denied(&self) -> NodeSet {
        self.nodes(|vote| matches!(vote, Vote::Denied(_)))
    }

    pub(super) fn failed(&self) -> NodeSet {
        self.nodes(|vote| matches!(vote, Vote::Failed(_) | Vote::Implausible))
    }

    /// The nodes that failed for this cause.
    pub(super) fn failed_by(&self, cause: Cause) -> NodeSet {
        self.nodes(|vote| matches!(vote, Vote::Failed(failure) if failure.cause == cause))
    }

    /// How long each node in quarantine stays there.
    pub(super) fn quarantines(&self) -> impl Iterator<Item = (Duration, NodeId)> + '_ {
        self.iter().filter_map(|(node, vote)| match vote {
            Vote::Failed(Failure { cause: Cause::Quarantined { remaining }, .. }) => {
                Some((remaining, node))
            }
            _ => None,
        })
    }

    /// The nodes that granted and have not been outvoted.
    pub(super) fn plausible(&self) -> NodeSet {
        self.nodes(|vote| matches!(vote, Vote::Granted(_) | Vote::Confirming | Vote::Confirmed))
    }

    /// Takes the votes of nodes whose counter is more than a day above both the hint and the lowest counter. Counters
    /// are microseconds, and no clock is that far ahead: another writer set it, and the number must not spread.
    pub(super) fn outvote_implausible(&mut self, hint: u64) {
        let counters = self.iter().filter_map(|(_, vote)| match vote {
            Vote::Granted(Some(fence)) => Some(fence.get()),
            _ => None,
        });
        // Above the hint alone proves nothing: the client's own clock may be wrong.
        let least = counters.min().unwrap_or(0);
        let most = hint.max(least).saturating_add(IMPLAUSIBLY_AHEAD);
        let is_beyond = |vote| matches!(vote, Vote::Granted(Some(fence)) if fence.get() > most);
        self.replace(is_beyond, Vote::Implausible);
    }

    /// Takes the votes of nodes that granted without a counter.
    pub(super) fn outvote_uncounted(&mut self) {
        self.replace(|vote| vote == Vote::Granted(None), Vote::Outvoted);
    }

    fn replace(&mut self, matching: impl Fn(Vote) -> bool, by: Vote) {
        for index in 0..self.votes.len() {
            let found = self.iter().nth(index).filter(|(_, vote)| matching(*vote));
            if let Some((node, _)) = found {
                self.set(node, by);
            }
        }
    }

    /// The largest counter among the grants.
    pub(super) fn largest(&self) -> Option<FencingToken> {
        let counters = self.iter().filter_map(|(_, vote)| match vote {
            Vote::Granted(fence) => fence,
            _ => None,
        });
        counters.max()
    }
}

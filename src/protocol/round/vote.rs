//! The state of one node in one round, and the count over all of them.
//!
//! It decides what counts as a vote. It must count each node once.

use alloc::{vec, vec::Vec};

use core::time::Duration;

use crate::protocol::{
    command::{Cause, Failure, NodeId},
    fencing::FencingToken,
};

/// A day, in microseconds.
pub(in crate::protocol) const IMPLAUSIBLY_AHEAD: u64 = 86_400_000_000;

/// Where one node stands in a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Vote {
    NotAsked,
    Waiting,
    /// It did what it was asked, with this counter where it keeps one.
    Granted(Option<FencingToken>),
    /// It granted, and has been asked to confirm the round's token.
    Confirming,
    Confirmed,
    /// It granted, and will not confirm the round's token.
    Outvoted,
    /// It granted, with a counter that no clock explains: whose that is says nothing, so that it counts as a failure.
    Implausible,
    /// Somebody else holds the key, for so long if that is known.
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
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Votes(Vec<Vote>);

impl Votes {
    pub(super) fn new(nodes: usize) -> Self {
        Self(vec![Vote::NotAsked; nodes])
    }

    pub(super) fn get(&self, node: NodeId) -> Option<Vote> {
        self.0.get(node.index()).copied()
    }

    pub(super) fn set(&mut self, node: NodeId, vote: Vote) {
        if let Some(slot) = self.0.get_mut(node.index()) {
            *slot = vote;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, Vote)> + '_ {
        self.0.iter().enumerate().map(|(index, vote)| (NodeId::new(index), *vote))
    }

    pub(super) fn count(&self, matching: impl Fn(Vote) -> bool) -> usize {
        self.0.iter().filter(|vote| matching(**vote)).count()
    }

    /// The nodes that granted, whether or not they have confirmed.
    pub(super) fn granted(&self) -> usize {
        self.count(|vote| {
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

    /// The nodes whose counter is the token, by their grant or by confirming it.
    pub(super) fn for_token(&self, token: Option<FencingToken>) -> usize {
        self.count(|vote| vote == Vote::Granted(token) || vote == Vote::Confirmed)
    }

    /// The nodes that will not vote any more, whatever comes.
    pub(super) fn against(&self) -> usize {
        self.count(|vote| {
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

    pub(super) fn failed(&self) -> usize {
        self.count(|vote| matches!(vote, Vote::Failed(_) | Vote::Implausible))
    }

    /// The nodes that failed for this cause.
    pub(super) fn failed_by(&self, cause: Cause) -> usize {
        self.count(|vote| matches!(vote, Vote::Failed(failure) if failure.cause == cause))
    }

    /// How long each of the nodes in quarantine stays there.
    pub(super) fn quarantines(&self) -> impl Iterator<Item = Duration> + '_ {
        self.0.iter().filter_map(|vote| match vote {
            Vote::Failed(Failure { cause: Cause::Quarantined { remaining }, .. }) => {
                Some(*remaining)
            }
            _ => None,
        })
    }

    /// The nodes that granted and have not been outvoted.
    pub(super) fn plausible(&self) -> usize {
        self.count(|vote| matches!(vote, Vote::Granted(_) | Vote::Confirming | Vote::Confirmed))
    }

    /// Takes the votes of the nodes whose counter is more than a day above both the hint and the lowest of the
    /// others. Counters are microseconds, and no clock is that much ahead: something else has written there, and
    /// the number must not spread.
    pub(super) fn outvote_implausible(&mut self, hint: u64) {
        let counters = self.0.iter().filter_map(|vote| match vote {
            Vote::Granted(Some(fence)) => Some(fence.get()),
            _ => None,
        });
        // Above the hint alone proves nothing: the client's clock may be the one that is wrong.
        let least = counters.min().unwrap_or(0);
        let most = hint.max(least).saturating_add(IMPLAUSIBLY_AHEAD);
        for vote in &mut self.0 {
            if matches!(vote, Vote::Granted(Some(fence)) if fence.get() > most) {
                *vote = Vote::Implausible;
            }
        }
    }

    /// Takes the votes of the nodes that granted without a counter.
    pub(super) fn outvote_uncounted(&mut self) {
        for vote in &mut self.0 {
            if *vote == Vote::Granted(None) {
                *vote = Vote::Outvoted;
            }
        }
    }

    /// The largest counter among the grants.
    pub(super) fn largest(&self) -> Option<FencingToken> {
        self.0
            .iter()
            .filter_map(|vote| match vote {
                Vote::Granted(fence) => *fence,
                _ => None,
            })
            .max()
    }
}

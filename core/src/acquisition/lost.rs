//! The facts of a lost round, for an acquisition. The acquisition decides what follows.

use core::time::Duration;

use crate::{
    round::{Round, RoundLoss},
    time::Timestamp,
};

/// Why nobody can adopt a detached lease any more.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AdoptionEnd {
    /// Its keys are gone from too many nodes.
    Over,
    /// One other owner has a quorum.
    Taken,
}

/// The facts of a lost round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LostRound {
    /// Why it was lost.
    pub loss: RoundLoss,
    /// When it began.
    pub begun: Timestamp,
    /// A quorum might have answered but was too slow.
    pub overrun: bool,
    /// Nodes whose state has changed would have made the difference.
    pub outdated: bool,
    /// Nodes in quarantine, or whose state has changed, would have made the difference.
    pub quarantined: bool,
    /// When enough quarantines end for a quorum to vote, if that is what it takes.
    pub quorum_after: Option<Duration>,
    /// When enough keys in the way will have expired.
    pub free_after: Option<Duration>,
    /// It had to wait for its turn.
    pub waited_for_turn: bool,
    /// When the nodes' lines call for the next round, if the client stands there.
    pub in_line: Option<Timestamp>,
    /// Of a round that adopts: why no other can be won.
    pub ended: Option<AdoptionEnd>,
}

impl LostRound {
    /// The facts of a round that began at `begun`; `None` while it is not lost.
    pub fn of(round: &Round, begun: Timestamp, waited_for_turn: bool) -> Option<Self> {
        Some(Self {
            loss: round.loss()?,
            begun,
            overrun: round.is_overrun(),
            outdated: round.is_outdated(),
            quarantined: round.is_quarantined(),
            quorum_after: round.quorum_after(),
            free_after: round.free_after(),
            waited_for_turn,
            in_line: None,
            ended: None,
        })
    }

    /// The same for a round that adopts.
    #[must_use]
    pub const fn adopting(mut self, ended: Option<AdoptionEnd>) -> Self {
        self.ended = ended;
        self
    }

    /// The same for a client in the nodes' lines, which call for its next round at this time.
    #[must_use]
    pub const fn in_line(mut self, at: Option<Timestamp>) -> Self {
        self.in_line = at;
        self
    }

    /// When the lines call for the next round, if they do: an outage has nothing to do with them.
    pub(super) const fn next_in_line(&self) -> Option<Timestamp> {
        match self.loss {
            RoundLoss::Contended => self.in_line,
            RoundLoss::NoQuorum if self.outdated => self.in_line,
            RoundLoss::NoQuorum | RoundLoss::TooLate | RoundLoss::Abandoned => None,
        }
    }

    /// Whether nodes whose state has changed cost it: they are well, and this client does not know their new state yet.
    pub(super) const fn is_outdated(&self) -> bool {
        self.outdated && matches!(self.loss, RoundLoss::Contended | RoundLoss::NoQuorum)
    }

    /// Whether it found the resource held.
    pub const fn found_held(&self) -> bool {
        !matches!(self.loss, RoundLoss::NoQuorum | RoundLoss::TooLate)
    }
}

//! One round as it is asked: for all of a target, or for any slot of a semaphore.
//!
//! It decides nothing: it shows a `Round` and a `Pick` by one face, and says which of the answers count for what has been won
//! and which for what is to be undone.

use crate::{
    engine::footprint::SharedFootprint,
    protocol::{
        Command, Failure, Footprint, LostRound, NodeId, Pick, Quorum, Reply, Round, RoundLoss,
        RoundSpec, Target, Timestamp, TokenRange, Verdict,
    },
};

/// Round or pick.
#[allow(clippy::large_enum_variant, reason = "nearly all are rounds, which must not become dearer")]
pub(super) enum Asking {
    All(Round),
    Any(Box<Pick>),
}

impl Asking {
    /// Begins; any slot with the one that `random` says.
    pub(super) fn begin(quorum: Quorum, spec: RoundSpec, random: u8, now: Timestamp) -> Self {
        let Target::AnyOf(slots) = &spec.target else {
            return Self::All(Round::acquire(quorum, spec, now));
        };
        let slots = slots.clone();
        let first = usize::from(random) * slots.len() / 256;
        let first = u8::try_from(first).unwrap_or_default();
        Self::Any(Box::new(Pick::begin(quorum, spec, slots, first, now)))
    }

    /// The round that has decided it.
    pub(super) fn decided(&self) -> Option<&Round> {
        match self {
            Self::All(round) => Some(round),
            Self::Any(pick) => pick.decided(),
        }
    }

    /// What was asked for; once it is won, what that is.
    pub(super) fn spec(&self) -> &RoundSpec {
        match self {
            Self::All(round) => round.spec(),
            Self::Any(pick) => {
                let won = pick.decided().filter(|_| pick.verdict() == Verdict::Won);
                won.map_or_else(|| pick.spec(), Round::spec)
            }
        }
    }

    pub(super) fn poll_command(&mut self) -> Option<(NodeId, Command)> {
        match self {
            Self::All(round) => round.poll_command(),
            Self::Any(pick) => pick.poll_command(),
        }
    }

    pub(super) fn handle_reply(
        &mut self,
        node: NodeId,
        reply: Result<Reply, Failure>,
        now: Timestamp,
    ) {
        match self {
            Self::All(round) => round.handle_reply(node, reply, now),
            Self::Any(pick) => pick.handle_reply(node, reply, now),
        }
    }

    pub(super) fn handle_abandoned(&mut self) {
        match self {
            Self::All(round) => round.handle_abandoned(),
            Self::Any(pick) => pick.handle_abandoned(),
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::All(round) => round.verdict(),
            Self::Any(pick) => pick.verdict(),
        }
    }

    pub(super) fn loss(&self) -> Option<RoundLoss> {
        match self {
            Self::All(round) => round.loss(),
            Self::Any(pick) => pick.loss(),
        }
    }

    /// What it has said, once it is lost.
    pub(super) fn lost(&self, begun: Timestamp, waited_for_turn: bool) -> Option<LostRound> {
        let loss = self.loss()?;
        let lost = LostRound::of(self.decided()?, begun, waited_for_turn)?;
        Some(LostRound { loss, ..lost })
    }

    pub(super) fn is_overrun(&self) -> bool {
        self.decided().is_some_and(Round::is_overrun)
    }

    pub(super) fn granted(&self) -> usize {
        self.decided().map_or(0, Round::granted)
    }

    pub(super) fn tokens(&self) -> Option<TokenRange> {
        self.decided().and_then(Round::tokens)
    }

    /// Of what has been won; where it is lost, of all that may stand.
    pub(super) fn take_footprint(&mut self) -> Option<Footprint> {
        match self {
            Self::All(round) => round.take_footprint(),
            Self::Any(pick) if pick.verdict() == Verdict::Lost => pick.take_others(),
            Self::Any(pick) => pick.take_footprint(),
        }
    }

    /// Of what may stand beside that which has been won.
    pub(super) fn take_others(&mut self) -> Option<Footprint> {
        match self {
            Self::Any(pick) if pick.verdict() == Verdict::Won => pick.take_others(),
            Self::All(_) | Self::Any(_) => None,
        }
    }

    /// Tells the footprints of an answer that comes after the verdict.
    pub(super) fn tell(
        &self,
        footprint: Option<&SharedFootprint>,
        others: Option<&SharedFootprint>,
        node: NodeId,
        reply: &Result<Reply, Failure>,
    ) {
        let tell = |footprint: Option<&SharedFootprint>, reply: &Result<Reply, Failure>| {
            if let Some(footprint) = footprint {
                footprint.lock().handle_acquire(node, reply);
            }
        };
        match self {
            Self::All(_) => tell(footprint, reply),
            Self::Any(pick) if pick.verdict() == Verdict::Won => {
                tell(footprint, &pick.of_won(reply));
                tell(others, &pick.of_others(reply));
            }
            Self::Any(pick) => tell(footprint, &pick.of_others(reply)),
        }
    }

    /// Which slots are to be released at a node of those that were not won; `None` of a round that is for all of its target.
    pub(super) fn undone_at(&self, node: NodeId) -> Option<Target> {
        match self {
            Self::All(_) => None,
            Self::Any(pick) => Some(pick.undone_at(node)),
        }
    }

    /// Whether a node has picked another slot than the one that was won.
    pub(super) fn is_filled_in(&self, node: NodeId) -> bool {
        matches!(self, Self::Any(pick) if pick.is_filled_in(node))
    }
}

//! What is asked for, as `src/engine/asking.rs` shows it: all of a target, or any slot of a semaphore.
//!
//! Goal and method: `attempt.rs`. Resources are known by the bits of their numbers.

use core::time::Duration;

use super::{Ask, attempt::BEGUN};
use crate::protocol::{
    Command, Failure, Footprint, Mark, NodeId, Owner, Pick, Quorum, Reply, Resource, ResourceSet,
    Round, RoundSpec, Slots, Target, Timestamp, TokenRange, Verdict,
};

/// So many resources there are, and so many slots.
pub(crate) const KEYS: usize = 3;
/// All of them that a semaphore has.
pub(crate) const SLOTS: usize = 2;

/// What an attempt wants to hold.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) enum Want {
    /// The first resource.
    #[default]
    One,
    /// These, by their bits.
    Set(u8),
    /// Whichever slot is free, beginning with this one.
    Any(u8),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are rounds")]
pub(crate) enum Asking {
    All(Round),
    Any(Box<Pick>),
}

fn resource(key: usize) -> Resource {
    // As the slots of the semaphore `r` are called.
    Resource::new(["r/0", "r/1", "r/2"][key]).expect("a name")
}

/// The bits of the resources that a target names.
pub(crate) fn keys_of(target: &Target) -> u8 {
    let bit = |name: &Resource| name.as_bytes().last().expect("a name") - b'0';
    target.resources().iter().fold(0, |keys, name| keys | 1 << bit(name))
}

impl Asking {
    pub(crate) fn begin(owner: Owner, ask: &Ask, ttl: Duration, marks: Vec<Mark>) -> Self {
        let slots = || Slots::new(b"", "r", SLOTS).expect("a few");
        let target = match ask.want {
            Want::One if ask.reads => Target::Shared(resource(0)),
            Want::One => resource(0).into(),
            Want::Set(keys) => {
                let all = (0..KEYS).filter(|key| keys & 1 << key != 0).map(resource);
                ResourceSet::new(all).expect("a few").into()
            }
            Want::Any(_) => slots().into(),
        };
        let mut spec = RoundSpec::new(target, owner, ttl);
        (spec.hint, spec.count, spec.marks) = (Some(ask.hint), ask.count, marks.into());
        match ask.want {
            Want::Any(first) => {
                let pick = Pick::begin(Quorum::of(super::NODES), spec, slots(), first, BEGUN);
                Self::Any(Box::new(pick))
            }
            _ => Self::All(Round::acquire(Quorum::of(super::NODES), spec, BEGUN)),
        }
    }

    /// What was asked for; once it is won, what that is.
    pub(crate) fn spec(&self) -> &RoundSpec {
        match self {
            Self::All(round) => round.spec(),
            Self::Any(pick) => {
                let won = pick.decided().filter(|_| pick.verdict() == Verdict::Won);
                won.map_or_else(|| pick.spec(), Round::spec)
            }
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::All(round) => round.verdict(),
            Self::Any(pick) => pick.verdict(),
        }
    }

    pub(crate) fn tokens(&self) -> Option<TokenRange> {
        match self {
            Self::All(round) => round.tokens(),
            Self::Any(pick) => pick.decided().and_then(Round::tokens),
        }
    }

    pub(crate) fn poll_command(&mut self) -> Option<(NodeId, Command)> {
        match self {
            Self::All(round) => round.poll_command(),
            Self::Any(pick) => pick.poll_command(),
        }
    }

    pub(crate) fn handle_reply(
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

    pub(crate) fn handle_abandoned(&mut self) {
        match self {
            Self::All(round) => round.handle_abandoned(),
            Self::Any(pick) => pick.handle_abandoned(),
        }
    }

    /// Of what has been won, or where it is lost of all that may stand; and of what may stand beside that which has been won.
    pub(crate) fn take_footprints(&mut self) -> [Option<Footprint>; 2] {
        match self {
            Self::All(round) => [round.take_footprint(), None],
            Self::Any(pick) if pick.verdict() == Verdict::Lost => [pick.take_others(), None],
            Self::Any(pick) if pick.verdict() == Verdict::Won => {
                [pick.take_footprint(), pick.take_others()]
            }
            Self::Any(_) => [None, None],
        }
    }

    /// Tells the footprints of an answer that comes after the verdict.
    pub(crate) fn tell(
        &self,
        footprints: &mut [Option<Footprint>; 2],
        node: NodeId,
        reply: &Result<Reply, Failure>,
    ) {
        let replies = match self {
            Self::All(_) => [reply.clone(), reply.clone()],
            Self::Any(pick) if pick.verdict() == Verdict::Won => {
                [pick.of_won(reply), pick.of_others(reply)]
            }
            Self::Any(pick) => [pick.of_others(reply), reply.clone()],
        };
        for (footprint, reply) in footprints.iter_mut().zip(replies) {
            footprint.iter_mut().for_each(|footprint| footprint.handle_acquire(node, &reply));
        }
    }

    /// What is to be released at a node, of what was won and of the rest.
    pub(crate) fn undone_at(&self, node: NodeId, beside: bool) -> u8 {
        match self {
            Self::Any(pick) if beside || pick.verdict() == Verdict::Lost => {
                keys_of(&pick.undone_at(node))
            }
            _ => keys_of(&self.spec().target),
        }
    }

    /// Whether a node has picked another slot than the one that was won.
    pub(crate) fn is_filled_in(&self, node: NodeId) -> bool {
        matches!(self, Self::Any(pick) if pick.is_filled_in(node))
    }
}

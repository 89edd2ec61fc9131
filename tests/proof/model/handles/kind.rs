//! What a request asks for: a resource by itself, together with other readers, or one permit of several.
//!
//! Goal: who keeps out whom, and how their tokens stand to each other, as `docs/safety.md` promises it of each kind. It knows
//! no machine, and decides nothing that the production decides.

use super::{super::node::resource, TICK};
use crate::protocol::{Slots, Target, Timestamp, WaitPolicy};

/// So many permits there are.
pub(crate) const SLOTS: usize = 2;

/// How one wants the resource.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Alone,
    Reads,
    /// Whichever permit is free, beginning with this one.
    Permit(u8),
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Ask {
    pub(crate) kind: Kind,
    /// For so many ticks; for none it asks once.
    pub(crate) waits: Option<u8>,
    /// A round that takes a tick is too late for it.
    pub(crate) hurried: bool,
}

pub(crate) const ALONE: Ask = Ask { kind: Kind::Alone, waits: None, hurried: false };
pub(crate) const READS: Ask = Ask { kind: Kind::Reads, ..ALONE };

/// A request for a permit that tries this one first.
pub(crate) const fn permit(first: u8) -> Ask {
    Ask { kind: Kind::Permit(first), ..ALONE }
}

impl Ask {
    /// The same for one round.
    pub(crate) const fn once(self) -> Self {
        Self { waits: Some(0), ..self }
    }

    /// The same for so many ticks.
    pub(crate) const fn within(self, ticks: u8) -> Self {
        Self { waits: Some(ticks), ..self }
    }

    /// The same for nearly the whole ttl.
    pub(crate) const fn hurried(self) -> Self {
        Self { hurried: true, ..self }
    }

    pub(crate) const fn asks_once(self) -> bool {
        matches!(self.waits, Some(0))
    }

    pub(crate) fn policy(self) -> WaitPolicy {
        match self.waits {
            None => WaitPolicy::Unlimited,
            Some(0) => WaitPolicy::OneRound,
            Some(ticks) => {
                WaitPolicy::For(core::time::Duration::from_millis(u64::from(ticks) * TICK))
            }
        }
    }

    /// From when on its time counts. Where it never ends, all are alike.
    pub(crate) const fn began(self, now: Timestamp) -> Timestamp {
        if self.waits.is_some() { now } else { Timestamp::ORIGIN }
    }
}

impl Kind {
    /// What it asks the nodes for.
    pub(crate) const fn covers(self) -> Covers {
        match self {
            Self::Alone => Covers::One,
            Self::Reads => Covers::Shared,
            Self::Permit(_) => Covers::Any,
        }
    }
}

/// A target, in a byte or two.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Covers {
    One,
    Shared,
    /// By a reader that had it alone before.
    Downgraded,
    Slot(u8),
    /// Whichever slot it is. Nobody holds that.
    Any,
}

/// Two hold what one of them has alone.
pub(crate) const ONE: &str =
    "at most one in all processes has not been told that its lease is over";
pub(crate) const READERS: &str = "nobody reads while somebody writes";
pub(crate) const PERMITS: &str = "never more permits are held than there are, and each by one";

impl Covers {
    pub(crate) fn of(target: &Target) -> Self {
        match target {
            Target::One(_) => Self::One,
            Target::Shared(_) => Self::Shared,
            Target::Downgraded(_) => Self::Downgraded,
            Target::Slot(slot) => Self::Slot(slot.number()),
            Target::AnyOf(slots) if slots.len() == SLOTS => Self::Any,
            // All but the one that was won.
            Target::AnyOf(slots) => {
                let is_it = |number: &u8| slots.slot(*number).is_some();
                Self::Slot((0..SLOTS as u8).find(is_it).expect("one of them"))
            }
            target => panic!("nobody asks for a part of others: {target:?}"),
        }
    }

    pub(crate) fn target(self) -> Target {
        let slots = || Slots::new(b"", "r", SLOTS).expect("a few");
        match self {
            Self::One => resource(0).into(),
            Self::Shared => Target::Shared(resource(0)),
            Self::Downgraded => Target::Downgraded(resource(0)),
            Self::Slot(slot) => Target::Slot(slots().slot(slot).expect("one of them")),
            Self::Any => slots().into(),
        }
    }

    pub(crate) const fn reads(self) -> bool {
        matches!(self, Self::Shared | Self::Downgraded)
    }

    /// Which resource it is that is held.
    const fn key(self) -> usize {
        match self {
            Self::Slot(slot) => slot as usize,
            _ => 0,
        }
    }

    /// The property that does not hold where two hold at once, if they may not.
    fn clash(self, other: Self) -> Option<&'static str> {
        let both_read = self.reads() && other.reads();
        if self.key() != other.key() || both_read {
            return None;
        }
        Some(match (self, other) {
            (Self::One, Self::One) => ONE,
            (Self::Slot(_), _) | (_, Self::Slot(_)) => PERMITS,
            _ => READERS,
        })
    }
}

/// The same for all holders.
pub(crate) fn clash(held: &[Covers]) -> Option<&'static str> {
    let unknown = |covers: &Covers| *covers == Covers::Any || covers.key() >= SLOTS;
    if held.iter().any(unknown) {
        return Some(PERMITS);
    }
    let pairs = held
        .iter()
        .enumerate()
        .flat_map(|(at, one)| held[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.into_iter().find_map(|(one, other)| one.clash(other))
}

/// The highest tokens of one resource, of all leases that have begun.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Highest {
    any: u16,
    /// Of exclusive holders.
    alone: u16,
}

/// The same of each resource.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Tokens([Highest; SLOTS]);

impl Tokens {
    /// A lease begins. Says whether its token is in order: an exclusive lease has a higher one than all before, and a
    /// reader none lower than any exclusive lease before.
    pub(crate) fn begin(&mut self, covers: Covers, token: u16) -> bool {
        let Some(highest) = self.0.get_mut(covers.key()) else { return false };
        let is_in_order = if covers.reads() { token >= highest.alone } else { token > highest.any };
        highest.any = highest.any.max(token);
        if !covers.reads() {
            highest.alone = highest.alone.max(token);
        }
        is_in_order
    }
}

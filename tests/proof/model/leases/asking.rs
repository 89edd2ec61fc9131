//! What an attempt asks for: a resource, some of them, or any slot of a semaphore.
//!
//! Goal and method: `attempt.rs`. Resources are known by the bits of their numbers.

use core::time::Duration;

use super::{Ask, attempt::BEGUN};
use crate::{
    model::node::{KEYS, resource},
    protocol::{EpochMark, Owner, Quorum, Resource, ResourceSet, Round, RoundSpec, Slots, Target},
};

/// So many slots a semaphore has.
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

/// The target with these resources, which readers share.
pub(crate) fn target(keys: u8, reads: bool) -> Target {
    if reads {
        return Target::Shared(resource(0));
    }
    let all = (0..KEYS).filter(|key| keys & 1 << key != 0).map(resource);
    ResourceSet::new(all).expect("a few").into()
}

/// Any slot.
pub(crate) fn slots() -> Target {
    Slots::new(b"", "r", SLOTS).expect("a few").into()
}

/// The bits of the resources that a target names.
pub(crate) fn keys_of(target: &Target) -> u8 {
    let bit = |name: &Resource| name.as_bytes().last().expect("a name") - b'0';
    target.resources().iter().fold(0, |keys, name| keys | 1 << bit(name))
}

/// The round of an attempt.
pub(crate) fn round(owner: Owner, ask: &Ask, ttl: Duration, marks: Vec<EpochMark>) -> Round {
    let wanted = match ask.want {
        Want::One => target(1, ask.reads),
        Want::Set(keys) => target(keys, false),
        Want::Any(_) => slots(),
    };
    let mut spec = RoundSpec::new(wanted, owner, ttl);
    (spec.hint, spec.count, spec.marks) = (Some(ask.hint), ask.count, marks.into());
    if let Want::Any(first) = ask.want {
        spec.first = first;
    }
    Round::acquire(Quorum::of(super::NODES), spec, BEGUN)
}

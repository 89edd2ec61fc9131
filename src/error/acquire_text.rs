//! What an `AcquireError` says where that takes more than a line.
//!
//! It decides nothing but the words.

use std::{fmt, time::Duration};

use super::{
    Reports,
    named::{Named, Quoted},
};
use crate::{
    config::{TTL, TooLong},
    protocol::{Resource, Target},
    text::rounded,
};

pub(super) struct Contended<'a> {
    pub(super) target: &'a Option<Target>,
    pub(super) waited: &'a Duration,
    pub(super) expires_in: &'a Option<Duration>,
    pub(super) resource: &'a Option<Resource>,
    pub(super) nodes: &'a Reports,
}

impl fmt::Display for Contended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waited, named) = (rounded(*self.waited), Named(self.target.as_ref()));
        if let Some(owner) = self.nodes.held_here() {
            write!(f, "another lease of this process, `{owner}`, holds {named}")?;
            if let Some(left) = self.expires_in {
                write!(f, " for {:?} unless renewed", rounded(*left))?;
            }
            return write!(
                f,
                "; it did not become free within {waited:?}; no node was asked; wait longer or try again",
            );
        }
        let is_kept = self.nodes.are_for_those_who_wait();
        let is_semaphore = matches!((self.resource, self.target), (None, Some(Target::AnyOf(_))));
        match (self.resource, self.target) {
            (Some(resource), _) => write!(f, "the resource {} is", Quoted(resource))?,
            (None, Some(Target::AnyOf(_))) if is_kept => write!(f, "a permit of {named} is")?,
            (None, Some(Target::AnyOf(_))) => write!(f, "all permits of {named} are")?,
            (None, Some(Target::Set(_))) => write!(f, "one of {named} is")?,
            (None, _) => write!(f, "{named} is")?,
        }
        match self.nodes.label() {
            _ if is_kept => f.write_str(" free but reserved for waiting clients")?,
            Some(label) if self.holders() == 1 => write!(f, " held by `{label}`")?,
            _ if is_semaphore => f.write_str(" held by other clients")?,
            _ => f.write_str(" held by another client")?,
        }
        if self.holders() > 1 {
            f.write_str(", or several asked for it at once")?;
        }
        write!(
            f,
            "; {} within {waited:?}; nothing of this attempt stays on the nodes; ",
            if is_kept { "not granted" } else { "it did not become free" }
        )?;
        f.write_str(if is_kept {
            "wait in line (acquire with a wait) or try again"
        } else {
            "wait longer or try again"
        })?;
        if let Some(expires_in) = self.expires_in {
            write!(f, "; the holder's key expires in {:?} unless renewed", rounded(*expires_in))?;
        }
        write!(f, "{}", self.nodes.after(": "))
    }
}

impl Contended<'_> {
    /// How many different values stand in the way.
    fn holders(&self) -> usize {
        let mut holders: Vec<_> = self.nodes.denials().map(|(_, denial)| &denial.holder).collect();
        holders.sort_unstable();
        holders.dedup();
        holders.len()
    }
}

pub(super) struct Quarantined<'a> {
    pub(super) waited: &'a Duration,
    pub(super) remaining: &'a Duration,
    pub(super) nodes: &'a Reports,
}

impl fmt::Display for Quarantined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waited, remaining, nodes } = self;
        if remaining.is_zero() {
            f.write_str(
                "no quorum can vote yet: new or restarted nodes may have forgotten leases; their quarantine is over; \
                 they vote once enough of the others answer for them (with strict_admission: once an operator admits \
                 them)",
            )?;
        } else {
            write!(
                f,
                "it takes another {:?} until a quorum can vote: new or restarted nodes are in quarantine, since they may \
                 have forgotten leases",
                rounded(**remaining)
            )?;
        }
        write!(
            f,
            "; gave up after {:?}; nothing of this attempt stays on the nodes; wait longer or try again; in a \
             short-lived process call Redlock::ready first, or the next run meets the same{}",
            rounded(**waited),
            nodes.after(": ")
        )
    }
}

pub(super) struct Ttl<'a> {
    pub(super) ttl: &'a Duration,
    pub(super) min_validity: &'a Duration,
    pub(super) min: &'a Duration,
    pub(super) max: &'a Duration,
}

impl fmt::Display for Ttl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ttl, min_validity, min, max } = self;
        if ttl > max && **max == *TTL.end() {
            write!(f, "the ttl of {ttl:?} is above the maximum of {max:?}")
        } else if ttl > max {
            TooLong { ttl: **ttl, max_ttl: **max }.fmt(f)
        } else if *ttl < TTL.start() {
            write!(f, "the ttl of {ttl:?} is below the minimum of {min:?}")
        } else {
            write!(
                f,
                "the ttl of {ttl:?}, less the allowance for clocks, does not exceed the minimum validity of \
                 {min_validity:?}; ask for a ttl above {min:?}, or for less validity"
            )
        }
    }
}

pub(super) struct HoldTooLong<'a> {
    pub(super) hold: &'a Duration,
    pub(super) max: &'a Duration,
    pub(super) max_ttl: &'a Duration,
    pub(super) lock_delay: &'a Duration,
}

impl fmt::Display for HoldTooLong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hold, max, max_ttl, lock_delay } = self;
        write!(f, "hold_at_least of {hold:?} needs a ttl above max_ttl, which is {max_ttl:?}")?;
        if !lock_delay.is_zero() {
            write!(f, ", beside a lock_delay of {lock_delay:?}")?;
        }
        f.write_str("; nothing was sent; ")?;
        if max.is_zero() {
            f.write_str("ask for a shorter lock_delay")?;
        } else {
            write!(f, "ask for at most {max:?}")?;
        }
        f.write_str(", or raise max_ttl (and so the quarantine) in every process")
    }
}

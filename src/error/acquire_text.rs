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
            write!(f, "another lease of this process has {named}, held by `{owner}`")?;
            if let Some(left) = self.expires_in {
                write!(f, " for {:?} unless it is renewed", rounded(*left))?;
            }
            return write!(
                f,
                ", and was not free within {waited:?}; no node was asked; wait longer or try again",
            );
        }
        if self.nodes.none_was_asked() {
            return write!(
                f,
                "another task is acquiring {named} by this Reentrant, and was not done after {waited:?}; no node \
                 was asked; wait longer or try again",
            );
        }
        let is_kept = self.nodes.are_for_those_who_wait();
        match (self.resource, self.target) {
            (Some(resource), _) if is_kept => write!(f, "the resource {} is", Quoted(resource))?,
            (Some(resource), _) => write!(f, "the resource {} is held by ", Quoted(resource))?,
            (None, Some(Target::AnyOf(_))) if is_kept => write!(f, "a permit of {named} is")?,
            (None, Some(Target::AnyOf(_))) => write!(f, "all permits of {named} are held by ")?,
            (None, Some(Target::Set(_))) if is_kept => write!(f, "one of {named} is")?,
            (None, Some(Target::Set(_))) => write!(f, "one of {named} is held by ")?,
            (None, _) if is_kept => write!(f, "{named} is")?,
            (None, _) => write!(f, "{named} is held by ")?,
        }
        match self.nodes.label() {
            _ if is_kept => f.write_str(" free, and kept for those who wait for it")?,
            Some(label) if self.holders() == 1 => write!(f, "`{label}`")?,
            _ => f.write_str("somebody else")?,
        }
        if self.holders() > 1 {
            f.write_str(", or several asked for it at once")?;
        }
        write!(
            f,
            ", and was not {} within {waited:?}; nothing of this attempt stays on the nodes; ",
            if is_kept { "to be had" } else { "free" }
        )?;
        f.write_str(if is_kept {
            "wait in that line (acquire with a wait) or try again"
        } else {
            "wait longer or try again"
        })?;
        if let Some(expires_in) = self.expires_in {
            write!(f, ", its key expires in {:?} unless it is renewed", rounded(*expires_in))?;
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

/// How many others there are that wait.
pub(super) fn others_wait(others: usize) -> String {
    match others {
        1 => "1 other waits for its turn".to_owned(),
        others => format!("{others} others wait for their turn"),
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
                "no quorum can vote yet: new or restarted nodes may have forgotten leases, their quarantine is over, and they vote once \
                 enough of the others answer for them (or an operator admits them, with strict_admission)",
            )?;
        } else {
            write!(
                f,
                "no quorum can vote for another {:?}: new or restarted nodes may have forgotten leases, and are in quarantine",
                rounded(**remaining)
            )?;
        }
        write!(
            f,
            "; gave up after {:?}, and nothing of this attempt stays on the nodes; wait longer or try again; \
             a process that ends at once calls Redlock::ready first, or the next one meets the same{}",
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
            write!(f, "the ttl of {ttl:?} is longer than the longest that is accepted, {max:?}")
        } else if ttl > max {
            TooLong { ttl: **ttl, max_ttl: **max }.fmt(f)
        } else if *ttl < TTL.start() {
            write!(f, "the ttl of {ttl:?} is shorter than the shortest that is accepted, {min:?}")
        } else {
            write!(
                f,
                "the ttl of {ttl:?} leaves no more than the minimum validity of {min_validity:?} after the allowance for \
                 clocks; ask for a ttl of more than {min:?}, or for less validity"
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
        write!(
            f,
            "hold_at_least of {hold:?} needs a longer ttl than max_ttl, {max_ttl:?}, allows"
        )?;
        if !lock_delay.is_zero() {
            write!(f, " beside a lock_delay of {lock_delay:?}")?;
        }
        f.write_str("; nothing was sent; ")?;
        if max.is_zero() {
            f.write_str("ask for a shorter lock_delay")?;
        } else {
            write!(f, "ask for {max:?} at most")?;
        }
        f.write_str(", or raise max_ttl in every process, and with it the quarantine")
    }
}

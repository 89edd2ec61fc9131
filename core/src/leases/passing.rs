//! How a grant passes from one lease to the next: handed on, kept and taken again, or shared with readers.
//!
//! It decides whether another lease may begin, and begins it in the step in which the one before ends. `handover`
//! decides whether the grant will do for it.

use core::time::Duration;

use super::{Current, Leases};
use crate::{
    fencing::FencingToken,
    handover::{NotHandedOn, Offer, OthersWait, Wanted},
    lifecycle::RenewalPolicy,
    time::Timestamp,
};

/// What the next lease under a grant asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct NextLease {
    /// What it needs of the grant.
    pub wanted: Wanted,
    /// How it is renewed.
    pub renewal: RenewalPolicy,
    /// Until when others are kept out at least, by the steady clock.
    pub keeps_until: Option<Timestamp>,
    /// How long the grant is kept after it.
    pub linger: Duration,
}

/// What else decides about a hand-over or keeping.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Situation {
    /// Whether other processes wait.
    pub others: OthersWait,
    /// How long hand-overs may go on while they do.
    pub turn: Duration,
    /// By the clock for deadlines.
    pub now: Timestamp,
    /// By the steady clock, which only runs behind.
    pub steady: Timestamp,
}

/// A lease that has begun under a grant.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Begun {
    /// Its number.
    pub number: u64,
    /// Its token.
    pub token: Option<FencingToken>,
    /// Whether the grant's timer changes.
    pub moved: bool,
}

impl Leases {
    /// Its holder shares it with readers from now on, under the returned number. `None` if it is over already: its
    /// reason and number stay, which for instance a shutdown needs to release it.
    pub fn downgrade(&mut self, number: u64) -> Option<u64> {
        if !self.lasts() || self.is_past(Some(number)) {
            return None;
        }
        self.downgraded = true;
        self.current.number = number.wrapping_add(1);
        Some(self.current.number)
    }

    /// Adapts what was seen of others to this grant. While it is unknown whether others wait, they wait for as long as
    /// the grant was asked to be kept, at most.
    #[must_use]
    pub fn situation(&self, seen: Situation) -> Situation {
        let is_unknown = seen.others == OthersWait::Unknown;
        let turn = if is_unknown { seen.turn.max(self.current.linger.get()) } else { seen.turn };
        Situation { turn, ..seen }
    }

    /// Whether another lease may follow the one with this number, under the same grant.
    pub fn may_go_on(&self, number: u64) -> bool {
        !self.is_past(Some(number)) && self.goes_on()
    }

    const fn goes_on(&self) -> bool {
        !self.downgraded && !self.ended && !self.current.shut_down
    }

    /// Begins the next lease in the step in which the one before ends: its number is the current one from now on.
    ///
    /// # Errors
    ///
    /// Why it did not begin. Nothing has changed then.
    pub fn hand_on(
        &mut self,
        next: &NextLease,
        situation: Situation,
    ) -> Result<Begun, NotHandedOn> {
        if !self.goes_on() {
            return Err(NotHandedOn::Ending);
        }
        let Situation { others, turn, now, steady } = situation;
        let is_kept = self.current.hold.is_some_and(|until| until > steady);
        let offer = Offer {
            lifecycle: &self.lifecycle,
            lock_delay: self.lock_delay.get(),
            alone: self.alone,
            is_kept,
            others,
            turn,
            now,
        };
        let token = self.cohort.next(&offer, next.wanted)?;
        let number = self.current.number.wrapping_add(1);
        self.current = Current::new(number, token, next.keeps_until, next.linger);
        let moved = self.lifecycle.handle_term(next.wanted.ttl, next.renewal, now);
        Ok(Begun { number, token, moved })
    }

    /// Keeps the grant without a lease, if its last holder asked for that, nobody is known to wait elsewhere, and it
    /// would do for another lease. If the nodes report newcomers, they do so until `heard_until`. Returns whether it is
    /// kept.
    pub fn keep(&mut self, situation: Situation, heard_until: Option<Timestamp>) -> bool {
        let Situation { others, now, steady, .. } = situation;
        let linger = self.current.linger.get();
        let until = now.saturating_add(linger);
        let until = heard_until.map_or(until, |heard| until.min(heard));
        let may = !linger.is_zero()
            && self.current.hold.is_none_or(|until| until <= steady)
            && self.goes_on()
            && !self.is_kept()
            && others != OthersWait::Somebody
            && self.cohort.has_next()
            && self.lifecycle.is_sound(now)
            && now < until;
        if !may {
            return false;
        }
        // The limits of a lease that is over apply to nobody.
        let renewal = RenewalPolicy { renew: self.lifecycle.renews(), ..RenewalPolicy::default() };
        self.lifecycle.handle_term(self.lifecycle.ttl(), renewal, now);
        self.current = Current::new(self.current.number.wrapping_add(1), None, None, linger);
        self.lingers_until = Some(until);
        true
    }

    /// Begins a lease that takes a kept grant.
    pub fn resume(&mut self, next: &NextLease, situation: Situation) -> Option<Begun> {
        if !self.is_kept() {
            return None;
        }
        let begun = self.hand_on(next, situation).ok()?;
        self.lingers_until = None;
        Some(begun)
    }
}

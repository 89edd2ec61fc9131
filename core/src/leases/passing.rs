//! How a grant passes from one lease to the next: handed on, kept as nobody's and taken again, or shared with readers.
//!
//! It decides whether another lease may begin, and begins it in the step in which the one before ends. Whether the grant will
//! do for it, `handover` says.

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
    /// What decides whether the grant will do for it.
    pub wanted: Wanted,
    /// How it is renewed.
    pub renewal: RenewalPolicy,
    /// Up to when others are kept out at least, by the steady clock.
    pub keeps_until: Option<Timestamp>,
    /// For how long the grant is kept behind it.
    pub linger: Duration,
}

/// What else decides whether a grant is handed on or kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Situation {
    /// Whether other processes wait.
    pub others: OthersWait,
    /// For how long hand-overs may go on while they do.
    pub turn: Duration,
    /// By the clock that deadlines go by.
    pub now: Timestamp,
    /// By the one that may only run behind.
    pub steady: Timestamp,
}

/// A lease that has begun under a grant.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Begun {
    /// By which it asks from now on.
    pub number: u64,
    /// Its token.
    pub token: Option<FencingToken>,
    /// Whether the grant wants to be looked at at another time.
    pub moved: bool,
}

impl Leases {
    /// Its holder shares it with readers from now on, under another number, which is returned. Nothing where it is over
    /// already: that it stays for the same reason, and to whoever has its number, such as a shutdown that is about to
    /// release it.
    pub fn downgrade(&mut self, number: u64) -> Option<u64> {
        if !self.lasts() || self.is_past(Some(number)) {
            return None;
        }
        self.downgraded = true;
        self.current.number = number.wrapping_add(1);
        Some(self.current.number)
    }

    /// What has been seen of others, for this grant: while it is not known whether they wait, they wait for as long as was
    /// asked for it to be kept at most.
    #[must_use]
    pub fn situation(&self, seen: Situation) -> Situation {
        let is_unknown = seen.others == OthersWait::Unknown;
        let turn = if is_unknown { seen.turn.max(self.current.linger.get()) } else { seen.turn };
        Situation { turn, ..seen }
    }

    /// Whether the lease with this number may be followed by another, under the same grant.
    pub fn may_go_on(&self, number: u64) -> bool {
        !self.is_past(Some(number)) && self.goes_on()
    }

    const fn goes_on(&self) -> bool {
        !self.downgraded && !self.ended && !self.current.shut_down
    }

    /// The next lease begins where the one before ends, in one step: from now on its number is the current one.
    ///
    /// # Errors
    ///
    /// Why it does not. Nothing has changed then.
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

    /// Keeps it as nobody's, where its last holder asked for that, nobody is known to wait elsewhere, and it would do for
    /// another lease. `heard_until`: the nodes tell of whoever comes up to then, where they do. Says whether it is kept.
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
        // Limits of a lease that is over are nobody's.
        let renewal = RenewalPolicy { renew: self.lifecycle.renews(), ..RenewalPolicy::default() };
        self.lifecycle.handle_term(self.lifecycle.ttl(), renewal, now);
        self.current = Current::new(self.current.number.wrapping_add(1), None, None, linger);
        self.lingers_until = Some(until);
        true
    }

    /// It is kept, and a lease begins that takes it.
    pub fn resume(&mut self, next: &NextLease, situation: Situation) -> Option<Begun> {
        if !self.is_kept() {
            return None;
        }
        let begun = self.hand_on(next, situation).ok()?;
        self.lingers_until = None;
        Some(begun)
    }
}

//! How one lease follows another under one grant: handed on, kept as nobody's and taken again, or shared with readers.
//!
//! Goal: whether and under which number and token, the production's `Leases` alone decide. Method: each lease behind the first
//! asks for a ttl of its own, and behind each step both numbers are asked.

use core::time::Duration;

use super::{
    Setup,
    holder::{Holder, Outbox, Stage, small},
    mine::Mine,
};
use crate::protocol::{Leases, NextLease, Timestamp, Wanted, validity};

pub(crate) const HALF: &str =
    "a lease that is handed on has half of its time left, and is not about to be lost";

pub(crate) const ONE: &str = "one number holds at a time";
pub(crate) const SHARED: &str = "what readers share is handed on to nobody";
pub(crate) const KEPT: &str = "what was taken is not given back as nobody's";

impl Holder {
    /// The next request in line has the grant now, or one that has come while it was nobody's.
    pub(crate) fn hand_on(&mut self, setup: &Setup, now: Timestamp) -> Option<()> {
        let ttl = setup.ttl_of(self.tokens.len());
        let next = self.next(setup);
        let mine = self.mine.as_mut()?;
        let leases = mine.leases()?;
        let (number, was_sound, was_kept) =
            (leases.number(), leases.lifecycle().is_sound(now), leases.is_kept());
        let begun = mine.hand_on(next, now)?;
        // A request that saw it kept a moment ago ends nothing.
        if was_kept && mine.would_end_kept(now) {
            self.wrong = Some(KEPT);
        }
        let leases = mine.leases()?;
        if leases.is_downgraded() {
            self.wrong = Some(SHARED);
        }
        let left = validity::left(leases.lifecycle().deadline(), now);
        let promised = ttl.saturating_sub(setup.drift().of(ttl));
        let may = matches!(self.stage, Stage::Held | Stage::Lingers);
        if left < promised / 2 || !may || !was_sound {
            self.wrong = Some(HALF);
        }
        if leases.left(Some(number), now).is_ok() || leases.left(Some(begun), now).is_err() {
            self.wrong = Some(ONE);
        }
        let token = leases.token()?;
        self.stage = Stage::Held;
        self.tokens.push(small(token.get()));
        Some(())
    }

    /// Nobody holds it, and it is kept.
    pub(crate) fn linger(&mut self, _: &Setup, now: Timestamp) -> Option<()> {
        let mine = self.mine.as_mut()?;
        let number = mine.keep(now)?;
        if mine.leases()?.left(Some(number), now).is_ok() {
            self.wrong = Some(ONE);
        }
        self.stage = Stage::Lingers;
        Some(())
    }

    /// Its holder shares it with readers from now on, and the nodes follow.
    pub(crate) fn downgrade(&mut self, now: Timestamp) -> Outbox {
        if let Some(mine) = &mut self.mine {
            let before = mine.downgrade(now);
            let holds =
                |number| mine.leases().is_some_and(|of_it| of_it.left(Some(number), now).is_ok());
            if before.is_none_or(holds) {
                self.wrong = Some(ONE);
            }
        }
        self.learn(now)
    }

    /// What the next lease of this grant asks for.
    pub(super) fn next(&self, setup: &Setup) -> NextLease {
        let (ttl, lock_delay) = (setup.ttl_of(self.tokens.len()), setup.lock_delay());
        let wanted = Wanted { ttl, lock_delay, min_validity: Duration::ZERO, alone: false };
        let (renewal, linger) = (setup.policy(), setup.linger());
        NextLease { wanted, renewal, keeps_until: None, linger }
    }

    /// Whether its holder shares it with readers.
    pub(super) fn is_downgraded(&self) -> bool {
        self.mine.as_ref().and_then(Mine::leases).is_some_and(Leases::is_downgraded)
    }
}

impl Setup {
    /// What the lease behind so many others of its grant asks for.
    fn ttl_of(&self, before: usize) -> Duration {
        let ticks =
            if before > 0 && self.later_ticks > 0 { self.later_ticks } else { self.ttl_ticks };
        Duration::from_millis(u64::from(ticks) * super::holder::TICK)
    }
}

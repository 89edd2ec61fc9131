//! How one lease follows another under one grant: handed on, kept as nobody's and taken again, or shared with readers.
//!
//! Goal: whether and under which token, the production's `Row` and `Lifecycle` alone decide. Method: each lease behind the
//! first asks for a ttl of its own.

use core::time::Duration;

use super::{
    Setup,
    holder::{Holder, Outbox, Stage, small},
};
use crate::protocol::{Offer, OthersWait, Timestamp, Wanted, turn_of, validity};

pub(crate) const HALF: &str =
    "a lease that is handed on has half of its time left, and is not about to be lost";

impl Holder {
    /// The next one in line of this process has the grant now, or one that has come while it was nobody's.
    pub(crate) fn hand_on(&mut self, setup: &Setup, now: Timestamp) -> Option<()> {
        let (ttl, lock_delay) = (setup.ttl_of(self.tokens.len()), setup.lock_delay());
        let (row, lifecycle) = (self.row.as_mut()?, self.lifecycle.as_mut()?);
        if self.lowered {
            return None;
        }
        let offer = Offer {
            lifecycle,
            lock_delay,
            is_kept: false,
            alone: false,
            others: OthersWait::Nobody,
            turn: turn_of(None),
            now,
        };
        let wanted = Wanted { ttl, lock_delay, min_validity: Duration::ZERO, alone: false };
        let token = row.next(&offer, wanted).ok()?;
        let left = validity::left(lifecycle.deadline(), now);
        let promised = ttl.saturating_sub(setup.drift().of(ttl));
        let may = matches!(self.stage, Stage::Held | Stage::Lingers);
        if left < promised / 2 || !may || !lifecycle.is_sound(now) {
            self.wrong = Some(HALF);
        }
        self.stage = Stage::Held;
        self.tokens.push(small(token?.get()));
        let _asked_again = lifecycle.handle_tenure(ttl, setup.policy(), now);
        Some(())
    }

    /// Nobody holds it, and it is kept.
    pub(crate) fn linger(&mut self, setup: &Setup, now: Timestamp) -> Option<()> {
        let (row, lifecycle) = (self.row.as_ref()?, self.lifecycle.as_mut()?);
        if self.lowered || !row.has_next() || !lifecycle.is_sound(now) {
            return None;
        }
        let ttl = lifecycle.ttl();
        let _asked_again = lifecycle.handle_tenure(ttl, setup.policy(), now);
        self.stage = Stage::Lingers;
        Some(())
    }

    /// Its holder shares it with readers from now on, and the nodes follow.
    pub(crate) fn lower(&mut self, setup: &Setup, now: Timestamp) -> Outbox {
        self.lowered = true;
        self.extend(setup, now)
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

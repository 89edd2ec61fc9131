//! The leases of one grant, one after the other: which one is current, what its holder may be told, and how the grant
//! ends.
//!
//! It decides when a grant is handed on, kept without a lease, shared with readers, left for its lock-delay, and ended.
//! `lifecycle` decides when it is extended and lost, `handover` whether it will do for the next lease. It tells nobody,
//! and releases nothing.
//!
//! # Invariants
//!
//! - **G1** At any time at most one number holds: that of the current lease, while the grant is neither lost nor ended.
//!   A past number never holds again, and its lease counts as released, whatever becomes of the grant.
//! - **G2** A grant ends once. From then on it is not handed on, kept, shared or extended.
//! - **G3** While it is kept, no number of any holder holds, and nobody is told of a loss.
//! - **G4** It is left without a release only if it was lost under its holder's work and has a lock-delay.
//! - **G5** A holder's time to keep others out counts from when it has the lease, and is never cut.

mod ending;
mod passing;

use core::time::Duration;

pub use self::{
    ending::EndedLease,
    passing::{Begun, NextLease, Situation},
};
use super::{
    fencing::FencingToken,
    handover::Cohort,
    lifecycle::{ExtendOutcome, LeaseAction, Lifecycle},
    loss::LossReason,
    time::{Nanos, Timestamp},
    validity,
};

/// The state of a grant in this process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Leases {
    lifecycle: Lifecycle,
    /// How often it was handed on, and still may be.
    cohort: Cohort,
    /// How long its keys stand beyond its ttl.
    lock_delay: Nanos,
    /// It is not handed on.
    alone: bool,
    /// Its holder had it alone, and shares it with readers now.
    downgraded: bool,
    warning: Option<LossReason>,
    /// It is given back.
    ended: bool,
    /// Ended without a release: it was lost, and its keys keep others out for the lock-delay.
    left: bool,
    /// While it has no lease, until when it is kept.
    lingers_until: Option<Timestamp>,
    current: Current,
}

/// The current lease, or the last.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Current {
    /// Counted from zero within each grant.
    number: u64,
    token: Option<FencingToken>,
    /// Its holder has it and may work under it.
    taken: bool,
    /// Until when others are kept out, once a holder has it.
    keeps_until: Option<Timestamp>,
    /// Until when others are kept out at least, by the steady clock; set when its holder has it.
    hold: Option<Timestamp>,
    /// How much work runs under it that ends at a loss.
    works: u32,
    /// How long the grant is kept after it without a lease.
    linger: Nanos,
    /// A shutdown has ended it.
    shut_down: bool,
}

/// What is due for a grant.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Due {
    /// It is to be extended.
    pub extend: bool,
    /// What to tell its holder.
    pub tell: Option<LeaseAction>,
    /// It is no longer kept.
    pub give_back: bool,
}

impl Leases {
    /// Begins the first lease.
    pub const fn new(
        lifecycle: Lifecycle,
        cohort: Cohort,
        token: Option<FencingToken>,
        (linger, lock_delay, alone): (Duration, Duration, bool),
        keeps_until: Option<Timestamp>,
    ) -> Self {
        Self {
            lifecycle,
            cohort,
            lock_delay: Nanos::new(lock_delay),
            alone,
            downgraded: false,
            warning: None,
            ended: false,
            left: false,
            lingers_until: None,
            current: Current::new(0, token, keeps_until, linger),
        }
    }

    /// The grant over time.
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// The number of the current lease, or the last.
    pub const fn number(&self) -> u64 {
        self.current.number
    }

    /// Its token.
    pub const fn token(&self) -> Option<FencingToken> {
        self.current.token
    }

    /// Whether its holder has it.
    pub const fn is_taken(&self) -> bool {
        self.current.taken
    }

    /// How long a node keeps its key.
    pub fn key_life(&self) -> Duration {
        validity::key_life(self.lifecycle.ttl(), self.lock_delay.get())
    }

    /// How long its keys stand beyond its ttl.
    pub const fn lock_delay(&self) -> Duration {
        self.lock_delay.get()
    }

    /// Whether its leases have tokens.
    pub const fn is_fenced(&self) -> bool {
        self.cohort.is_fenced()
    }

    /// How many leases it has had.
    pub const fn count(&self) -> u64 {
        self.cohort.leases()
    }

    /// Whether it was given back, so that others may have its keys.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether it is kept without a lease.
    pub const fn is_kept(&self) -> bool {
        self.lingers_until.is_some()
    }

    /// Whether its holder had it alone, and shares it with readers now.
    pub const fn is_downgraded(&self) -> bool {
        self.downgraded
    }

    /// Whether the current lease asked to keep the grant afterwards.
    pub const fn lingers(&self) -> bool {
        !self.current.linger.get().is_zero()
    }

    /// Why it is about to be lost.
    pub const fn warning(&self) -> Option<LossReason> {
        self.warning
    }

    /// Until when others are kept out at least.
    pub const fn hold_until(&self) -> Option<Timestamp> {
        self.current.hold
    }

    /// Whether something may be set for it on a node: it is neither lost nor ended.
    pub const fn lasts(&self) -> bool {
        !self.ended && self.lifecycle.lost().is_none()
    }

    /// When it next needs a look.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.ended {
            return None;
        }
        [self.lifecycle.poll_timeout(), self.lingers_until].into_iter().flatten().min()
    }

    /// Declares it lost if its time is up; the caller tells the returned action.
    pub fn handle_check(&mut self, now: Timestamp) -> Option<LeaseAction> {
        if self.ended { None } else { self.lifecycle.handle_check(now) }
    }

    /// The time left to the lease with this number, or to the grant.
    ///
    /// # Errors
    ///
    /// Why it is over.
    pub fn left(&self, number: Option<u64>, now: Timestamp) -> Result<Duration, LossReason> {
        if self.is_past(number) || !self.lasts() {
            return Err(self.over(number));
        }
        Ok(validity::left(self.lifecycle.deadline(), now))
    }

    /// Whether the lease with this number ended while the grant went on. A kept grant has no lease.
    pub fn is_past(&self, number: Option<u64>) -> bool {
        number.is_some_and(|number| self.is_kept() || number != self.current.number)
    }

    /// Why a lease no longer holds. A lease before a hand-over was released, and stays so whatever becomes of the
    /// grant.
    pub fn over(&self, number: Option<u64>) -> LossReason {
        let lost = self.lifecycle.lost().filter(|_| !self.is_past(number));
        lost.unwrap_or(LossReason::Released)
    }

    /// Its timer has come.
    pub fn handle_timeout(&mut self, now: Timestamp) -> Due {
        let mut due = Due::default();
        if self.ended {
            return due;
        }
        while let Some(action) = self.lifecycle.handle_timeout(now) {
            match action {
                LeaseAction::Extend => due.extend = true,
                LeaseAction::Warn(reason) => {
                    self.warning = Some(reason);
                    due.tell = Some(action);
                }
                LeaseAction::Lose(_) => due.tell = Some(action),
            }
        }
        if let Some(until) = self.lingers_until {
            due.give_back = until <= now || due.tell.is_some();
            due.tell = None;
        }
        due
    }

    /// Judges the end of an extension; `was_downgraded` says whether the grant was shared with readers when that began.
    /// Nodes that have made it a reader's since then refuse it, which is no sign of a loss.
    #[must_use]
    pub fn judged(&self, outcome: ExtendOutcome, was_downgraded: bool) -> ExtendOutcome {
        if outcome == ExtendOutcome::Lost && !was_downgraded && self.downgraded {
            ExtendOutcome::InDoubt
        } else {
            outcome
        }
    }

    /// Takes the end of an extension, and returns what to tell. It counts for the present holder: the extended key on
    /// the nodes is that of all its leases.
    pub fn handle_extension(
        &mut self,
        outcome: ExtendOutcome,
        now: Timestamp,
    ) -> Option<LeaseAction> {
        if self.ended {
            return None;
        }
        if let ExtendOutcome::Extended(_) = outcome {
            self.warning = None;
        }
        self.lifecycle.handle_extension(outcome, now)
    }

    /// A node votes again that may have lost its key. Returns whether the next renewal comes sooner.
    pub fn handle_node_back(&mut self, random: u8, now: Timestamp) -> bool {
        self.lifecycle.handle_node_back(random, now)
    }

    /// Its holder has it. Before that nobody could work under it, and so nobody need be kept out afterwards.
    pub fn handle_taken(&mut self, number: u64) {
        if !self.is_past(Some(number)) {
            self.current.taken = true;
            self.current.hold = self.current.keeps_until;
        }
    }

    /// Begins work that ends at a loss, and then says so.
    ///
    /// # Errors
    ///
    /// Why the lease is over. A shutdown that has ended it then releases it, since there was no work.
    pub fn begin_work(&mut self, number: u64) -> Result<(), LossReason> {
        if self.is_past(Some(number)) || self.ended || self.current.shut_down {
            return Err(self.over(Some(number)));
        }
        self.current.works = self.current.works.saturating_add(1);
        Ok(())
    }

    /// Work has ended. Returns whether a shutdown waited for it, and for no other work: the lease is to be given back.
    pub fn end_work(&mut self, number: u64) -> bool {
        if self.is_past(Some(number)) {
            return false;
        }
        self.current.works = self.current.works.saturating_sub(1);
        self.current.works == 0 && self.current.shut_down && !self.ended
    }

    /// Its holder gave a heartbeat.
    pub fn handle_heartbeat(&mut self, number: u64, now: Timestamp) {
        if !self.is_past(Some(number)) {
            self.lifecycle.handle_heartbeat(now);
        }
    }

    /// Others are kept out until then, even after an earlier release.
    pub fn hold(&mut self, number: u64, until: Timestamp) {
        if !self.is_past(Some(number)) {
            self.current.hold = self.current.hold.max(Some(until));
        }
    }
}

impl Current {
    const fn new(
        number: u64,
        token: Option<FencingToken>,
        keeps_until: Option<Timestamp>,
        linger: Duration,
    ) -> Self {
        let (taken, hold, works, shut_down) = (false, None, 0, false);
        let linger = Nanos::new(linger);
        Self { number, token, taken, keeps_until, hold, works, linger, shut_down }
    }
}

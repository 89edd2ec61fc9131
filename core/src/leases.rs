//! The leases of one grant, one after the other: whose time it is, what that one may be told, and how it ends.
//!
//! It decides when a grant is handed on, kept as nobody's, shared with readers, left for its lock-delay, and ended. When it is
//! extended and lost, `lifecycle` decides; whether it will do for the next, `handover`. It tells nobody, and releases nothing.
//!
//! # Invariants
//!
//! - **G1** At any time one number at most holds: that of the current lease, while the grant is neither lost nor ended. A
//!   number that is past never holds again, and its lease was released, whatever becomes of the grant.
//! - **G2** A grant ends once. From then on it is not handed on, kept, shared or extended.
//! - **G3** While it is kept, no number that anybody has holds, and nobody is told of a loss.
//! - **G4** It is left without a release only where it was lost under somebody's work and has a lock-delay.
//! - **G5** What a holder keeps others out for is kept from when it has the lease, and never cut.

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

/// Everything that is decided of a grant in this process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Leases {
    lifecycle: Lifecycle,
    /// How often it has been handed on, and may be.
    cohort: Cohort,
    /// For how long its keys stand beyond its ttl.
    lock_delay: Nanos,
    /// It is not handed on.
    alone: bool,
    /// Its holder shares it with readers, and had it alone.
    downgraded: bool,
    warning: Option<LossReason>,
    /// It is given back.
    ended: bool,
    /// Without a release: it was lost, and others are kept out for the lock-delay.
    left: bool,
    /// While it is nobody's, up to when it is kept so.
    lingers_until: Option<Timestamp>,
    current: Current,
}

/// Whose time it is, or was last.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Current {
    /// Counted from zero under each grant.
    number: u64,
    token: Option<FencingToken>,
    /// Its holder has it, and may work under it.
    taken: bool,
    /// Up to when others are kept out, once a holder has it.
    keeps_until: Option<Timestamp>,
    /// Up to when others are kept out at least, by the steady clock; from when its holder has it.
    hold: Option<Timestamp>,
    /// Work goes on under it that ends when it is lost, and then gives it back.
    has_work: bool,
    /// For how long the grant is kept behind it as nobody's.
    linger: Nanos,
    /// A shutdown has ended it.
    shut_down: bool,
}

/// What has to be done for a grant whose time has come.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Due {
    /// It is to be extended.
    pub extend: bool,
    /// What has to be told.
    pub tell: Option<LeaseAction>,
    /// It is kept as nobody's no longer.
    pub give_back: bool,
}

impl Leases {
    /// The first lease begins.
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

    /// The number of whose time it is, or was last.
    pub const fn number(&self) -> u64 {
        self.current.number
    }

    /// The token of that one.
    pub const fn token(&self) -> Option<FencingToken> {
        self.current.token
    }

    /// Whether its holder has it.
    pub const fn is_taken(&self) -> bool {
        self.current.taken
    }

    /// For how long a node keeps its key.
    pub fn key_life(&self) -> Duration {
        validity::key_life(self.lifecycle.ttl(), self.lock_delay.get())
    }

    /// For how long its keys stand beyond its ttl.
    pub const fn lock_delay(&self) -> Duration {
        self.lock_delay.get()
    }

    /// Whether they have tokens.
    pub const fn is_fenced(&self) -> bool {
        self.cohort.is_fenced()
    }

    /// How many there have been.
    pub const fn count(&self) -> u64 {
        self.cohort.leases()
    }

    /// Whether it has been given back, so that others may have its keys.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether it is kept as nobody's.
    pub const fn is_kept(&self) -> bool {
        self.lingers_until.is_some()
    }

    /// Whether its holder shares it with readers, and had it alone.
    pub const fn is_downgraded(&self) -> bool {
        self.downgraded
    }

    /// Whether the current one asked for the grant to be kept behind it.
    pub const fn lingers(&self) -> bool {
        !self.current.linger.get().is_zero()
    }

    /// Why it is about to be lost.
    pub const fn warning(&self) -> Option<LossReason> {
        self.warning
    }

    /// Up to when others are kept out at least.
    pub const fn hold_until(&self) -> Option<Timestamp> {
        self.current.hold
    }

    /// Whether something may be set for it on a node: it is neither lost nor over.
    pub const fn lasts(&self) -> bool {
        !self.ended && self.lifecycle.lost().is_none()
    }

    /// When it wants to be looked at.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.ended {
            return None;
        }
        [self.lifecycle.poll_timeout(), self.lingers_until].into_iter().flatten().min()
    }

    /// Declares it lost if its time is up; what is returned has to be told.
    pub fn handle_check(&mut self, now: Timestamp) -> Option<LeaseAction> {
        if self.ended { None } else { self.lifecycle.handle_check(now) }
    }

    /// What is left of the lease with this number, or of the grant.
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

    /// Whether the lease with this number has ended while the grant went on. What is kept is nobody's.
    pub fn is_past(&self, number: Option<u64>) -> bool {
        number.is_some_and(|number| self.is_kept() || number != self.current.number)
    }

    /// Why a lease is over that does not hold any more. One whose grant has been handed on was released, and stays so
    /// whatever becomes of the grant.
    pub fn over(&self, number: Option<u64>) -> LossReason {
        let lost = self.lifecycle.lost().filter(|_| !self.is_past(number));
        lost.unwrap_or(LossReason::Released)
    }

    /// Its time has come.
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

    /// An extension has ended; `was_lowered` says whether the grant was shared with readers already when it began. Nodes that
    /// have made it a reader's since refuse it, and are no sign of a loss.
    #[must_use]
    pub fn judged(&self, outcome: ExtendOutcome, was_downgraded: bool) -> ExtendOutcome {
        if outcome == ExtendOutcome::Lost && !was_downgraded && self.downgraded {
            ExtendOutcome::InDoubt
        } else {
            outcome
        }
    }

    /// Takes the end of an extension, and returns what has to be told. It counts whoever holds the grant by now: what is
    /// extended is the key on the nodes, which all its leases share.
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

    /// A node votes again that may have lost its key. Says whether it is to be renewed sooner.
    pub fn handle_node_back(&mut self, random: u8, now: Timestamp) -> bool {
        self.lifecycle.handle_node_back(random, now)
    }

    /// Its holder has it. Before, nobody could work under it, so that nobody has to be kept out afterwards.
    pub fn handle_taken(&mut self, number: u64) {
        if !self.is_past(Some(number)) {
            self.current.taken = true;
            self.current.hold = self.current.keeps_until;
        }
    }

    /// Work begins that ends when the lease is lost, and then gives it back.
    ///
    /// # Errors
    ///
    /// Why the lease is over. A shutdown that has ended it goes on to release it, since there was no work.
    pub fn begin_work(&mut self, number: u64) -> Result<(), LossReason> {
        if self.is_past(Some(number)) || self.ended || self.current.shut_down {
            return Err(self.over(Some(number)));
        }
        self.current.has_work = true;
        Ok(())
    }

    /// Its holder goes on.
    pub fn handle_heartbeat(&mut self, number: u64, now: Timestamp) {
        if !self.is_past(Some(number)) {
            self.lifecycle.handle_heartbeat(now);
        }
    }

    /// Others are kept out up to then, whenever it is released.
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
        let (taken, hold, has_work, shut_down) = (false, None, false, false);
        let linger = Nanos::new(linger);
        Self { number, token, taken, keeps_until, hold, has_work, linger, shut_down }
    }
}

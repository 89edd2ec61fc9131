//! How a grant ends: given back, left to expire, left for its lock-delay, or ended by a shutdown. Once.
//!
//! It decides whether its keys are released, and up to when others are kept out.

use super::{Current, Leases};
use crate::{
    fencing::FencingToken,
    loss::LossReason,
    time::{Nanos, Timestamp},
};

/// A grant that has ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct EndedLease {
    /// The token of the last lease.
    pub token: Option<FencingToken>,
    /// Up to when others are kept out all the same.
    pub hold: Option<Timestamp>,
    /// Whether somebody had it up to now.
    pub was_held: bool,
}

impl Leases {
    /// The process shuts down. Says whether work goes on under it, which is told and gives it back when it has come to its
    /// end; nothing where it has ended, or is nobody's, or was shut down before.
    pub fn shut_down(&mut self) -> Option<bool> {
        if self.ended || self.is_kept() || core::mem::replace(&mut self.current.shut_down, true) {
            return None;
        }
        self.lifecycle.handle_ended(LossReason::ShutDown);
        Some(self.current.has_work)
    }

    /// Whether its keys are left for the lock-delay instead of a release: it was lost under its holder's work, and what
    /// that has sent may still be on its way.
    pub fn leave(&mut self, number: u64, now: Timestamp) -> bool {
        let is_left = self.lock_delay > Nanos::ZERO
            && !self.is_past(Some(number))
            && self.is_lost_at_work(now);
        self.left |= is_left;
        is_left
    }

    /// What was set too late is released. Where its keys are left, that is kept for as long: up to this.
    pub fn hold_of_late(&self, now: Timestamp, steady: Timestamp) -> Option<Timestamp> {
        let is_left = self.lock_delay > Nanos::ZERO && self.is_lost_at_work(now);
        let until = is_left.then(|| steady.saturating_add(self.lock_delay.get()));
        self.current.hold.max(until)
    }

    /// Ends it, once. With a reason it is over for that, and nothing is released. Nothing where it has ended, or the number
    /// is past: of such a lease nothing is left to be released.
    pub fn end(&mut self, number: u64, reason: Option<LossReason>) -> Option<EndedLease> {
        if self.is_past(Some(number)) || core::mem::replace(&mut self.ended, true) {
            return None;
        }
        let was_held = matches!(self.lifecycle.lost(), None | Some(LossReason::ShutDown));
        if let Some(reason) = reason {
            self.lifecycle.handle_ended(reason);
        }
        let Current { token, hold, .. } = self.current;
        Some(EndedLease { token, hold, was_held })
    }

    /// The same of what is kept as nobody's. Nothing where it is not: somebody may have taken it just now.
    pub fn end_kept(&mut self) -> Option<EndedLease> {
        self.lingers_until.take()?;
        let ended = self.end(self.current.number, None)?;
        // It was given back before.
        Some(EndedLease { was_held: false, ..ended })
    }

    /// Whether it was lost under somebody's work, who has not said since that this is done. A shutdown ends it in time, and
    /// it is lost where work goes on beyond its deadline.
    fn is_lost_at_work(&self, now: Timestamp) -> bool {
        let is_late = self.lifecycle.deadline() <= now;
        let is_loss =
            |reason: LossReason| reason.is_loss() || is_late && reason == LossReason::ShutDown;
        let is_lost = self.lifecycle.lost().is_some_and(is_loss);
        is_lost && self.current.taken && (self.left || !self.ended)
    }
}

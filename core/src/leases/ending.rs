//! How a grant ends, once: given back, left to expire, left for its lock-delay, or ended by a shutdown.
//!
//! It decides whether its keys are released, and until when others are kept out.

use core::time::Duration;

use super::{Current, Leases};
use crate::{
    fencing::FencingToken,
    lifecycle::RenewalPolicy,
    loss::LossReason,
    time::{Nanos, Timestamp},
};

/// A grant that has ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct EndedLease {
    /// The token of the last lease.
    pub token: Option<FencingToken>,
    /// Until when others are kept out all the same.
    pub hold: Option<Timestamp>,
    /// Whether a holder had it up to now.
    pub was_held: bool,
}

impl Leases {
    /// The process shuts down. Returns whether work runs under it; that work is told, and gives it back at its end.
    /// `None` if it has ended, is kept, or was shut down before.
    pub fn shut_down(&mut self) -> Option<bool> {
        if self.ended || self.is_kept() || core::mem::replace(&mut self.current.shut_down, true) {
            return None;
        }
        self.lifecycle.handle_ended(LossReason::ShutDown);
        Some(self.current.works > 0)
    }

    /// Its holder is about to leave it to others: its extensions ask for this ttl at least, and none is made by itself.
    /// Returns whether its timer changes.
    pub fn lie_for(&mut self, ttl: Duration, now: Timestamp) -> bool {
        let renewal = RenewalPolicy { renew: false, ..self.lifecycle.renewal() };
        self.lifecycle.handle_term(ttl, renewal, now)
    }

    /// Whether its keys stay for the lock-delay instead of a release: it was lost under its holder's work, and what the
    /// holder sent may still be under way.
    pub fn leave(&mut self, number: u64, now: Timestamp) -> bool {
        let is_left = self.is_cut_off(number, now);
        self.left |= is_left;
        is_left
    }

    /// Whether it has a lock-delay and was lost under its holder's work.
    pub fn is_cut_off(&self, number: u64, now: Timestamp) -> bool {
        self.lock_delay > Nanos::ZERO && !self.is_past(Some(number)) && self.is_lost_at_work(now)
    }

    /// Until when a late key is kept rather than deleted: as long as the grant's own keys, if they are left.
    pub fn hold_of_late(&self, now: Timestamp, steady: Timestamp) -> Option<Timestamp> {
        let is_left = self.lock_delay > Nanos::ZERO && self.is_lost_at_work(now);
        let until = is_left.then(|| steady.saturating_add(self.lock_delay.get()));
        self.current.hold.max(until)
    }

    /// Ends it, once. With a reason it is over for that, and nothing is released. `None` if it has ended or the number
    /// is past: such a lease leaves nothing to release.
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

    /// The same for a kept grant. `None` if it is not kept: another request may just have taken it.
    pub fn end_kept(&mut self) -> Option<EndedLease> {
        self.lingers_until.take()?;
        let ended = self.end(self.current.number, None)?;
        // Its last lease was given back before.
        Some(EndedLease { was_held: false, ..ended })
    }

    /// Whether it was lost under its holder's work that has not ended yet. After a shutdown it is lost only if work
    /// goes on beyond its deadline.
    fn is_lost_at_work(&self, now: Timestamp) -> bool {
        let is_late = self.lifecycle.deadline() <= now;
        let is_loss =
            |reason: LossReason| reason.is_loss() || is_late && reason == LossReason::ShutDown;
        let is_lost = self.lifecycle.lost().is_some_and(is_loss);
        is_lost && self.current.taken && (self.left || !self.ended)
    }
}

//! What has to hold of one process, in plain words.
//!
//! Goal: what `Client` says of itself (K1, K6, K7), and what those who use it rely on, in every state. Method: the account of its
//! requests is compared with what the client says of its leases. It must never change anything.

use super::{
    super::{
        account::{Entry, Fate},
        kind::{Covers, Kind, clash},
    },
    Handle,
};
use crate::protocol::Timestamp;

pub(crate) const HOLDS: &str =
    "the holder of a lease holds it, and nobody of its process does whom it keeps out";
pub(crate) const TOLD: &str = "a loss is told in time";
pub(crate) const SERVED: &str = "where anybody waits, somebody asks or holds";
pub(crate) const DUE: &str = "what wants to be looked at is among the timers";
pub(crate) const SET: &str = "nothing is set for a grant that is over";
pub(crate) const GOES_ON: &str = "who asks goes on in time";
pub(crate) const ANSWERED: &str = "who waits for so long is answered in time";
pub(crate) const KEPT: &str = "what is kept as nobody's is in nobody's way in its process";

impl Handle {
    /// After a time has passed, nobody takes a lease for its own that is over.
    pub(super) fn is_told(&mut self, now: Timestamp) {
        if !self.entries_hold(now) {
            self.account.say(TOLD);
        }
    }

    fn entries_hold(&self, now: Timestamp) -> bool {
        self.account.entries.iter().all(|entry| match entry.fate {
            Fate::Holds { attempt, number } => self.holds(attempt, number, now),
            _ => true,
        })
    }

    /// How many of its requests think that they hold.
    pub(crate) fn holders(&self) -> usize {
        self.held().count()
    }

    /// Whether all that was asked for has been answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.account.entries.iter().all(|entry| entry.fate == Fate::Gone)
    }

    /// The same, and given back.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_answered() && self.attempts.iter().all(|of_it| of_it.grant.is_none())
    }

    /// Whether a leader asks for this waiter too, or a holder may hand on to it. Readers wait for nobody here, and
    /// permits are not handed on.
    fn is_served(&self, waits: &Entry) -> bool {
        let Some(queue) = waits.queue else { return false };
        let has = |entry: &Entry| match entry.fate {
            Fate::Holds { attempt, .. } => {
                entry.queue == waits.queue && self.attempts[attempt].covers == Covers::One
            }
            _ => false,
        };
        self.client.is_led(queue)
            || waits.ask.kind == Kind::Alone && self.account.entries.iter().any(has)
    }

    /// Whether a grant is kept as nobody's while somebody here wants it otherwise.
    fn is_kept_in_the_way(&self) -> bool {
        let wants = |entry: &Entry| {
            matches!(entry.fate, Fate::Waits(_) | Fate::Asks(_)) && entry.ask.kind != Kind::Alone
        };
        self.account.entries.iter().any(wants) && self.keeps()
    }

    /// Which property does not hold here.
    pub(crate) fn wrong(&self, now: Timestamp) -> Option<&'static str> {
        if self.account.wrong.is_some() {
            return self.account.wrong;
        }
        let held: Vec<Covers> = self.held().collect();
        if clash(&held).is_some() || !self.entries_hold(now) {
            return Some(HOLDS);
        }
        if !self.client.are_scheduled() {
            return Some(DUE);
        }
        if !self.client.go_on_in_time() {
            return Some(GOES_ON);
        }
        if self.is_set_too_late() {
            return Some(SET);
        }
        if self.is_kept_in_the_way() {
            return Some(KEPT);
        }
        if self.account.entries.iter().any(|entry| entry.is_overdue(now)) {
            return Some(ANSWERED);
        }
        let waits = |entry: &&Entry| matches!(entry.fate, Fate::Waits(_));
        let is_served = self.account.entries.iter().filter(waits).all(|it| self.is_served(it));
        (!is_served).then_some(SERVED)
    }
}

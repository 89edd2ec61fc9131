//! When a waiter's next round begins: by the answers to the last one, and by the hints since.
//!
//! It plans, and begins nothing.

use alloc::vec::Vec;
use core::time::Duration;

use super::{First, POLL, STAND_BY, UNCLEAR, Waiter, views::median};
use crate::{
    line::{ClientId, Ticket},
    time::Timestamp,
};

/// A ticket is ahead of the nodes' clocks by more than this only if they were set back.
const AHEAD: u64 = 100_000;

/// Where the resource is free, a client further behind the first waits no longer than the client at this place.
const PATIENT: u32 = 3;

/// The largest rank that counts.
const FAR: u32 = 1_000;

impl Waiter {
    /// Sets the ticket back with the nodes' clocks: before their present time by as long as the client has waited. All
    /// waiters do the same, so that their order stays.
    pub(super) fn follow(&mut self, clocks: &[Option<u64>], now: Timestamp) {
        let Some(ticket) = self.ticket else { return };
        let since = *self.stands_since.get_or_insert(now);
        let known: Vec<u64> = clocks.iter().copied().flatten().collect();
        if known.len() < self.nodes.quorum().needed() {
            return;
        }
        if let Some(clock) =
            median(known).filter(|clock| ticket.get() > clock.saturating_add(AHEAD))
        {
            let waited = u64::try_from(now.saturating_since(since).as_micros()).unwrap_or(u64::MAX);
            self.ticket = Some(Ticket::new(clock.saturating_sub(waited)));
        }
    }

    /// Plans the next round by the answers, and by the hints since.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let grace = self.grace();
        let Some(lost_at) = self.lost_at else { return };
        let poll = POLL.saturating_add(POLL.saturating_mul(u32::from(self.random)) / 510);
        self.poll = lost_at.saturating_add(poll);
        // Clients behind leave it to the first, and come one after the other where it does not come.
        let place = self.rank.unwrap_or(0).min(FAR);
        let free_at = self.nodes.free_at(lost_at);
        let behind = grace.saturating_mul(place * 2 + 1) / 2;
        self.ends = None;
        self.limit = if self.nodes.are_held() {
            self.first = None;
            if free_at.is_none_or(|at| at > lost_at.saturating_add(grace)) {
                self.unclear = 0;
            }
            // Keys that are about to end may be set again and again.
            let soon = self.doubled(self.unclear.saturating_sub(1).min(UNCLEAR)) / 2;
            free_at.map_or(self.poll, |at| at.saturating_add(soon.max(behind)))
        } else {
            let first = self.nodes.first_by_answers();
            self.first = self.keep_first(first, false, now);
            if first.is_some() && first != self.before {
                self.unclear = 1;
            }
            self.before = first.or(self.before);
            let times = self.unclear.saturating_sub(1).min(UNCLEAR);
            let soon = self.doubled(times).saturating_mul(place.clamp(1, PATIENT));
            let limit = lost_at.saturating_add(spread(soon, self.random));
            // A key that a minority has kept, as of a node that was down, is not slept past: once in a poll, since such keys
            // may be set again and again, or their end may be put off.
            let is_new = self.ended.is_none_or(|ended| lost_at >= ended.saturating_add(POLL));
            let is_ahead = |at: &Timestamp| is_new && *at > lost_at.saturating_add(grace);
            let after = free_at.filter(is_ahead).map(|at| at.saturating_add(behind));
            self.ends = after.filter(|after| *after < limit);
            self.ends.unwrap_or(limit)
        };
        self.limit = self.limit.min(self.poll);
        self.heed(now);
    }

    /// Plans the next round by the nodes' hints.
    pub(super) fn heed(&mut self, now: Timestamp) {
        if self.nodes.wake() {
            self.call(now);
        } else if let Some(first) = self.nodes.stand_by() {
            self.first = self.keep_first(first, true, now);
            // This replaces the plan: an earlier round could name nobody, and a later one would be late. Lines that
            // name another client each time must not put it off for ever.
            let (since, grace) = match self.first {
                Some(First { client, since, .. }) => (since, self.grace_of(client)),
                None => (now, self.grace()),
            };
            self.limit = since.saturating_add(grace.max(STAND_BY)).min(self.poll);
        }
    }

    pub(super) fn call(&mut self, at: Timestamp) {
        self.called = Some(self.called.map_or(at, |before| before.min(at)));
    }

    /// A grace, doubled this many times.
    pub(super) fn doubled(&self, times: u32) -> Duration {
        self.grace().saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX))
    }

    /// The first in the line, with the time since which it is known to be the first.
    pub(super) fn keep_first(
        &self,
        client: Option<ClientId>,
        is_told: bool,
        now: Timestamp,
    ) -> Option<First> {
        let client = client?;
        let before = self.first.filter(|first| (first.client, first.is_told) == (client, is_told));
        Some(before.unwrap_or(First { client, since: now, is_told }))
    }
}

/// Between once and twice `base`, by the fraction `random` of 255.
pub(super) fn spread(base: Duration, random: u8) -> Duration {
    base.saturating_add(base.saturating_mul(u32::from(random)) / 255)
}

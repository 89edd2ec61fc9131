//! An acquire of any slot of a semaphore: the first that is free is taken as an acquire of it alone would.
//!
//! It decides which slot that is, and who is let in.

use std::{slice, time::Duration};

use super::{Store, clock_us};
use crate::{
    node::{NodeError, memory::news::Telling},
    protocol::{Denial, Granted, Note, Owner, Reply, Slots, Stand, Timestamp},
};

impl Store {
    /// Takes the first slot that is free.
    pub(super) fn pick(
        &mut self,
        (slots, first): (&Slots, u8),
        (owner, ttl, note, hint): (Owner, Duration, Option<Note>, u64),
        stand: Option<Stand>,
        now: Timestamp,
        wall_us: u64,
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeError> {
        let keys = self.keys(now);
        let mut free = slots.from(first).filter(|(_, slot)| !keys.contains_key(slot.as_bytes()));
        let (picked, is_another_free) = (free.next(), free.next().is_some());
        let entered = self.in_line(slots.line(), now, news, |line, news| {
            line.enter(stand, picked.is_some(), now, news)
        });
        let is_taken = picked.is_none();
        let denial = match (picked, entered.first) {
            (Some(_), Some(head)) => Denial::behind(head),
            (None, _) => {
                for slot in slots.all() {
                    self.cut_prolonged(slot, ttl, now);
                }
                self.soonest((slots, first), now)
            }
            (Some((number, slot)), None) => {
                let key = (slice::from_ref(slot), owner, ttl, note);
                let Reply::Granted(granted) = self.acquire(key, Some((hint, 1)), now, wall_us)?
                else {
                    return Ok(Reply::Denied(Denial::default()));
                };
                self.in_line(slots.line(), now, news, |line, news| {
                    line.grant(&entered, 1, ttl, now, news);
                    if is_another_free {
                        line.pass_on(news);
                    }
                });
                return Ok(Reply::Granted(Granted { slot: Some(number), ..granted }));
            }
        };
        let rank =
            self.in_line(slots.line(), now, news, |line, news| line.deny(&entered, now, news));
        if is_taken && rank.is_some() {
            self.stuck.note(slots.line(), stand, slots.all(), now);
        }
        Ok(Reply::Denied(denial.in_line(clock_us(now), rank)))
    }

    /// Of slots that are all taken, the key that ends soonest; of several that end at once, the first in this order.
    fn soonest(&mut self, (slots, first): (&Slots, u8), now: Timestamp) -> Denial {
        let keys = self.keys(now);
        let taken = slots.from(first).filter_map(|(_, slot)| keys.get(slot.as_bytes()));
        let soonest = taken.min_by_key(|entry| (entry.expires.is_none(), entry.expires));
        soonest.map_or_else(Denial::default, |entry| entry.denial(now))
    }
}

//! An acquire of any slot of a semaphore: it takes the first free slot, as an acquire of that slot alone would.
//!
//! It decides which slot that is, and which client is let in.

use alloc::vec::Vec;
use core::{slice, time::Duration};

use super::{NodeRefusal, NodeStore, Telling, lines::clock_us};
use crate::{
    command::{Denial, Granted, Reply},
    line::Stand,
    note::Note,
    owner::Owner,
    resource::Resource,
    slots::Slots,
    time::Timestamp,
};

impl NodeStore {
    /// Takes the first free slot.
    pub(super) fn acquire_any(
        &mut self,
        (slots, first): (&Slots, u8),
        (owner, ttl, note, hint): (Owner, Duration, Option<Note>, u64),
        stand: Option<Stand>,
        (now, wall_us): (Timestamp, u64),
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeRefusal> {
        let keys = self.keys(now);
        let is_free = |(_, slot): &(u8, &Resource)| !keys.contains_key(slot.as_bytes());
        let free: Vec<(u8, &Resource)> = slots.from(first).filter(is_free).collect();
        let (is_taken, is_another_free) = (free.is_empty(), free.len() > 1);
        let entered = self
            .in_line(slots.line(), now, news, |line, news| line.enter(stand, !is_taken, now, news));
        // A waiter for a slot by its name is let in there before later ones.
        let (mut picked, mut kept) = (None, None);
        for (number, slot) in free {
            let before =
                self.in_line(slot, now, news, |line, news| line.first_before(stand, now, news));
            if before.is_none() {
                picked = Some((number, slot));
                break;
            }
            kept = kept.or(before);
        }
        let entered = if picked.is_none() { entered.or_behind(kept) } else { entered };
        let denial = match (picked, entered.first) {
            (_, Some(head)) if !is_taken => Denial::behind(head),
            (None, _) | (_, Some(_)) => {
                for slot in slots.all() {
                    self.bound_shared(slot, Some(ttl), now);
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

    /// Where all slots are taken, the key that ends soonest; of several with one end, the first in this order.
    fn soonest(&mut self, (slots, first): (&Slots, u8), now: Timestamp) -> Denial {
        let keys = self.keys(now);
        let taken = slots.from(first).filter_map(|(_, slot)| keys.get(slot.as_bytes()));
        let soonest = taken.min_by_key(|entry| (entry.expires.is_none(), entry.expires));
        soonest.map_or_else(Denial::default, |entry| entry.denial(now))
    }
}

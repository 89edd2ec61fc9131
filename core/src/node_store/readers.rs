//! Readers of a resource: the scripts of the Redis node for them, in Rust.
//!
//! A key is a writer's, or readers share it. An entry counts only while readers do, and the key outlives every entry.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::{
    Counter, HINT_AHEAD_US, NodeKey, NodeRefusal, NodeStore, Telling, lines::clock_us, prolonged,
    wire,
};
use crate::{
    command::{Denial, Granted, Reply},
    fencing::FencingToken,
    holder::KeyHolder,
    line::{ReadAccess, Stand},
    owner::Owner,
    resource::Resource,
    slots::Slots,
    time::Timestamp,
};

impl NodeStore {
    /// How a reader finds a key.
    fn access(&mut self, resource: &Resource, now: Timestamp) -> ReadAccess {
        match self.keys(now).get(resource.as_bytes()) {
            None => ReadAccess::Free,
            Some(key) if key.is_shared() => ReadAccess::Shared,
            Some(_) => ReadAccess::Held,
        }
    }

    /// The entries beside a shared key, without those that have ended.
    fn entries(
        &mut self,
        resource: &Resource,
        now: Timestamp,
    ) -> Option<&mut BTreeMap<Owner, Timestamp>> {
        if self.access(resource, now) != ReadAccess::Shared {
            return None;
        }
        let entries = self.readers.entry(resource.as_bytes().to_vec()).or_default();
        entries.retain(|_, end| now < *end);
        Some(entries)
    }

    /// Gives a shared key without an end the latest end that an entry can have. Another program took its end, and no
    /// reader may be left to end it. On a request for `ttl`, this also cuts an end that a clock prolonged by going
    /// back.
    pub(super) fn bound_shared(
        &mut self,
        resource: &Resource,
        ttl: Option<Duration>,
        now: Timestamp,
    ) {
        // A client that asks without a look has not told how long leases are.
        if self.max_ttl.is_zero() {
            return;
        }
        let longest = wire(self.max_ttl);
        let Some(entry) = self.keys(now).get_mut(resource.as_bytes()) else { return };
        let is_prolonged = |expires: Timestamp| {
            ttl.is_some_and(|ttl| expires.saturating_since(now) > longest.max(ttl))
        };
        if entry.is_shared() && entry.expires.is_none_or(is_prolonged) {
            entry.expires = Some(now.saturating_add(longest));
        }
    }

    /// Sets an entry, and lets the key live at least as long.
    fn put_reader(&mut self, resource: &Resource, owner: Owner, end: Timestamp, now: Timestamp) {
        let key = resource.as_bytes().to_vec();
        if self.access(resource, now) == ReadAccess::Free {
            // Entries of earlier readers are void.
            self.readers.remove(&key);
        }
        self.bound_shared(resource, None, now);
        self.readers.entry(key.clone()).or_default().insert(owner, end);
        let entry = self.keys.entry(key);
        let entry = entry.or_insert_with(|| NodeKey::new(KeyHolder::SHARED.to_vec(), Some(end)));
        entry.expires = entry.expires.max(Some(end));
    }

    pub(super) fn read(
        &mut self,
        (resource, owner, ttl): (&Resource, Owner, Duration),
        hint: u64,
        stand: Option<Stand>,
        (now, wall_us): (Timestamp, u64),
        news: &mut Telling<'_>,
    ) -> Result<Reply, NodeRefusal> {
        self.bound_shared(resource, Some(ttl), now);
        self.cut_prolonged(resource, ttl, now);
        let access = self.access(resource, now);
        let entered = self.in_line(resource, now, news, |line, news| {
            line.enter_to_read(stand, access, now, news)
        });
        if access == ReadAccess::Held || entered.first.is_some() {
            let key = self.keys(now).get(resource.as_bytes());
            let denial = match (key, entered.first) {
                (Some(entry), _) => {
                    let denial = entry.denial(now);
                    let label = self.label(resource, &denial);
                    denial.labelled(label)
                }
                (None, Some(first)) => Denial::behind(first),
                (None, None) => Denial::default(),
            };
            let rank =
                self.in_line(resource, now, news, |line, news| line.deny(&entered, now, news));
            return Ok(Reply::Denied(denial.in_line(clock_us(now), rank)));
        }
        let counter = match self.counter(resource) {
            Some(counter) => counter,
            None => {
                // Without a counter it counts as for a writer, so that nodes agree at once.
                let value = self.floor.max(hint.min(wall_us.saturating_add(HINT_AHEAD_US)));
                if value > FencingToken::MAX.get() {
                    return Err(NodeRefusal::CounterExhausted);
                }
                self.raise(resource, Counter { value, owner, note: None, restored: false });
                value
            }
        };
        // An entry that stands was extended already: this acquire is late.
        let ends = self.entries(resource, now).and_then(|all| all.get(&owner).copied());
        self.put_reader(resource, owner, prolonged(ends, ttl, self.longest(now), now), now);
        self.in_line(resource, now, news, |line, news| line.grant(&entered, 1, ttl, now, news));
        Ok(Reply::Granted(Granted::at(FencingToken::new(counter))))
    }

    pub(super) fn confirm_read(
        &mut self,
        resource: &Resource,
        owner: Owner,
        token: FencingToken,
        now: Timestamp,
    ) -> Reply {
        let stands = self.entries(resource, now).is_some_and(|all| all.contains_key(&owner));
        match self.counter(resource).filter(|_| stands) {
            None => Reply::Denied(Denial::default()),
            Some(counter) => {
                // A writer's guard is not needed: while the entry stands, only other readers can have raised the
                // counter.
                if counter < token.get() {
                    let counter =
                        Counter { value: token.get(), owner, note: None, restored: false };
                    self.raise(resource, counter);
                }
                Reply::Granted(Granted::at(token))
            }
        }
    }

    /// Whether the key is this owner's alone.
    pub(super) fn is_of(&mut self, resource: &Resource, owner: Owner, now: Timestamp) -> bool {
        let key = self.keys(now).get(resource.as_bytes());
        key.is_some_and(|entry| entry.value == owner.to_hex())
    }

    /// Turns a writer into a reader: a key that is still its own becomes shared, with its entry as the first. Waiting
    /// readers that are next are told.
    pub(super) fn downgrade(
        &mut self,
        resource: &Resource,
        owner: Owner,
        ttl: Duration,
        now: Timestamp,
        news: &mut Telling<'_>,
    ) {
        if !self.is_of(resource, owner, now) {
            return;
        }
        // In one step, as on a server. Entries of earlier readers are void.
        let key = self.keys.remove(resource.as_bytes());
        let longest = self.longest(now);
        let ends = key.and_then(|entry| entry.expires.or(longest));
        self.put_reader(resource, owner, prolonged(ends, ttl, longest, now), now);
        self.in_line(resource, now, news, |line, news| line.downgrade(now, news));
    }

    pub(super) fn extend_read(
        &mut self,
        resource: &Resource,
        owner: Owner,
        ttl: Duration,
        now: Timestamp,
    ) -> Reply {
        if self.access(resource, now) == ReadAccess::Held {
            return Reply::Denied(Denial::default());
        }
        let entry = self.entries(resource, now).and_then(|all| all.get(&owner).copied());
        let Some(ends) = entry else { return Reply::Denied(Denial::gone()) };
        self.put_reader(resource, owner, prolonged(Some(ends), ttl, self.longest(now), now), now);
        Reply::Granted(Granted::DONE)
    }

    pub(super) fn restore_read(
        &mut self,
        resource: &Resource,
        owner: Owner,
        ttl: Duration,
        now: Timestamp,
    ) -> Reply {
        let stands = self.entries(resource, now).is_some_and(|all| all.contains_key(&owner));
        if stands || self.access(resource, now) == ReadAccess::Held {
            return Reply::Denied(Denial::default());
        }
        self.put_reader(resource, owner, now.saturating_add(wire(ttl)), now);
        Reply::Granted(Granted::DONE)
    }

    pub(super) fn release_read(
        &mut self,
        resource: &Resource,
        owner: Owner,
        keep: Option<Duration>,
        now: Timestamp,
        news: &mut Telling<'_>,
    ) -> Reply {
        let Some(entries) = self.entries(resource, now) else {
            let is_gone = self.access(resource, now) == ReadAccess::Free;
            return Reply::Denied(if is_gone { Denial::gone() } else { Denial::default() });
        };
        let was_there = entries.remove(&owner).is_some();
        if let Some(keep) = keep.filter(|_| was_there) {
            self.put_reader(resource, owner, now.saturating_add(wire(keep)), now);
        }
        let key = resource.as_bytes();
        // The key lives until the last entry ends, and no longer.
        match self.readers.get(key).and_then(|all| all.values().max().copied()) {
            Some(last) => {
                if let Some(entry) = self.keys.get_mut(key) {
                    entry.expires = Some(entry.expires.map_or(last, |end| end.min(last)));
                }
            }
            // The entry may have been lost with those of others, for which the key still stands.
            None if !was_there => {}
            None => {
                self.keys.remove(key);
                self.readers.remove(key);
                let slots = Slots::line_of(resource);
                for line in [Some(resource), slots.as_ref()].into_iter().flatten() {
                    self.in_line(line, now, news, |line, news| line.release(now, news));
                }
                news.freed(resource.clone());
            }
        }
        Reply::Granted(Granted::DONE).only_if(was_there)
    }
}

impl Reply {
    fn only_if(self, was_there: bool) -> Self {
        if was_there { self } else { Self::Denied(Denial::gone()) }
    }
}

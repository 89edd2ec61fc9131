//! The commands that set keys or raise counters: acquire, confirm, and restore, which is no vote.
//!
//! An acquire sets all keys of a lease or none, and makes their counters one number.

use core::time::Duration;

use alloc::vec::Vec;

use super::{Counter, HINT_AHEAD_US, NodeKey, NodeRefusal, NodeStore, Wanted, wire};
use crate::{
    command::{Denial, Granted, Reply},
    fencing::FencingToken,
    note::{Label, Note, Record},
    owner::Owner,
    resource::Resource,
    time::Timestamp,
};

impl NodeStore {
    /// The longest-lived of the keys that stand.
    pub(super) fn in_the_way(
        &mut self,
        resources: &[Resource],
        now: Timestamp,
    ) -> Option<(usize, Denial)> {
        let keys = self.keys(now);
        let mut longest: Option<(usize, &NodeKey)> = None;
        for (at, resource) in resources.iter().enumerate() {
            let Some(entry) = keys.get(resource.as_bytes()) else { continue };
            // A key without an end lives longest; of equal keys the first is named.
            let lasts = |entry: &NodeKey| (entry.expires.is_none(), entry.expires);
            if longest.is_none_or(|(_, other)| lasts(entry) > lasts(other)) {
                longest = Some((at, entry));
            }
        }
        let (at, denial) = longest.map(|(at, entry)| (at, entry.denial(now)))?;
        let label = resources.get(at).and_then(|resource| self.label(resource, &denial));
        Some((at, denial.labelled(label)))
    }

    /// The label of the holder that this denial names, if the counter was raised for it.
    pub(super) fn label(&self, resource: &Resource, denial: &Denial) -> Option<Label> {
        let counter = self.fences.get(resource.as_bytes())?;
        let is_of_holder = denial.holder.as_deref() == Some(&counter.owner.to_hex()[..]);
        counter.note.as_ref().filter(|_| is_of_holder)?.label().cloned()
    }

    pub(super) fn acquire(
        &mut self,
        (resources, owner, ttl, note): Wanted<'_>,
        wanted: Option<(u64, u64)>,
        now: Timestamp,
        wall_us: u64,
    ) -> Result<Reply, NodeRefusal> {
        if let Some((at, denial)) = self.in_the_way(resources, now) {
            return Ok(Reply::Denied(which(denial, at, resources)));
        }
        self.grant((resources, owner, ttl, note), wanted, now, wall_us)
    }

    /// Takes the keys over from their owner, where all of them are that owner's.
    pub(super) fn adopt(
        &mut self,
        wanted: Wanted<'_>,
        from: Owner,
        hint: u64,
        now: Timestamp,
        wall_us: u64,
    ) -> Result<Reply, NodeRefusal> {
        let (resources, owner, ..) = wanted;
        for (at, resource) in resources.iter().enumerate() {
            let denial = match self.keys(now).get(resource.as_bytes()) {
                Some(key) if key.value == from.to_hex() => continue,
                Some(key) => key.denial(now),
                None => Denial::gone(),
            };
            let denial = denial.clone().labelled(self.label(resource, &denial));
            return Ok(Reply::Denied(which(denial, at, resources)));
        }
        let ends: Vec<_> = {
            let keys = self.keys(now);
            resources.iter().map(|it| keys.get(it.as_bytes())?.expires).collect()
        };
        let reply = self.grant(wanted, Some((hint, 1)), now, wall_us)?;
        for (resource, ends) in resources.iter().zip(ends) {
            self.taken_over(resource, owner, ends, now);
        }
        Ok(reply)
    }

    fn grant(
        &mut self,
        (resources, owner, ttl, note): Wanted<'_>,
        wanted: Option<(u64, u64)>,
        now: Timestamp,
        wall_us: u64,
    ) -> Result<Reply, NodeRefusal> {
        let token = match wanted {
            None => None,
            Some((hint, count)) => {
                let hint = hint.min(wall_us.saturating_add(HINT_AHEAD_US));
                // All counters of a set become one number, above each of them.
                let of_each = |resource| self.counter(resource).unwrap_or(self.floor);
                let counter = resources.iter().map(of_each).max().unwrap_or(self.floor);
                // `count` above the counter or the floor, and at least the hint, so that nodes agree at once.
                let fence = hint.max(counter.saturating_add(count.max(1)));
                if fence > FencingToken::MAX.get() {
                    return Err(NodeRefusal::CounterExhausted);
                }
                for resource in resources {
                    let note = note.clone();
                    self.raise(resource, Counter { value: fence, owner, note, restored: false });
                }
                Some(FencingToken::new(fence))
            }
        };
        for resource in resources {
            self.set(resource, owner, ttl, now);
        }
        Ok(Reply::Granted(token.into()))
    }

    pub(super) fn confirm(
        &mut self,
        resources: &[Resource],
        owner: Owner,
        token: FencingToken,
        now: Timestamp,
    ) -> Reply {
        for resource in resources {
            let ours = self
                .keys(now)
                .get(resource.as_bytes())
                .is_some_and(|entry| entry.value == owner.to_hex());
            // The guard of the proof: without it two holders can get one token (`docs/algorithm.md`).
            let behind = self.counter(resource).is_some_and(|counter| counter <= token.get());
            if !(ours && behind) {
                return Reply::Denied(Denial::default());
            }
        }
        for resource in resources {
            // The owner's note stays, if the counter was raised for it.
            let before =
                self.fences.get(resource.as_bytes()).filter(|before| before.owner == owner);
            let note = before.and_then(|before| before.note.clone());
            self.raise(resource, Counter { value: token.get(), owner, note, restored: false });
        }
        Reply::Granted(Granted::at(token))
    }

    pub(super) fn restore(
        &mut self,
        (resources, owner, ttl, note): Wanted<'_>,
        now: Timestamp,
    ) -> Reply {
        let keys = self.keys(now);
        let mut missing = Vec::new();
        for resource in resources {
            match keys.get(resource.as_bytes()) {
                None => missing.push(resource),
                Some(entry) if entry.value == owner.to_hex() => {}
                Some(_) => return Reply::Denied(Denial::default()),
            }
        }
        if missing.is_empty() {
            return Reply::Denied(Denial::default());
        }
        for resource in missing {
            self.set(resource, owner, ttl, now);
            if let Some(note) = note.clone() {
                // The note is set again, and the counter stays where it is.
                let before = self.fences.get(resource.as_bytes());
                let value = before.map_or(self.floor, |before| before.value);
                let own = before.filter(|before| before.owner == owner);
                // A later record of its leader stays.
                let said = own.and_then(|own| own.note.as_ref()?.record());
                let is_later =
                    |said: &Record| note.record().is_none_or(|note| said.is_later_than(note));
                if !said.is_some_and(is_later) {
                    let restored = own.is_none_or(|own| own.restored);
                    let counter = Counter { value, owner, note: Some(note), restored };
                    self.fences.insert(resource.as_bytes().to_vec(), counter);
                }
            }
        }
        Reply::Granted(Granted::DONE)
    }

    /// Keeps the record of a leader beside the counter, which stays where it is.
    pub(super) fn proclaim(
        &mut self,
        resource: &Resource,
        owner: Owner,
        note: Note,
        now: Timestamp,
    ) -> Reply {
        let key = self.keys(now).get(resource.as_bytes());
        let ours = key.is_some_and(|entry| entry.value == owner.to_hex());
        let before = self.fences.get(resource.as_bytes());
        let own = before.filter(|before| before.owner == owner);
        let last = own.and_then(|own| own.note.as_ref()?.record());
        let is_late = match (last, note.record()) {
            (_, None) => true,
            (Some(last), Some(record)) => last.is_later_than(record),
            (None, Some(_)) => false,
        };
        if !ours || is_late {
            return Reply::Denied(Denial::default());
        }
        let value = before.map_or(self.floor, |before| before.value);
        let restored = own.is_none_or(|own| own.restored);
        let counter = Counter { value, owner, note: Some(note), restored };
        self.fences.insert(resource.as_bytes().to_vec(), counter);
        Reply::Granted(Granted::DONE)
    }

    pub(super) fn counter(&self, resource: &Resource) -> Option<u64> {
        self.fences.get(resource.as_bytes()).map(|counter| counter.value)
    }

    /// Cuts a lease that the node granted to the fleet's longest ttl, where the node's clock went back. The counter
    /// names the owner that the key was granted to: keys of other libraries look the same, and may live longer.
    pub(super) fn cut_prolonged(&mut self, resource: &Resource, ttl: Duration, now: Timestamp) {
        // A client that asks without a look has not told how long leases are.
        let (longest, is_told) = (wire(self.max_ttl), !self.max_ttl.is_zero());
        let granted_to = self.fences.get(resource.as_bytes()).map(|counter| counter.owner.to_hex());
        let Some(entry) = self.keys(now).get_mut(resource.as_bytes()) else { return };
        let is_ours = granted_to.is_some_and(|owner| entry.value == owner);
        let lasts = entry.expires.map_or(Duration::ZERO, |expires| expires.saturating_since(now));
        if is_ours && lasts > longest.max(ttl) && is_told {
            entry.expires = Some(now.saturating_add(longest));
        }
    }

    pub(super) fn raise(&mut self, resource: &Resource, counter: Counter) {
        self.high_water = self.high_water.max(counter.value);
        self.fences.insert(resource.as_bytes().to_vec(), counter);
    }
}

/// Names the resource in the way, where there are several.
pub(super) fn which(denial: Denial, at: usize, resources: &[Resource]) -> Denial {
    match u8::try_from(at) {
        Ok(at) if resources.len() > 1 => denial.of(at),
        _ => denial,
    }
}

//! A key of a node, and when it ends.
//!
//! It decides how long a key lives that is extended, taken over, or given back.

use alloc::vec::Vec;
use core::{mem, time::Duration};

use super::{HOLDER_SHOWN, NodeStore};
use crate::{
    command::{Denial, Reply},
    holder::KeyHolder,
    owner::Owner,
    resource::Resource,
    time::Timestamp,
    validity,
};

/// A key of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeKey {
    /// An owner, the value that readers share, or a value of another program.
    pub value: Vec<u8>,
    /// When it expires, by the node's clock.
    pub expires: Option<Timestamp>,
}

impl NodeKey {
    /// A key as it is set.
    pub const fn new(value: Vec<u8>, expires: Option<Timestamp>) -> Self {
        Self { value, expires }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.value == KeyHolder::SHARED
    }

    pub(super) fn denial(&self, now: Timestamp) -> Denial {
        let remaining = self.expires.map(|expires| expires.saturating_since(now));
        let shown = self.value.iter().take(HOLDER_SHOWN).copied().collect();
        Denial::new(Some(shown), remaining)
    }
}

/// What a key was before it was adopted, for as long as it lives since.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Lent {
    /// Who adopted it.
    to: Owner,
    /// When it would have ended.
    ends: Timestamp,
    until: Timestamp,
}

impl NodeStore {
    /// A key was somebody else's before, up to this end: it ends no sooner now.
    pub(super) fn taken_over(
        &mut self,
        resource: &Resource,
        to: Owner,
        before: Option<Timestamp>,
        now: Timestamp,
    ) {
        let Some(key) = self.keys(now).get_mut(resource.as_bytes()) else { return };
        let Some(expires) = key.expires else { return };
        let (ends, until) = (before.unwrap_or(expires), expires.max(before.unwrap_or(expires)));
        key.expires = Some(until);
        self.lent.retain(|_, lent| now < lent.until);
        self.lent.insert(resource.as_bytes().to_vec(), Lent { to, ends, until });
    }

    /// Keys of `owner` are that one's again, and end when they would have.
    pub(super) fn hand_back(
        &mut self,
        resources: &[Resource],
        owner: Owner,
        to: Owner,
        now: Timestamp,
    ) -> Reply {
        self.lent.retain(|_, lent| now < lent.until);
        let mut lent = mem::take(&mut self.lent);
        let mut fences = mem::take(&mut self.fences);
        let reply = self.all_of(resources, owner, now, |keys, resource| {
            let Some(key) = keys.get_mut(resource.as_bytes()) else { return };
            key.value = to.to_hex().to_vec();
            if let Some(counter) = fences.get_mut(resource.as_bytes())
                && counter.owner == owner
            {
                // The counter stays, and is not of that one's grant.
                (counter.owner, counter.note, counter.restored) = (to, None, true);
            }
            if lent.get(resource.as_bytes()).is_some_and(|lent| lent.to == owner)
                && let Some(Lent { ends, .. }) = lent.remove(resource.as_bytes())
            {
                key.expires = key.expires.map(|expires| expires.min(ends));
            }
        });
        (self.lent, self.fences) = (lent, fences);
        reply
    }
}

/// The new end of a key or entry, for a request of `ttl`. A later end stays: an extension may be executed behind one
/// that was sent after it. An end that a clock prolonged by going back is cut to the longest ttl. Callers pass
/// `longest` for an end that another program removed.
pub(super) fn prolonged(
    ends: Option<Timestamp>,
    ttl: Duration,
    longest: Option<Timestamp>,
    now: Timestamp,
) -> Timestamp {
    let asked = now.saturating_add(wire(ttl));
    let stands = ends.map_or(asked, |ends| longest.map_or(ends, |longest| ends.min(longest)));
    asked.max(stands)
}

pub(super) fn wire(ttl: Duration) -> Duration {
    Duration::from_millis(validity::wire_millis(ttl))
}

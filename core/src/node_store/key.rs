//! A key of a node, and when it ends.
//!
//! It decides how long a key lives that is extended, taken over, or given back.

use alloc::vec::Vec;
use core::time::Duration;

use super::HOLDER_SHOWN;
use crate::{command::Denial, holder::KeyHolder, owner::Owner, time::Timestamp, validity};

/// A key of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeKey {
    /// An owner, the value that readers share, or a value of another program.
    pub value: Vec<u8>,
    /// When it expires, by the node's clock.
    pub expires: Option<Timestamp>,
    /// Since it was adopted: when it would have expired if it had not been, and until when that is known.
    lent: Option<(Timestamp, Timestamp)>,
}

impl NodeKey {
    /// A key as it is set.
    pub const fn new(value: Vec<u8>, expires: Option<Timestamp>) -> Self {
        Self { value, expires, lent: None }
    }

    /// It was somebody else's before, up to this end: it ends no sooner now.
    pub(super) fn taken_over(&mut self, before: Option<Timestamp>) {
        if let Some(expires) = self.expires {
            let before = before.unwrap_or(expires);
            self.lent = Some((before, expires.max(before)));
            self.expires = Some(expires.max(before));
        }
    }

    /// It is that one's again, and ends when it would have.
    pub(super) fn hand_back(&mut self, to: Owner, now: Timestamp) {
        self.value = to.to_hex().to_vec();
        let lent = self.lent.take().filter(|(_, known)| now < *known);
        let expires = self.expires.zip(lent).map(|(expires, (before, _))| expires.min(before));
        self.expires = expires.or(self.expires);
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

//! The holder of a resource, from what the nodes say of its key.
//!
//! It decides when a holder is certain, and what is told of it. It must never name a holder whose key stands on fewer
//! than a quorum of all nodes: such a key may be left over from a lease that has ended.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, time::Duration};

use super::{
    command::NodeId, fencing::FencingToken, node_set::NodeSet, note::Note, owner::Owner,
    round::Quorum,
};

/// One node's answer about the key of a resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Sighting {
    /// The key does not exist.
    Free,
    /// The key exists.
    Held(KeyHolder),
}

/// A key on one node, with what the node noted when it granted it.
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct KeyHolder {
    /// The value of the key, at most 64 bytes of it: the owner of a quorlock lease, or a value of another program.
    /// `None` where it is not a string.
    pub value: Option<Box<[u8]>>,
    /// How long the key still lives. `None` where it never expires.
    pub remaining: Option<Duration>,
    /// The counter of the resource, if it was raised last for the owner of this key.
    pub counter: Option<FencingToken>,
    /// The note that the owner of this key left beside it.
    pub note: Option<Note>,
}

impl KeyHolder {
    /// The value of a key that readers share: each of them has an entry of its own beside it.
    pub const SHARED: &[u8] = b"shared by readers, see quorlock.";

    /// A key without a counter and a note.
    pub const fn new(value: Option<Box<[u8]>>, remaining: Option<Duration>) -> Self {
        Self { value, remaining, counter: None, note: None }
    }

    /// The same, with the counter raised for the key's owner, and its note.
    #[must_use]
    pub fn granted(mut self, counter: Option<FencingToken>, note: Option<Note>) -> Self {
        (self.counter, self.note) = (counter, note);
        self
    }
}

impl fmt::Debug for KeyHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, remaining, counter, note } = self;
        f.debug_struct("KeyHolder")
            .field("value", &value.as_deref().map(Readable))
            .field("remaining", remaining)
            .field("counter", counter)
            .field("note", note)
            .finish()
    }
}

/// The value of a key as text in `Debug`, where a list of numbers could not be compared with an owner in the log.
struct Readable<'a>(&'a [u8]);

impl fmt::Debug for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// What the nodes say together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Finding {
    /// A quorum has no such key: at some time while the nodes were asked, nobody held it.
    Free,
    /// A quorum has a key with one and the same value.
    Held(KeyHolder),
    /// Neither.
    Unclear,
}

impl Finding {
    /// Counts the nodes that answered. The caller leaves out the others and those that may not vote: they count as
    /// unknown.
    ///
    /// A holder comes with the longest time for which its key may stand on a quorum, unless prolonged. It comes with
    /// the counter that a quorum raised for it, which is its token, and with the note that most nodes have.
    ///
    /// ```
    /// use quorlock_core::{Finding, KeyHolder, NodeId, Quorum, Sighting};
    ///
    /// let seen = |value: &[u8]| Sighting::Held(KeyHolder::new(Some(Box::from(value)), None));
    /// let of_five = |seen: &[Sighting]| {
    ///     Finding::of(Quorum::of(5), seen.iter().enumerate().map(|(place, seen)| (NodeId::new(place), seen)))
    /// };
    /// assert!(matches!(of_five(&[seen(b"x"), seen(b"x"), seen(b"x")]), Finding::Held(_)));
    /// assert_eq!(of_five(&[seen(b"x"), seen(b"x"), Sighting::Free]), Finding::Unclear);
    /// ```
    pub fn of<'a>(quorum: Quorum, seen: impl IntoIterator<Item = (NodeId, &'a Sighting)>) -> Self {
        let seen: Vec<(NodeId, &Sighting)> = seen.into_iter().collect();
        let free = seen.iter().filter(|(_, seen)| **seen == Sighting::Free);
        if quorum.is_met_by(free.map(|(node, _)| *node).collect()) {
            return Self::Free;
        }
        let held = seen.iter().filter_map(|(node, seen)| match seen {
            Sighting::Held(holder) => Some((*node, holder)),
            Sighting::Free => None,
        });
        // A key that is no string does not tell one holder from another.
        let Some(value) = most(held.clone().filter_map(|(_, holder)| holder.value.as_ref())) else {
            return Self::Unclear;
        };
        let named: Vec<(NodeId, &KeyHolder)> =
            held.filter(|(_, holder)| holder.value.as_ref() == Some(value)).collect();
        if !quorum.is_met_by(named.iter().map(|(node, _)| *node).collect()) {
            return Self::Unclear;
        }
        let silent =
            NodeSet::below(quorum.nodes()).without(seen.iter().map(|(node, _)| *node).collect());
        let counters = || named.iter().filter_map(|(_, holder)| holder.counter.as_ref());
        let with = |token: &FencingToken| {
            let with = named.iter().filter(|(_, holder)| holder.counter.as_ref() == Some(token));
            with.map(|(node, _)| *node).collect()
        };
        let token = most(counters()).filter(|token| quorum.is_met_by(with(token)));
        Self::Held(KeyHolder {
            value: Some(value.clone()),
            remaining: standing_for(quorum, &named, silent),
            counter: token.copied(),
            note: most(named.iter().filter_map(|(_, holder)| holder.note.as_ref())).cloned(),
        })
    }
}

impl KeyHolder {
    /// Whether readers share it.
    pub fn is_shared(&self) -> bool {
        self.value.as_deref() == Some(Self::SHARED)
    }

    /// The owner of a quorlock lease, if the value has the form of one.
    pub fn owner(&self) -> Option<Owner> {
        self.value.as_deref().and_then(Owner::from_hex)
    }
}

/// The time until the keys stand on fewer than a quorum. A silent node may have the key for as long as any other, and
/// so counts as having it.
fn standing_for(
    quorum: Quorum,
    named: &[(NodeId, &KeyHolder)],
    silent: NodeSet,
) -> Option<Duration> {
    let mut remaining: Vec<(Option<Duration>, NodeId)> =
        named.iter().map(|(node, holder)| (holder.remaining, *node)).collect();
    // The longest first; a key without an end is the longest.
    remaining.sort_by_key(|(left, _)| core::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    quorum.met_at(silent, &remaining).flatten()
}

/// The most frequent item; of several, the first.
fn most<'a, T: PartialEq>(items: impl Iterator<Item = &'a T> + Clone) -> Option<&'a T> {
    let count = |item: &T| items.clone().filter(|other| *other == item).count();
    // `max_by_key` would give the last of several.
    items
        .clone()
        .fold(None, |best: Option<(usize, &T)>, item| match best {
            Some((most, _)) if most >= count(item) => best,
            _ => Some((count(item), item)),
        })
        .map(|(_, item)| item)
}

#[cfg(test)]
#[path = "holder_test.rs"]
mod tests;

//! Who holds a resource, from what the nodes say of its key.
//!
//! It decides when a holder is certain, and what is told of it. It must never name one whose key stands on fewer than a
//! quorum of all nodes: such a key may be what is left of a lease that is over.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, time::Duration};

use super::{fencing::FencingToken, note::Note, owner::Owner, round::Quorum};

/// What one node says of the key of a resource.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Sighting {
    /// There is no such key.
    Free,
    /// There is one.
    Held(KeyHolder),
}

/// A key as it stands on one node, with what the node noted when it granted it.
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct KeyHolder {
    /// The value of the key, at most 64 bytes of it: the owner of a quorlock lease, or whatever another program wrote.
    /// `None` where it is not a string.
    pub value: Option<Box<[u8]>>,
    /// How long the key still lives. `None` where it never expires.
    pub remaining: Option<Duration>,
    /// Where the counter of the resource stands, if it was raised last for the owner of this key.
    pub counter: Option<FencingToken>,
    /// What the owner of this key has left beside it.
    pub note: Option<Note>,
}

impl KeyHolder {
    /// The value of a key that readers share: each of them has an entry of its own beside it.
    pub const SHARED: &[u8] = b"shared by readers, see quorlock.";

    /// A key of which nothing more is known.
    pub const fn new(value: Option<Box<[u8]>>, remaining: Option<Duration>) -> Self {
        Self { value, remaining, counter: None, note: None }
    }

    /// A key whose owner the counter was raised for, and what it left.
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

/// What the nodes together say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Finding {
    /// A quorum has no such key: nobody held it at some time while they were asked.
    Free,
    /// A quorum has a key with one and the same value.
    Held(KeyHolder),
    /// Neither.
    Unclear,
}

impl Finding {
    /// Counts the nodes that have answered. Whoever has not, or may not vote, is left out, and counts as unknown.
    ///
    /// What is told of a holder: for how long its key stands on a quorum at most, where nobody prolongs it; the
    /// counter that a quorum raised for it, which is its token; and the note that most of the nodes have of it.
    ///
    /// ```
    /// use quorlock_core::{Finding, KeyHolder, Quorum, Sighting};
    ///
    /// let seen = |value: &[u8]| Sighting::Held(KeyHolder::new(Some(Box::from(value)), None));
    /// let of_five = |seen: &[Sighting]| Finding::of(Quorum::of(5), seen);
    /// assert!(matches!(of_five(&[seen(b"x"), seen(b"x"), seen(b"x")]), Finding::Held(_)));
    /// assert_eq!(of_five(&[seen(b"x"), seen(b"x"), Sighting::Free]), Finding::Unclear);
    /// ```
    pub fn of<'a>(quorum: Quorum, seen: impl IntoIterator<Item = &'a Sighting>) -> Self {
        let seen: Vec<&Sighting> = seen.into_iter().collect();
        let free = seen.iter().filter(|seen| ***seen == Sighting::Free).count();
        if free >= quorum.needed() {
            return Self::Free;
        }
        let held = seen.iter().filter_map(|seen| match seen {
            Sighting::Held(holder) => Some(holder),
            Sighting::Free => None,
        });
        // A key that is no string tells nobody from anybody else.
        let Some(value) = most(held.clone().filter_map(|holder| holder.value.as_ref())) else {
            return Self::Unclear;
        };
        let named: Vec<&KeyHolder> =
            held.filter(|holder| holder.value.as_ref() == Some(value)).collect();
        if named.len() < quorum.needed() {
            return Self::Unclear;
        }
        let unknown = quorum.nodes().saturating_sub(seen.len());
        let counters = || named.iter().filter_map(|holder| holder.counter.as_ref());
        let token = most(counters())
            .filter(|token| counters().filter(|other| other == token).count() >= quorum.needed());
        Self::Held(KeyHolder {
            value: Some(value.clone()),
            remaining: standing_for(quorum, &named, unknown),
            counter: token.copied(),
            note: most(named.iter().filter_map(|holder| holder.note.as_ref())).cloned(),
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

/// When the keys stand on fewer than a quorum. A node that said nothing may have a key for as long as any other, so that
/// as many keys less have to expire before that.
fn standing_for(quorum: Quorum, named: &[&KeyHolder], unknown: usize) -> Option<Duration> {
    let mut remaining: Vec<Option<Duration>> =
        named.iter().map(|holder| holder.remaining).collect();
    // The longest first; a key without an end is the longest.
    remaining.sort_by_key(|left| core::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    let last = quorum.needed().saturating_sub(unknown).saturating_sub(1);
    remaining.get(last).copied().flatten()
}

/// The one that there is most of; of several the first.
fn most<'a, T: PartialEq>(items: impl Iterator<Item = &'a T> + Clone) -> Option<&'a T> {
    let count = |item: &T| items.clone().filter(|other| *other == item).count();
    // `max_by_key` gives the last of several.
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

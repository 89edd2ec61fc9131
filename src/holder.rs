//! The answer to the question who holds a resource, for people to read.
//!
//! It decides nothing: `protocol::Finding` does. It puts what the nodes say into words, and must never show bytes of
//! others as they are.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use thiserror::Error;

use crate::{
    engine::{Engine, Sightings, answered},
    error::Unsupported,
    node::NodeError,
    protocol::{
        FencingToken, Finding, KeyHolder, Label, NodeId, Owner, Record, Resource, ResourceError,
        Sighting,
    },
    shield::shield,
};

/// Who holds a resource, by a quorum of all nodes: the answer of [`Redlock::holder`](crate::Redlock::holder).
///
/// It was so at some time while the nodes were asked; by now the holder may have released. Never act under a lock that
/// another client is said to hold, nor without one because nobody is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Holder {
    /// Nobody: a quorum of all nodes has no such key.
    Free,
    /// A quorum of all nodes names this one.
    Held(HeldBy),
    /// No holder is certain: keys of several owners, or of a lease that a minority has kept, or no quorum of answers.
    Unclear {
        /// What each node says, in the order of the configuration.
        nodes: Vec<NodeSighting>,
    },
}

/// A holder that a quorum names.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct HeldBy {
    /// The value of the key, at most 64 bytes of it: of a lease of this crate its owner in hex, and otherwise whatever
    /// another program wrote.
    pub value: Box<[u8]>,
    /// The owner of the lease, as [`Lease::owner`](crate::Lease::owner); `None` if the value does not look like one.
    pub owner: Option<Owner>,
    /// What the holder calls itself: see [`Builder::label`](crate::Builder::label). `None` if it has no label, or the nodes
    /// do not know it (any more).
    pub label: Option<Label>,
    /// Since when it holds, by its own wall clock; known together with the label.
    pub since: Option<SystemTime>,
    /// What it says of itself where it leads an election: its term and its text.
    pub leads: Option<Record>,
    /// For how long it holds at most, as the nodes say, if it is not renewed. `None` if its key has no end.
    pub remaining: Option<Duration>,
    /// Its fencing token, where a quorum of the nodes says so. Where several leases of one process follow each other under
    /// one grant, it is the last token of that grant: nobody whom it is handed on to has a larger one.
    pub token: Option<FencingToken>,
}

/// What one node says of who holds a resource.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeSighting {
    /// Its place in the configuration.
    pub node: NodeId,
    /// Its address, without secrets.
    pub address: Arc<str>,
    /// What it says, or why it says nothing.
    pub seen: Result<Sighting, NodeError>,
}

/// Why it cannot be said who holds a resource, or leads an election. Nothing has been changed on any node. That nodes do not answer is none:
/// [`Holder::Unclear`] says so.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum HolderError {
    /// The name cannot be locked, so that nobody holds it. Nothing was sent.
    #[error("invalid resource, so it has no holder; nothing was sent: {0}")]
    Resource(ResourceError),
    /// These nodes know no elections. The field says why.
    #[error("the leader is unknown; nothing was asked: {0}")]
    Unsupported(Unsupported),
    /// The runtime has ended, or the process was forked since: make a new [`Redlock`](crate::Redlock).
    #[error(
        "the runtime of this Redlock ended, or this process was forked; nothing was asked; connect a new one in the \
         process that asks"
    )]
    RuntimeEnded,
    /// The thread that would have to give the answer was about to wait for it.
    #[error(
        "blocking here would stop the thread that has to answer it; nothing was asked; await it instead, or block another thread"
    )]
    WouldDeadlock,
}

debug_is_text! { enum HolderError {
    Resource(error),
    Unsupported(error),
    RuntimeEnded,
    WouldDeadlock,
} }

// Not by `#[from]`, which would make it a source.
impl From<ResourceError> for HolderError {
    fn from(error: ResourceError) -> Self {
        Self::Resource(error)
    }
}

impl From<Unsupported> for HolderError {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl Holder {
    /// Asks all nodes.
    pub(crate) async fn ask(engine: &Arc<Engine>, resource: &[u8]) -> Result<Self, HolderError> {
        let resource = Resource::behind(&engine.config.key_prefix, resource)?;
        let seen = shield(engine.ask_who_holds(resource));
        let seen = engine.process().awaits(seen).await;
        let seen = seen.and_then(Result::ok).ok_or(HolderError::RuntimeEnded)?;
        Ok(Self::of(engine, seen))
    }

    /// What these answers of all nodes say together.
    pub(crate) fn of(engine: &Engine, seen: Sightings) -> Self {
        match Finding::of(engine.quorum, answered(&seen)) {
            Finding::Free => Self::Free,
            Finding::Held(holder) => Self::Held(HeldBy::of(holder)),
            Finding::Unclear => {
                let nodes = engine.addresses().zip(seen).enumerate();
                let nodes = nodes.map(|(index, (address, seen))| NodeSighting {
                    node: NodeId::new(index),
                    address: Arc::clone(address),
                    seen,
                });
                Self::Unclear { nodes: nodes.collect() }
            }
        }
    }
}

impl HeldBy {
    /// Whether readers share it: each of them has a name of its own, and none of these is told.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        *self.value == *KeyHolder::SHARED
    }

    fn of(holder: KeyHolder) -> Self {
        let since = holder.note.as_ref().map(|note| note.since());
        Self {
            owner: holder.owner(),
            label: holder.note.as_ref().and_then(|note| note.label().cloned()),
            leads: holder.note.as_ref().and_then(|note| note.record().cloned()),
            since: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
            remaining: holder.remaining,
            token: holder.counter,
            value: holder.value.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("nobody holds it"),
            Self::Held(by) => write!(f, "held by {by}"),
            Self::Unclear { nodes } => {
                f.write_str("the holder is unclear")?;
                nodes.iter().try_for_each(|node| write!(f, "; {node}"))
            }
        }
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.value.escape_ascii())?;
        if let Some(label) = &self.label {
            write!(f, ", label=`{label}`")?;
        }
        if let Some(since) = self.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok()) {
            write!(f, ", since={}", Utc(since))?;
        }
        if let Some(Record { term, text, .. }) = &self.leads {
            write!(f, ", leads term={term} text=`{text}`")?;
        }
        Left(self.remaining).fmt(f)?;
        self.token.map_or(Ok(()), |token| write!(f, ", token={token}"))
    }
}

impl fmt::Debug for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, owner, label, leads, since, remaining, token } = self;
        f.debug_struct("HeldBy")
            .field("value", &format_args!("\"{}\"", value.escape_ascii()))
            .field("owner", owner)
            .field("label", label)
            .field("leads", leads)
            .field("since", since)
            .field("remaining", remaining)
            .field("token", token)
            .finish()
    }
}

impl fmt::Display for NodeSighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.node, self.address)?;
        match &self.seen {
            Ok(Sighting::Free) => f.write_str("no key"),
            Ok(Sighting::Held(KeyHolder { value: None, remaining, .. })) => {
                write!(f, "a key that is not a string{}", Left(*remaining))
            }
            Ok(Sighting::Held(holder)) => HeldBy::of(holder.clone()).fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

/// For how long a key lives.
struct Left(Option<Duration>);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(left) => write!(f, ", at_most={left:?}"),
            None => f.write_str(", without an end"),
        }
    }
}

/// A time since the Unix epoch, as a date in UTC, to the second.
struct Utc(Duration);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0.as_secs() / 86_400, self.0.as_secs() % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The date of a day since the Unix epoch: Howard Hinnant's `civil_from_days`, whose years begin in March.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{LeaderText, Note};

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (secs, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Utc(Duration::from_secs(secs)).to_string(), date);
        }
    }

    #[test]
    fn what_others_wrote_is_escaped() {
        let label = Label::new(b"web\n\x1b[31m").unwrap();
        let key = KeyHolder::new(Some(b"\xff\r"[..].into()), Some(Duration::from_millis(1500)))
            .granted(Some(FencingToken::new(7)), Some(Note::new(0, label)));
        let held = HeldBy::of(key);
        let told = format!("{held:?}");
        assert!(
            told.starts_with(r#"HeldBy { value: "\xff\r", owner: None, label: Some("#),
            "{told}"
        );
        assert!(told.ends_with("remaining: Some(1.5s), token: Some(FencingToken(7)) }"), "{told}");
        assert_eq!(
            Holder::Held(held).to_string(),
            r"held by `\xff\r`, label=`web\n\x1b[31m`, since=1970-01-01T00:00:00Z, at_most=1.5s, token=7"
        );
    }

    #[test]
    fn a_leader_is_told_with_its_term_and_text() {
        let text = LeaderText::new(b"10.0.0.7\n").unwrap();
        let record = Record::new(FencingToken::new(7), 1, text);
        let key = KeyHolder::new(Some(b"x"[..].into()), Some(Duration::from_secs(1)))
            .granted(None, Some(Note::of_leader(0, None, record)));
        assert_eq!(
            Holder::Held(HeldBy::of(key)).to_string(),
            r"held by `x`, since=1970-01-01T00:00:00Z, leads term=7 text=`10.0.0.7\n`, at_most=1s"
        );
    }

    #[test]
    fn of_an_unclear_one_each_node_says_what_it_sees() {
        let seen = [
            Ok(Sighting::Free),
            Ok(Sighting::Held(KeyHolder::new(Some(b"x"[..].into()), None))),
            Ok(Sighting::Held(KeyHolder::new(None, Some(Duration::from_secs(1))))),
            Err(NodeError::TimedOut),
        ];
        let node =
            |(index, seen)| NodeSighting { node: NodeId::new(index), address: "a".into(), seen };
        let holder = Holder::Unclear { nodes: seen.into_iter().enumerate().map(node).collect() };
        assert_eq!(
            holder.to_string(),
            format!(
                "the holder is unclear; node 0 (a): no key; node 1 (a): `x`, without an end; \
                 node 2 (a): a key that is not a string, at_most=1s; node 3 (a): {}",
                NodeError::TimedOut
            )
        );
    }
}

//! The line on the nodes: the waiters for a resource, their order, and what a node says of it.
//!
//! It is advice. It decides in which order clients are served: a node lets the first waiter in where the key is free.
//! Whether a lease is granted, and up to when it holds, is decided as if there were no line.

mod entered;
mod news;
mod place;
mod wait_list;

use core::{fmt, str::FromStr};

pub use entered::{Entered, ReadAccess};
pub use news::LineNews;
pub use place::LinePlace;
pub use wait_list::WaitList;

/// One client in the line: a process with its connections to all nodes. It is drawn at random, and written as 16
/// lower-case hexadecimal digits.
///
/// ```
/// use quorlock_core::ClientId;
///
/// let client = ClientId::new([0, 1, 2, 3, 4, 5, 0xab, 0xff]);
/// assert_eq!(client.to_string(), "000102030405abff");
/// assert_eq!(client.to_string().parse(), Ok(client));
/// assert_eq!(ClientId::from_hex(client.to_hex().as_slice()), Some(client));
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId([u8; 8]);

impl ClientId {
    /// A client with these bytes, which must be random: two clients with one name would share one place.
    pub const fn new(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// Reads exactly what [`to_hex`](ClientId::to_hex) writes; `None` for any other text.
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        const fn digit(byte: u8) -> Option<u8> {
            match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None,
            }
        }
        let (pairs, rest) = text.as_chunks::<2>();
        let mut bytes = [0; 8];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }

    /// Its form on the nodes: 16 lower-case hexadecimal digits, which sort as the bytes do.
    pub fn to_hex(self) -> [u8; 16] {
        const fn digit(half: u8) -> u8 {
            if half < 10 { b'0' + half } else { b'a' + half - 10 }
        }
        let mut hex = [0; 16];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0x0f)]);
        }
        hex
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientId({self})")
    }
}

impl FromStr for ClientId {
    type Err = InvalidClientId;

    /// Reads what `Display` writes, and nothing else.
    fn from_str(text: &str) -> Result<Self, InvalidClientId> {
        Self::from_hex(text.as_bytes()).ok_or(InvalidClientId)
    }
}

/// The text is no [`ClientId`].
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct InvalidClientId;

debug_is_text! { struct InvalidClientId }

impl fmt::Display for InvalidClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a client in the line is 16 lower-case hexadecimal digits")
    }
}

impl core::error::Error for InvalidClientId {}

/// Since when a client waits, in microseconds by the nodes' clocks. The smaller ticket comes first; of equal tickets,
/// the smaller [`ClientId`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(u64);

impl Ticket {
    /// The largest ticket, which the score of a sorted set holds exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A ticket of this many microseconds, at most [`MAX`](Ticket::MAX).
    pub const fn new(us: u64) -> Self {
        if us < Self::MAX.0 { Self(us) } else { Self::MAX }
    }

    /// The microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What an acquire says of its client's place in the line.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Stand {
    /// The client that asks.
    pub client: ClientId,
    /// With a ticket, the client stands in the line until it is granted the resource, or its place is dropped. Without
    /// one it only says its name, and does not overtake the waiters.
    pub ticket: Option<Ticket>,
    /// The first waiter, if it did not come in its time: its place is dropped if it still is the first. It gets its old
    /// place back when it asks again.
    pub skip: Option<ClientId>,
}

impl Stand {
    /// A client that says its name, and does not stand in the line.
    pub const fn named(client: ClientId) -> Self {
        Self { client, ticket: None, skip: None }
    }

    /// A client that stands in the line.
    pub const fn with(client: ClientId, ticket: Ticket) -> Self {
        Self { client, ticket: Some(ticket), skip: None }
    }

    /// The same, and `head` did not come.
    pub const fn skipping(self, head: Option<ClientId>) -> Self {
        Self { client: self.client, ticket: self.ticket, skip: head }
    }
}

/// A node's unasked message to a client about a line. It may be late, lost, doubled or wrong: it says when to ask, and
/// grants nothing.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LineHint {
    /// The resource is free here, and this client is the first.
    Next,
    /// The resource is free here, and this client is next should the first not come.
    StandBy {
        /// The first.
        head: ClientId,
    },
    /// This client has or had the resource, and another client now stands in the line for it.
    Wanted,
    /// This client has the resource, and nobody stood in the line for it at that time.
    Alone,
    /// This client stands in the line to write, and a reader was kept out for it. A client that no longer waits leaves:
    /// its first farewell may have been lost.
    KeepsOut {
        /// The place for which the reader was kept out.
        ticket: Ticket,
    },
}

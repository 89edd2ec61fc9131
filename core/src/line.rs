//! The line on the nodes: who waits for a resource, in which order, and what a node says of it.
//!
//! It is advice. A node lets the first in the line in where the key is free, and so decides in which order clients are
//! served; whether a lease is granted, and up to when it holds, is decided as if there were no line.

mod entered;
mod news;
mod wait_list;

use core::{fmt, str::FromStr};

pub use entered::{Entered, ReadAccess};
pub use news::LineNews;
pub use wait_list::WaitList;

/// One client in the line on the nodes: a process with its connections to all of them. It is drawn at random, and
/// written as 16 lower-case hexadecimal digits.
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
    /// Of these bytes, which must be random: two clients with one name would stand in one place.
    pub const fn new(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// From how it is written; `None` if that is not exactly what [`to_hex`](ClientId::to_hex) writes.
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

    /// As it is written on the nodes: 16 lower-case hexadecimal digits, whose order is that of the bytes.
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

/// What was read is no [`ClientId`].
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

/// Since when a client waits, in microseconds by the nodes' clocks. The smaller one comes first; where two are equal,
/// the smaller [`ClientId`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(u64);

impl Ticket {
    /// The largest one, which the score of a sorted set holds exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A ticket of so many microseconds, or [`MAX`](Ticket::MAX).
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
    /// Who asks.
    pub client: ClientId,
    /// Where there is one, the client stands in the line with it until it is granted the resource, or its place is
    /// dropped. Without one it only says its name, and does not overtake those who stand there.
    pub ticket: Option<Ticket>,
    /// The first in the line has been given its time, and did not come: where it still is the first, its place is
    /// dropped. It has its old place again when it asks again.
    pub skip: Option<ClientId>,
}

impl Stand {
    /// Says its name, and does not stand in the line.
    pub const fn named(client: ClientId) -> Self {
        Self { client, ticket: None, skip: None }
    }

    /// Stands in the line.
    pub const fn with(client: ClientId, ticket: Ticket) -> Self {
        Self { client, ticket: Some(ticket), skip: None }
    }

    /// The same, and `head` did not come.
    pub const fn skipping(self, head: Option<ClientId>) -> Self {
        Self { client: self.client, ticket: self.ticket, skip: head }
    }
}

/// What a node tells a client of a line, without having been asked. It may be late, lost, told twice or wrong: it says
/// when to ask, and nothing is granted by it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LineHint {
    /// The resource is free here, and this client is the first.
    Next,
    /// The resource is free here, and this client comes after the first: should that one not come.
    StandBy {
        /// The first.
        head: ClientId,
    },
    /// This client has it, or has had it, and somebody has come to stand in the line for it.
    Wanted,
    /// This client has it, and nobody stood in the line for it then.
    Alone,
    /// This client stands in the line to write, and a reader was kept out for that. One that waits no more leaves: what it
    /// said of that may have been lost.
    KeepsOut {
        /// The place for which that was.
        ticket: Ticket,
    },
}

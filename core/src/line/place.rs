//! One place in the line of a resource, as a node writes it.
//!
//! It decides nothing: it reads.

use super::{ClientId, Ticket};

/// A place in a line: since when a client waits, and for what.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinePlace {
    /// Since when, by the clocks of the nodes.
    pub ticket: Ticket,
    /// Who waits.
    pub client: ClientId,
    /// Whether it waits to read, together with others.
    pub reads: bool,
}

impl LinePlace {
    /// What a node calls a reader in its line begins so.
    pub(super) const READER: &str = "~";

    /// Reads a name in a line and its score; `None` for what is no waiter, as the holder of several tokens.
    ///
    /// ```
    /// use quorlock_core::{LinePlace, Ticket};
    ///
    /// let place = LinePlace::read(b"~000102030405abff", Ticket::new(7)).ok_or("none")?;
    /// assert_eq!((place.client.to_string().as_str(), place.reads), ("000102030405abff", true));
    /// assert_eq!(LinePlace::read(b"!000102030405abff", Ticket::new(7)), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn read(name: &[u8], ticket: Ticket) -> Option<Self> {
        let reader = name.strip_prefix(Self::READER.as_bytes());
        let client = ClientId::from_hex(reader.unwrap_or(name))?;
        Some(Self { ticket, client, reads: reader.is_some() })
    }
}

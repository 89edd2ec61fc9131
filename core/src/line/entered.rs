//! An acquire in a line: the client that goes before it, and its own stand.
//!
//! It decides nothing. The line decides which answer follows.

use super::{ClientId, Stand};

/// How a reader finds the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadAccess {
    /// It does not exist.
    Free,
    /// Other readers have it.
    Shared,
    /// Another owner has it.
    Held,
}

/// An acquire in the line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Entered {
    /// The client that is let in before the asking client: any waiter where the key is free, or a writer where readers
    /// have it.
    pub first: Option<ClientId>,
    /// Where there is a line: the asking client, and whether its place is new.
    pub(super) asks: Option<Asks>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Asks {
    pub(super) stand: Option<Stand>,
    /// Whether its place is new, or was there before; `None` while it has not been placed.
    pub(super) is_new: Option<bool>,
    pub(super) reads: bool,
}

impl Entered {
    /// The same, with `other`, from another line, before it where nobody in this line is.
    #[must_use]
    pub fn or_behind(self, other: Option<ClientId>) -> Self {
        Self { first: self.first.or(other), ..self }
    }
}

//! An acquire in a line: who is let in before it, and what it asks with.
//!
//! It decides nothing. Which answer follows, the line says.

use super::{ClientId, Stand};

/// How a reader finds the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadAccess {
    /// There is none.
    Free,
    /// Other readers have it.
    Shared,
    /// Somebody else has it.
    Held,
}

/// An acquire in the line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Entered {
    /// The key is free, and this one is let in before the client that asks; or readers have it, and this writer is let in
    /// before another one that asks.
    pub first: Option<ClientId>,
    /// Where there is a line for it: who asks, and whether it stands there since now.
    pub(super) asks: Option<Asks>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Asks {
    pub(super) stand: Option<Stand>,
    /// Whether it has come to stand there, or stood there before; nothing while it is the first anyhow.
    pub(super) is_new: Option<bool>,
    pub(super) reads: bool,
}

impl Entered {
    /// The same, where nobody in the line is before it, and this one in another line is.
    #[must_use]
    pub fn or_behind(self, other: Option<ClientId>) -> Self {
        Self { first: self.first.or(other), ..self }
    }
}

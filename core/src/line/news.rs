//! What a node tells the waiters in its lines, and what it knows of their other places.
//!
//! It decides nothing. It must tell nobody by itself: the node sends these messages after it has let go of its own
//! locks.

use alloc::vec::Vec;

use super::{ClientId, LineHint, Ticket};

/// Whether a client's place with a ticket is stuck: a key that is not the line's own keeps it from going on.
pub(super) type IsStuck<'a> = &'a dyn Fn(ClientId, Ticket) -> bool;

/// Which clients a node can tell, what it knows of their other places, and what it tells them once it has let go of its
/// own locks.
pub struct LineNews<'a> {
    pub(super) hears: &'a dyn Fn(ClientId) -> bool,
    pub(super) is_stuck: Option<IsStuck<'a>>,
    pub(super) told: Vec<(ClientId, LineHint)>,
}

impl<'a> LineNews<'a> {
    /// No message so far. `hears` says whether a client is connected: the line drops a client that is not.
    pub const fn new(hears: &'a dyn Fn(ClientId) -> bool) -> Self {
        Self { hears, is_stuck: None, told: Vec::new() }
    }

    /// The same where a place may be stuck: that of a set whose other keys are held, or of a semaphore all of whose
    /// slots are taken. A stuck place keeps no client out that asks once.
    #[must_use]
    pub fn knowing(self, is_stuck: IsStuck<'a>) -> Self {
        Self { is_stuck: Some(is_stuck), ..self }
    }

    /// The messages and their clients, in order.
    pub fn into_told(self) -> Vec<(ClientId, LineHint)> {
        self.told
    }

    pub(super) fn tell(&mut self, client: ClientId, hint: LineHint) -> bool {
        let hears = (self.hears)(client);
        if hears {
            self.told.push((client, hint));
        }
        hears
    }
}

impl core::fmt::Debug for LineNews<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LineNews").field("told", &self.told).finish_non_exhaustive()
    }
}

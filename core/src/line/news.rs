//! What a node tells those who stand in its lines, and what it knows of their other places.
//!
//! It decides nothing. It must tell nobody by itself: whoever has the line tells what is here behind its own locks.

use alloc::vec::Vec;

use super::{ClientId, LineHint, Ticket};

/// Whether the place that a client has with a ticket is stuck: it cannot go on, because of a key that the line is not about.
pub(super) type IsStuck<'a> = &'a dyn Fn(ClientId, Ticket) -> bool;

/// Whom a node can tell, what it knows of their other places, and what it has to tell them once it has let go of its own
/// locks.
pub struct LineNews<'a> {
    pub(super) hears: &'a dyn Fn(ClientId) -> bool,
    pub(super) is_stuck: Option<IsStuck<'a>>,
    pub(super) told: Vec<(ClientId, LineHint)>,
}

impl<'a> LineNews<'a> {
    /// Nothing so far. `hears` says whether a client is connected: one that is not is forgotten.
    pub const fn new(hears: &'a dyn Fn(ClientId) -> bool) -> Self {
        Self { hears, is_stuck: None, told: Vec::new() }
    }

    /// The same where a place may be stuck: the place of a set whose other keys are held, or of a semaphore all of whose
    /// slots are taken. It keeps nobody out who asks once.
    #[must_use]
    pub fn knowing(self, is_stuck: IsStuck<'a>) -> Self {
        Self { is_stuck: Some(is_stuck), ..self }
    }

    /// What is to be told to whom, in this order.
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

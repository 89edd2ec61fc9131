//! One node whose clock may run ahead: who has the key, up to when, and how far the counter has come.
//!
//! Goal: what a node does with each command, in a few bytes. Method: the rules of `fencing.rs`, once more, with ticks.

use super::holder::Letter;
use crate::model::{leases::node::Said, visitor::Station};

/// A fault: what sets the end of a key whatever it was, also to an earlier one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shortens {
    Nothing,
    Extensions,
    /// Those of a reader alone.
    OfReaders,
    /// That of a writer which goes on as a reader alone.
    Downgrades,
}

impl Shortens {
    /// Whether one does that makes readers of it if it is lowered, where they had it before if it was shared.
    fn is(self, shared: bool, lowered: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Extensions => true,
            Self::OfReaders => shared,
            Self::Downgrades => lowered && !shared,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) holder: Option<u8>,
    /// It has it as a reader.
    pub(crate) shared: bool,
    /// By its own clock.
    pub(crate) until: u8,
    pub(crate) counter: u16,
    /// By how much its clock has stepped.
    pub(crate) ahead: u8,
    pub(crate) station: Station,
}

impl Node {
    /// What has ended by its own clock is gone.
    pub(crate) const fn expire(&mut self, now: u8) {
        if self.holder.is_some() && now + self.ahead >= self.until {
            self.free();
        }
    }

    const fn free(&mut self) {
        (self.holder, self.shared, self.until) = (None, false, 0);
    }

    /// It has restarted with nothing.
    pub(crate) const fn forget(&mut self) {
        self.free();
        self.counter = 0;
        self.station.forget();
    }

    pub(crate) fn execute(
        &mut self,
        client: u8,
        letter: Letter,
        now: u8,
        shortens: Shortens,
    ) -> Said {
        let is_ours = self.holder == Some(client);
        let lives = now + self.ahead;
        match letter {
            Letter::Acquire { mark, .. } | Letter::Confirm { mark, .. }
                if !self.station.ready || mark != (self.station.era, self.station.seal) =>
            {
                Said::Refused
            }
            Letter::Extend { .. } if !self.station.ready => Said::Refused,
            Letter::Acquire { hint, count, life, .. } if self.holder.is_none() => {
                (self.holder, self.until) = (Some(client), lives + life);
                self.counter = hint.max(self.counter.max(self.station.floor) + count);
                Said::Granted(Some(self.counter))
            }
            Letter::Confirm { token, .. } if is_ours && !self.shared && self.counter <= token => {
                self.counter = token;
                Said::Granted(Some(token))
            }
            Letter::Extend { life, lowered, .. } if is_ours && (lowered || !self.shared) => {
                let stands = if shortens.is(self.shared, lowered) { 0 } else { self.until };
                self.shared = lowered;
                self.until = stands.max(lives + life);
                Said::Granted(None)
            }
            Letter::Release { keep: 0 } if is_ours => {
                self.free();
                Said::Granted(None)
            }
            Letter::Release { keep } if is_ours => {
                self.until = lives + keep;
                Said::Granted(None)
            }
            _ => Said::Denied,
        }
    }
}

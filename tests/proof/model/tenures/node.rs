//! One node whose clock may run ahead: who has the key, up to when, and how far the counter has come.
//!
//! Goal: what a node does with each command, in a few bytes. Method: the rules of `fencing.rs`, once more, with ticks.

use super::holder::Letter;
use crate::model::{leases::node::Said, visitor::Station};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Node {
    pub(crate) holder: Option<u8>,
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
            (self.holder, self.until) = (None, 0);
        }
    }

    /// It has restarted with nothing.
    pub(crate) const fn forget(&mut self) {
        (self.holder, self.until, self.counter) = (None, 0, 0);
        self.station.forget();
    }

    pub(crate) fn execute(&mut self, client: u8, letter: Letter, now: u8) -> Said {
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
            Letter::Confirm { token, .. } if is_ours && self.counter <= token => {
                self.counter = token;
                Said::Granted(Some(token))
            }
            Letter::Extend { life, .. } if is_ours => {
                self.until = lives + life;
                Said::Granted(None)
            }
            Letter::Release if is_ours => {
                (self.holder, self.until) = (None, 0);
                Said::Granted(None)
            }
            _ => Said::Denied,
        }
    }
}

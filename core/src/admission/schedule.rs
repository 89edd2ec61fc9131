//! When the nodes are looked at, and which are due.
//!
//! It decides when a probe begins, and whether it is of all nodes. It must not leave a ready node unread for longer
//! than its clock may stray.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Admission, Probe, Standing};
use crate::{command::NodeId, time::Timestamp};

/// The pause before an unfinished admission is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// How often ready nodes are looked at too. The older the last reading of a clock is, the larger a jump it can miss.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(10);

/// The same during a change: a client with the new list alone may ask for its end.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The shortest sleep until the next look: a slow steady clock is behind when the sleep ends.
const SHORTEST: Duration = Duration::from_millis(50);

impl Admission {
    /// Begins a probe of the nodes that are not ready, and of all nodes every ten seconds.
    pub fn begin_probe(&mut self, now: Timestamp) -> Probe {
        let everyone = self.next_look.is_some_and(|at| now >= at);
        if everyone || self.next_look.is_none() {
            let every = if self.is_changing() { ASKED_EVERY } else { READ_EVERY };
            self.next_look = Some(now.saturating_add(every));
        }
        Probe::new(everyone)
    }

    /// When the next quarantine ends.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.nodes
            .iter()
            .filter_map(|record| match record.standing {
                Standing::Joining { since, waited, .. } => {
                    Some(since.saturating_add(self.quarantine().saturating_sub(waited)))
                }
                _ => None,
            })
            .min()
    }

    /// The nodes whose quarantine is over at `now`.
    pub fn due(&self, now: Timestamp) -> Vec<NodeId> {
        self.everyone().filter(|node| self.remaining(*node, now) == Some(Duration::ZERO)).collect()
    }

    /// The pause until the next probe.
    pub(super) fn pause(&self, waiting: bool, now: Timestamp) -> Duration {
        let pause = match self.poll_timeout() {
            // Another client may be faster.
            Some(at) if at > now => at.saturating_since(now).min(AGAIN),
            _ if waiting => AGAIN,
            _ => READ_EVERY,
        };
        let left = self.next_look.map_or(READ_EVERY, |at| at.saturating_since(now));
        pause.min(left.max(SHORTEST))
    }
}

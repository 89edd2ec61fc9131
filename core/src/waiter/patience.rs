//! How long a client waits for a first in the line that it has passed over before.
//!
//! A client that is slow, or far from the nodes, comes after the grace of nearer ones. It gets its old place back as
//! soon as it asks, and would be passed over each time. So a client that has passed it over a few times waits for it
//! longer. This decides nothing but that time, and forgets clients that it has not met for a while.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{line::ClientId, time::Timestamp};

/// How often a client is passed over without an effect: a process may be stopped now and then.
const FREE: u32 = 2;

/// The factor by which each later time lengthens the grace.
const LONGER: u32 = 8;

/// How often the grace is lengthened. A client that did not come even then has the common grace from then on.
const MOST_TIMES: u32 = 3;

/// The longest grace, where the common one is not longer.
const LONGEST: Duration = Duration::from_millis(256);

/// How long a client that was passed over is known; with a longer grace it is known as late.
const KNOWN: Duration = Duration::from_secs(10);
const KNOWN_AS_LATE: Duration = Duration::from_secs(60);

/// The most clients known.
const MOST: usize = 32;

/// The clients that this client has passed over, and how often.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Patience {
    late: Vec<Late>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Late {
    client: ClientId,
    times: u32,
    last: Timestamp,
}

impl Patience {
    /// How long to wait for this client, where the common grace is `grace`.
    pub fn of(&self, client: ClientId, grace: Duration) -> Duration {
        let times =
            self.late.iter().find(|late| late.client == client).map_or(0, |late| late.times);
        match times.saturating_sub(FREE) {
            longer @ 1..=MOST_TIMES => {
                grace.saturating_mul(LONGER.pow(longer)).min(LONGEST).max(grace)
            }
            _ => grace,
        }
    }

    /// This client was named as missing, and the resource was won.
    pub fn pass_over(&mut self, client: ClientId, now: Timestamp) {
        self.late.retain(|late| {
            let known = if late.times > FREE { KNOWN_AS_LATE } else { KNOWN };
            now.saturating_since(late.last) < known
        });
        if let Some(late) = self.late.iter_mut().find(|late| late.client == client) {
            if late.times <= FREE + MOST_TIMES {
                (late.times, late.last) = (late.times + 1, now);
            }
            return;
        }
        if self.late.len() >= MOST {
            let oldest = self.late.iter().enumerate().min_by_key(|(_, late)| late.last);
            if let Some(index) = oldest.map(|(index, _)| index) {
                self.late.swap_remove(index);
            }
        }
        self.late.push(Late { client, times: 1, last: now });
    }
}

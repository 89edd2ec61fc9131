//! For how long the first in the line is waited for by one who has passed it over before.
//!
//! A client that is far from the nodes, or slow, comes after the grace of those who are near them. It has its old place
//! again as soon as it asks, and would be passed over each time: so whoever has passed it over a few times waits for
//! longer. It decides nothing but that time, and forgets whom it has not met for a while.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{line::ClientId, time::Timestamp};

/// So often nothing follows: a process may be stopped now and then.
const FREE: u32 = 2;

/// Each time after that the grace is so many times as long.
const LONGER: u32 = 8;

/// As often at most. One that did not come even then is not worth it, and has the common grace from then on.
const MOST_TIMES: u32 = 3;

/// The longest grace, where the common one is not longer.
const LONGEST: Duration = Duration::from_millis(256);

/// One that was passed over a few times is known for so long, and one for which more is done for longer.
const KNOWN: Duration = Duration::from_secs(10);
const KNOWN_AS_LATE: Duration = Duration::from_secs(60);

/// As many are known.
const MOST: usize = 32;

/// Who was passed over by this client, and how often.
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
    /// For how long this one is waited for, where others are for `grace`.
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

    /// This one was named as one that did not come, and the resource was won.
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

//! How a candidate is: whether its work is covered by its term.
//!
//! It decides what a health check says. It must never call work healthy that outlives its lease.

use std::time::Duration;

use super::Election;
use crate::{
    engine::{Proclamation, ready},
    protocol::Timestamp,
};

/// How a candidate is, by [`Election::health`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ElectionHealth {
    /// It leads.
    Leading {
        /// What is guaranteed to be left of its lease; a renewal makes that longer.
        left: Duration,
    },
    /// Its term is lost, and its work has so long to stop before another may lead.
    Stopping {
        /// That long.
        left: Duration,
    },
    /// Its work goes on though its lease is over: others may lead. Kill the process, if that lasts: behind a pause of the
    /// process, and where the keys are gone, it is so for the moment until [`lead`](Election::lead) has dropped the work.
    Wedged {
        /// For how long.
        since: Duration,
    },
    /// It does not lead, and would if the others let it.
    Standby,
    /// It does not lead, and will not: its handle is closed or shut down, and no campaign of it is begun. Where that was not
    /// meant, this process has to be started anew.
    Closed,
    /// It does not lead, and nobody could be elected: too few nodes vote, for a ttl or longer.
    Undecided {
        /// For how long: since the first of the calls in a row that have seen too few.
        since: Duration,
    },
}

impl ElectionHealth {
    /// Whether the process must not go on: its work outlives its term. A health endpoint fails on this and nothing else, as
    /// restarting a process mends neither an outage nor that somebody else leads.
    #[must_use]
    pub const fn is_wedged(self) -> bool {
        matches!(self, Self::Wedged { .. })
    }
}

impl Election {
    /// How this candidate and its clones are. Nothing is sent: call it as often as you like, from anywhere.
    ///
    /// It looks at the work, not at the lease alone: a [`Leadership`](super::Leadership) that has not been dropped, or the work
    /// of [`lead`](Election::lead) that has not ended, such as a call that blocks its thread.
    #[must_use]
    pub fn health(&self) -> ElectionHealth {
        if !self.engine.is_served() {
            return ElectionHealth::Undecided { since: Duration::ZERO };
        }
        let now = self.engine.now();
        let at_work = self.shared.at_work().clone();
        let worst =
            at_work.iter().map(|leader| of_leader(leader, now)).max_by_key(|health| match health {
                ElectionHealth::Wedged { since } => (2, *since),
                ElectionHealth::Stopping { .. } => (1, Duration::ZERO),
                _ => (0, Duration::ZERO),
            });
        worst.unwrap_or_else(|| self.of_follower(now))
    }

    fn of_follower(&self, now: Timestamp) -> ElectionHealth {
        if self.engine.is_closed() {
            return ElectionHealth::Closed;
        }
        let votes = self.engine.statuses();
        let mut undecided_since = self.shared.undecided_since.lock();
        if self.engine.quorum.is_met_by(ready(&votes)) {
            *undecided_since = None;
            return ElectionHealth::Standby;
        }
        // Since it was seen, and not since a quorum was seen last: that may be long ago where nobody has asked meanwhile.
        let since = now.saturating_since(*undecided_since.get_or_insert(now));
        if since < self.ttl { ElectionHealth::Standby } else { ElectionHealth::Undecided { since } }
    }
}

fn of_leader(leader: &Proclamation, now: Timestamp) -> ElectionHealth {
    let lost = match leader.held().check() {
        Ok(left) => return ElectionHealth::Leading { left },
        Err(lost) => lost,
    };
    let over = leader.over_at(lost.reason, now);
    if now < over {
        ElectionHealth::Stopping { left: over.saturating_since(now) }
    } else {
        ElectionHealth::Wedged { since: now.saturating_since(over) }
    }
}

//! The clock of a server: it has a rate, can be stepped, and can stand.

use std::time::Duration;

use quorlock_core::Timestamp;

use crate::machine::{BEGINNING, scaled};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    /// When it showed what it shows there, by the world's clock.
    since: Timestamp,
    shown: Duration,
    per_mille: i64,
    stands: bool,
}

impl ServerClock {
    pub(crate) fn new(now: Timestamp, per_mille: i64) -> Self {
        let shown = BEGINNING.saturating_add(now.since_origin());
        Self { since: now, shown, per_mille, stands: false }
    }

    pub(crate) fn read(&self, now: Timestamp) -> Timestamp {
        let passed = if self.stands { Duration::ZERO } else { now.saturating_since(self.since) };
        Timestamp::from_origin(self.shown + scaled(passed, self.per_mille))
    }

    pub(crate) fn per_mille(&self) -> i64 {
        self.per_mille
    }

    fn settle(&mut self, now: Timestamp) {
        self.shown = self.read(now).since_origin();
        self.since = now;
    }

    pub(crate) fn stand(&mut self, now: Timestamp, stands: bool) {
        self.settle(now);
        self.stands = stands;
    }

    pub(crate) fn step_ahead(&mut self, now: Timestamp, by: Duration) {
        self.settle(now);
        self.shown += by;
    }

    pub(crate) fn step_back(&mut self, now: Timestamp, by: Duration) {
        self.settle(now);
        self.shown = self.shown.saturating_sub(by);
    }
}

//! A runtime for unit tests: a time that is set by hand.
//!
//! It runs nothing, sleeps for ever and draws zeroes. It is built for tests alone.

use std::time::Duration;

use super::{Runtime, Task};
use crate::{lock::Lock, protocol::Timestamp};

/// A time that is set by hand.
#[derive(Debug, Default)]
pub(crate) struct ByHand(Lock<Duration>);

impl ByHand {
    /// Moves the time on.
    pub(crate) fn pass(&self, time: Duration) {
        *self.0.lock() += time;
    }
}

impl Runtime for ByHand {
    fn now(&self) -> Timestamp {
        Timestamp::from_origin(*self.0.lock())
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _: Timestamp) -> Task {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: Task) {}

    fn random(&self) -> [u8; 16] {
        [0; 16]
    }
}

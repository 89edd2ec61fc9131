//! The guard on one node's clock. A clock that jumped or stands still has cut short or prolonged every lease on that
//! node.
//!
//! It decides from readings that it is given. It compares rates and steps, never times of day: a node's clock may be
//! years off as long as it runs.

use core::time::Duration;

use crate::time::Timestamp;

/// A step of this much beyond the uncertainty of a reading is no jump: the granularity of two clocks.
const STEP: i128 = 50_000;

/// Two clocks may run at rates that differ by a tenth, more than any slewing does.
const RATE: i128 = 10;

/// A reading is compared with one at least this old, so that a slow clock is not followed step by step.
const ANCHOR_FOR: Duration = Duration::from_secs(10);

/// A steady reading that is more than this less certain than the anchor does not replace it.
const WIDE: i128 = 1_000_000;

/// What is known of the clock of one node, in microseconds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct NodeClock {
    anchor: Option<Reading>,
    latest: Option<Reading>,
    jump: Option<Jump>,
    series: u64,
}

/// At the reading, the node's clock minus ours lay between `least` and `most`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Reading {
    /// When the reply arrived, by our clock.
    pub(super) at: Timestamp,
    pub(super) least: i128,
    pub(super) most: i128,
}

/// The first reading of a series, and the anchor from which it deviates.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Jump {
    pub(super) from: Reading,
    pub(super) to: Reading,
}

impl NodeClock {
    /// Takes the node's time from a reply, in microseconds, with our clock when the command was sent and when the reply
    /// arrived. Returns false if the clock has jumped or stood still since the readings before; the reading then begins
    /// a new series.
    #[must_use]
    pub fn handle_reading(&mut self, sent: Timestamp, arrived: Timestamp, node_us: u64) -> bool {
        let node = i128::from(node_us);
        let reading =
            Reading { at: arrived, least: node - micros(arrived), most: node - micros(sent) };
        let steady = self.anchor.is_none_or(|anchor| {
            let passed = arrived.saturating_since(anchor.at);
            let slack = STEP + i128::try_from(passed.as_micros()).unwrap_or(i128::MAX / 4) / RATE;
            reading.least <= anchor.most + slack && reading.most >= anchor.least - slack
        });
        self.latest = Some(reading);
        // A reading whose reply took long is too uncertain for an anchor.
        let old = self.anchor.is_none_or(|anchor| {
            arrived.saturating_since(anchor.at) >= ANCHOR_FOR
                && reading.width() <= anchor.width() + WIDE
        });
        if let Some(from) = self.anchor.filter(|_| !steady) {
            self.jump = Some(Jump { from, to: reading });
            self.series = self.series.wrapping_add(1);
        }
        if old || !steady {
            self.anchor = Some(reading);
        }
        steady
    }

    /// A number that changes whenever the clock is seen to jump. A vote asked for in one series and answered in another
    /// may be from before the jump, and does not count.
    pub const fn series(&self) -> u64 {
        self.series
    }

    /// When the node's clock was last read, by ours.
    pub fn read_at(&self) -> Option<Timestamp> {
        self.latest.map(|latest| latest.at)
    }

    /// The last jump that was seen.
    pub(super) const fn jump(&self) -> Option<Jump> {
        self.jump
    }

    pub(super) const fn latest(&self) -> Option<Reading> {
        self.latest
    }

    /// The node's clock at `now`, in microseconds, by the last reading.
    pub fn at(&self, now: Timestamp) -> Option<u64> {
        self.latest.and_then(|latest| u64::try_from(micros(now) + latest.most).ok())
    }

    /// How far a clock may stray from ours in this time without a jump.
    pub fn strayed(passed: Duration) -> Duration {
        passed / u32::try_from(RATE).unwrap_or(1)
    }

    /// The most that the node's clock can show at `now`, in microseconds, unless it jumped. The older the last reading
    /// is, the further ahead this lies.
    pub fn at_most(&self, now: Timestamp) -> Option<u64> {
        let passed = now.saturating_since(self.latest?.at);
        let slack = u64::try_from(Self::strayed(passed).as_micros()).ok()?;
        Some(self.at(now)?.saturating_add(slack))
    }
}

impl Reading {
    pub(super) const fn width(&self) -> i128 {
        self.most - self.least
    }
}

fn micros(at: Timestamp) -> i128 {
    i128::try_from(at.since_origin().as_micros()).unwrap_or(i128::MAX / 4)
}

#[cfg(test)]
#[path = "clock_test.rs"]
mod tests;

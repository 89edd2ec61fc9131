//! What a session knows of its node's marker, so that the node need not read it out for every acquire.
//!
//! It decides whether an acquire may rely on what is known: whether the node, if it is still in the same era,
//! would find nothing in its marker that speaks against it.

use std::{sync::Arc, time::Duration};

use redis::Value;

use crate::protocol::{FencingToken, Marker, validity};

/// So long after the last turn a node turns its floor, and its era changes; `acquire.lua` says why.
const TURN: Duration = Duration::from_secs(39_500);

/// A marker as a script has told it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    era: Arc<[u8]>,
    floor: u64,
    high: u64,
    max_ttl_ms: u64,
    /// In microseconds of the node's clock.
    turned: u64,
}

impl Known {
    /// From an answer's era, floor, `high`, longest ttl, and the second of the last turn.
    pub(super) fn read(fields: &[Value]) -> Option<Self> {
        let [era, floor, high, max_ttl, turned] = fields else { return None };
        let Value::BulkString(era) = era else { return None };
        Some(Self {
            era: Arc::from(era.as_slice()),
            floor: number(floor)?,
            high: number(high)?,
            max_ttl_ms: number(max_ttl)?,
            turned: number(turned)?.saturating_mul(1_000_000),
        })
    }

    /// The era, if an acquire of this ttl and hint that runs at `latest` at the latest, in microseconds of the
    /// node's clock, may rely on it. Another acquire has the node read its marker.
    pub(super) fn allows(&self, ttl: Duration, hint: u64, latest: u64) -> Option<&Arc<[u8]>> {
        let turns = self.turned.saturating_add(u64::try_from(TURN.as_micros()).ok()?);
        let allowed = validity::wire_millis(ttl) <= self.max_ttl_ms
            && self.floor < hint
            && hint <= self.high.min(FencingToken::MAX.get())
            && (self.turned..turns).contains(&latest);
        allowed.then_some(&self.era)
    }

    /// The era without what follows it, which changes with each turn and admits nobody.
    pub(super) fn number(&self) -> Option<u64> {
        let era = self.era.split(|byte| *byte == b'.').next()?;
        std::str::from_utf8(era).ok()?.parse().ok()
    }

    /// For the protocol.
    pub(super) fn marker(&self, ready: bool) -> Option<Marker> {
        let max_ttl = Duration::from_millis(self.max_ttl_ms);
        let marker = Marker::new(ready, max_ttl, self.high).above(self.floor);
        Some(marker.in_era(self.number()?))
    }
}

/// A number as a script answers it, or as it stands in the marker.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn known() -> Known {
        let text = |text: &str| Value::BulkString(text.into());
        let fields = [text("77.10"), text("100"), Value::Int(200), text("5000"), text("10")];
        Known::read(&fields).unwrap()
    }

    #[test]
    fn an_acquire_relies_on_a_marker_that_allows_for_it() {
        let (known, ttl, latest) = (known(), Duration::from_secs(5), 11 * SECOND);
        let allows = |ttl, hint, latest| known.allows(ttl, hint, latest).is_some();
        assert!(allows(ttl, 101, latest) && allows(ttl, 200, latest));
        assert!(!allows(ttl, 100, latest), "not above the floor");
        assert!(!allows(ttl, 201, latest), "above the highest");
        assert!(
            !allows(ttl + Duration::from_millis(1), 101, latest),
            "longer than the longest ttl"
        );
        assert!(!allows(ttl, 101, 9 * SECOND), "before the last turn");
        let turns = (10 + 39_500) * SECOND;
        assert!(allows(ttl, 101, turns - 1) && !allows(ttl, 101, turns), "after the next turn");
    }

    #[test]
    fn a_marker_is_read_from_numbers_and_from_text() {
        let marker = known().marker(true).unwrap();
        assert_eq!(marker, Marker::new(true, Duration::from_secs(5), 200).above(100).in_era(77));
        assert!(Known::read(&[Value::Nil, Value::Int(1)]).is_none());
        let fields = [Value::Nil, Value::Int(1), Value::Int(1), Value::Int(1), Value::Int(1)];
        assert!(Known::read(&fields).is_none());
    }
}

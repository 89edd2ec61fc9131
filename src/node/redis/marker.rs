//! What a session knows of its node's marker: under which name acquires and renewals may rely on it.
//!
//! It decides whether a command may be sent at all: one whose round knew another state of the node than the session
//! does now would be refused, and must not be sent under the newer name.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::Value;

use crate::protocol::{Mark, Marker};

/// A marker as a script has told it.
#[derive(Debug)]
pub(super) struct Known {
    ready: bool,
    /// The process, its database, and whose replica it last was.
    identity: Arc<[u8]>,
    /// Names the identity, the era and the seal in a few bytes.
    etag: Arc<[u8]>,
    mark: Mark,
    floor: u64,
    /// The node's high-water mark is not below this. It only rises while the etag stays.
    high: AtomicU64,
    max_ttl_ms: u64,
}

impl Known {
    /// From the answer to a look: identity, etag, era, seal, floor, high-water mark, longest ttl.
    pub(super) fn read(ready: bool, fields: &[Value]) -> Option<Self> {
        let [identity, etag, era, seal, floor, high, max_ttl] = fields else { return None };
        let (Value::BulkString(identity), Value::BulkString(etag)) = (identity, etag) else {
            return None;
        };
        Some(Self {
            ready,
            identity: Arc::from(identity.as_slice()),
            etag: Arc::from(etag.as_slice()),
            mark: Mark::new(number(era)?, number(seal)?),
            floor: number(floor)?,
            high: AtomicU64::new(number(high)?),
            max_ttl_ms: number(max_ttl)?,
        })
    }

    pub(super) fn identity(&self) -> &Arc<[u8]> {
        &self.identity
    }

    pub(super) const fn mark(&self) -> Mark {
        self.mark
    }

    /// Whether this is what the node was before it was seen like that, though it says that it is in the same era.
    pub(super) fn is_older_than(&self, mark: Mark, high: u64) -> bool {
        self.ready
            && self.mark.era == mark.era
            && (self.mark.seal < mark.seal || self.high() < high)
    }

    /// The etag for a command of a round that knew this of the node.
    pub(super) fn etag_for(&self, mark: Mark) -> Option<&Arc<[u8]>> {
        (self.ready && self.mark == mark).then_some(&self.etag)
    }

    /// The era, of a node that is ready.
    pub(super) fn era(&self) -> Option<u64> {
        self.ready.then_some(self.mark.era)
    }

    pub(super) fn high(&self) -> u64 {
        self.high.load(Ordering::Relaxed)
    }

    /// The node has told of a higher high-water mark.
    pub(super) fn raise(&self, high: u64) {
        self.high.fetch_max(high, Ordering::Relaxed);
    }

    /// For the protocol.
    pub(super) fn marker(&self) -> Marker {
        Marker::new(self.ready, Duration::from_millis(self.max_ttl_ms), self.high())
            .above(self.floor)
            .in_era(self.mark.era)
            .sealed(self.mark.seal)
    }
}

/// A number as a script answers it, or as it stands in the marker.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ready: bool) -> Known {
        let text = |text: &str| Value::BulkString(text.into());
        let fields = [
            text("abc/0/0"),
            text("77.1/abc/0/0"),
            text("77"),
            text("1"),
            text("0000000000000100"),
            Value::Int(200),
            text("5000"),
        ];
        Known::read(ready, &fields).unwrap()
    }

    #[test]
    fn a_command_is_sent_only_under_the_state_that_its_round_knew() {
        let sent = |ready, mark| known(ready).etag_for(mark).is_some();
        assert!(sent(true, Mark::new(77, 1)));
        assert!(!sent(true, Mark::new(77, 0)), "sealed since");
        assert!(!sent(true, Mark::new(76, 1)), "another era");
        assert!(!sent(false, Mark::new(77, 1)), "joining");
    }

    #[test]
    fn a_marker_is_read_from_numbers_and_from_text() {
        let marker = Marker::new(true, Duration::from_secs(5), 200).above(100).in_era(77).sealed(1);
        assert_eq!(known(true).marker(), marker);
        assert!(Known::read(true, &[Value::Nil, Value::Int(1)]).is_none());
        assert!(Known::read(true, &std::array::from_fn::<_, 7, _>(|_| Value::Int(1))).is_none());
    }

    #[test]
    fn data_that_went_back_is_told_by_its_seal_or_its_high_water_mark() {
        let older = |mark, high| known(true).is_older_than(mark, high);
        assert!(!older(Mark::new(77, 1), 200) && !older(Mark::new(77, 0), 150));
        assert!(older(Mark::new(77, 1), 201) && older(Mark::new(77, 2), 200));
        assert!(!older(Mark::new(76, 9), 900), "of another era");
        assert!(!known(false).is_older_than(Mark::new(77, 9), 900), "it does not vote anyway");
    }

    #[test]
    fn the_high_water_mark_only_rises() {
        let known = known(true);
        known.raise(300);
        known.raise(250);
        assert_eq!(known.high(), 300);
    }
}

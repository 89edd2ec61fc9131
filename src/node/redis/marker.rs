//! What a session knows of its node's marker, and the state under which commands may rely on it.
//!
//! It decides whether a command may be sent. The node would refuse a command whose round knew another state than the
//! session does now; the command must not be sent under the newer one.

use std::{sync::Arc, time::Duration};

use redis::Value;

use crate::{
    node::NodeError,
    protocol::{Claim, EpochMark, FencingToken, Marker, Serves},
};

/// A marker as a script has told it.
#[derive(Clone, Debug)]
pub(super) struct CachedMarker {
    ready: bool,
    /// The process, its database, and whose replica it last was.
    identity: Arc<[u8]>,
    mark: EpochMark,
    floor: u64,
    high_water: u64,
    max_ttl_ms: u64,
    /// The head of the node's counters, as it was told last in this state; `None` if the node is not ready.
    head: Option<Head>,
    kept: bool,
    orphaned: bool,
    claim: Claim,
    serves: Serves,
    asked: bool,
    waited_ms: u64,
}

/// The head of a node's counters: the etag of its state, and two numbers that rise while that state lasts.
#[derive(Clone, Debug)]
pub(super) struct Head {
    text: Box<[u8]>,
    etag_bytes: usize,
    high_water: u64,
    next_floor: u64,
}

/// Above every counter.
const NUMBERS_END: u64 = FencingToken::MAX.get() + 1;

impl Head {
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let mut parts = text.split(|byte| *byte == b' ');
        let (etag, high_water, next_floor) = (parts.next()?, parts.next()?, parts.next()?);
        let (high_water, next_floor) = (digits(high_water)?, digits(next_floor)?);
        Some(Self { text: Box::from(text), etag_bytes: etag.len(), high_water, next_floor })
    }

    pub(super) const fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn etag(&self) -> &[u8] {
        self.text.get(..self.etag_bytes).unwrap_or_default()
    }

    /// Whether so many tokens up to a hint are above all counters of the generation before, and not above the
    /// high-water mark.
    pub(super) const fn allows(&self, hint: u64, count: u64) -> bool {
        // Another program may have written more than any script counts to.
        let most = if self.high_water < NUMBERS_END { self.high_water } else { NUMBERS_END - 1 };
        self.next_floor.saturating_add(count) <= hint && hint <= most
    }
}

impl CachedMarker {
    /// From the answer to a look: identity, head, epoch, seal, floor, high-water mark, longest ttl, flags, and how long
    /// it has been joining.
    pub(super) fn read(ready: bool, fields: &[Value]) -> Option<Self> {
        let [identity, head, epoch, seal, floor, high_water, max_ttl, flags, waited] = fields
        else {
            return None;
        };
        let [Value::BulkString(identity), Value::BulkString(head), Value::BulkString(flags)] =
            [identity, head, flags]
        else {
            return None;
        };
        // A node that is joining has no head, so that nothing can be asked of it as a vote.
        let head = if ready { Some(Head::read(head)?) } else { None };
        Some(Self {
            ready,
            identity: Arc::from(identity.as_slice()),
            mark: EpochMark::new(number(epoch)?, number(seal)?),
            floor: number(floor)?,
            high_water: number(high_water)?,
            max_ttl_ms: number(max_ttl)?,
            head,
            kept: flags.contains(&b'k'),
            orphaned: flags.contains(&b'o'),
            claim: match flags {
                flags if flags.contains(&b'm') => Claim::Meant,
                flags if flags.contains(&b'h') => Claim::Held,
                _ => Claim::Made,
            },
            serves: match flags {
                flags if flags.contains(&b'b') => Serves::Before,
                flags if flags.contains(&b's') => Serves::Both,
                _ => Serves::After,
            },
            asked: flags.contains(&b'a'),
            waited_ms: number(waited)?,
        })
    }

    pub(super) fn identity(&self) -> &Arc<[u8]> {
        &self.identity
    }

    pub(super) const fn mark(&self) -> EpochMark {
        self.mark
    }

    /// Whether this is older data than what was already seen: epochs rise, and seals and the high-water mark rise
    /// within one. A database that is exchanged, and exchanged back, shows an epoch of before. So does one that joins
    /// in an older epoch than was seen: it has been ready since, and its wait predates that.
    pub(super) fn is_older_than(&self, mark: EpochMark, high_water: u64) -> bool {
        let same = self.mark.epoch == mark.epoch;
        let fell = self.mark.seal < mark.seal || self.high_water() < high_water;
        self.mark.is_before(mark.epoch) || self.ready && same && fell
    }

    /// The head for a command whose round knew this mark.
    pub(super) fn head_for(&self, mark: EpochMark) -> Option<&Head> {
        self.head.as_ref().filter(|_| self.mark == mark)
    }

    /// Why there is no head for a round: the node is not admitted, or it is in another state than the round knew.
    pub(super) const fn refusal(&self) -> NodeError {
        if self.ready { NodeError::Outdated } else { NodeError::NotAdmitted }
    }

    /// The epoch, of a node that is ready.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.ready.then_some(self.mark.epoch)
    }

    /// A lower bound of the high-water mark.
    pub(super) fn high_water(&self) -> u64 {
        self.head.as_ref().map_or(self.high_water, |head| head.high_water)
    }

    /// The same with the head that the node has told, if that is a later one of the same state. Answers may be taken
    /// out of order.
    pub(super) fn raised(&self, text: &[u8]) -> Option<Self> {
        let (known, told) = (self.head.as_ref()?, Head::read(text)?);
        let later = told.etag() == known.etag()
            && (told.high_water, told.next_floor) > (known.high_water, known.next_floor);
        later.then(|| Self { head: Some(told), ..self.clone() })
    }

    /// The marker as the protocol reads it.
    pub(super) fn marker(&self) -> Marker {
        Marker::new(self.ready, Duration::from_millis(self.max_ttl_ms), self.high_water())
            .above(self.floor)
            .in_epoch(self.mark.epoch)
            .sealed(self.mark.seal)
            .kept(self.kept)
            .orphaned(self.orphaned)
            .claimed(self.claim)
            .serving(self.serves, self.asked)
            .waited(Duration::from_millis(self.waited_ms))
    }
}

/// A number as a script answers it, or as it stands in the marker.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(text) => digits(text),
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "77.1/abc/0/0 0000000000000200 0000000000000150";

    fn known(ready: bool) -> CachedMarker {
        let text = |text: &str| Value::BulkString(text.into());
        let fields = [
            text("abc/0/0"),
            text(if ready { HEAD } else { "" }),
            text("77"),
            text("1"),
            text("0000000000000100"),
            Value::Int(200),
            text("5000"),
            text(if ready { "" } else { "ko" }),
            text(if ready { "0" } else { "1500" }),
        ];
        CachedMarker::read(ready, &fields).unwrap()
    }

    #[test]
    fn a_command_is_sent_only_under_the_state_that_its_round_knew() {
        let ready = known(true);
        let head = ready.head_for(EpochMark::new(77, 1)).unwrap();
        assert_eq!((head.text(), head.etag()), (HEAD.as_bytes(), &b"77.1/abc/0/0"[..]));
        let sent = |ready, mark| known(ready).head_for(mark).is_some();
        assert!(!sent(true, EpochMark::new(77, 0)), "sealed since");
        assert!(!sent(true, EpochMark::new(76, 1)), "another epoch");
        assert!(!sent(false, EpochMark::new(77, 1)), "joining");
    }

    /// A joining node has no epoch in which it could have voted.
    #[test]
    fn the_epoch_is_that_of_a_node_that_votes() {
        assert_eq!((known(true).epoch(), known(false).epoch()), (Some(77), None));
    }

    #[test]
    fn a_hint_is_taken_as_it_is_between_the_two_numbers_of_the_head() {
        let ready = known(true);
        let head = ready.head_for(EpochMark::new(77, 1)).unwrap();
        let allows = |hint, count| head.allows(hint, count);
        assert!(!allows(150, 1) && allows(151, 1) && allows(200, 1) && !allows(201, 1));
        assert!(!allows(153, 4) && allows(154, 4) && allows(200, 50) && !allows(200, 51));
        assert!(!allows(201, 2) && !allows(200, u64::MAX));
    }

    #[test]
    fn a_marker_is_read_from_numbers_and_from_text() {
        let marker =
            Marker::new(true, Duration::from_secs(5), 200).above(100).in_epoch(77).sealed(1);
        let marker = marker.serving(Serves::After, false);
        assert_eq!(known(true).marker(), marker);
        let joining =
            Marker::new(false, Duration::from_secs(5), 200).above(100).in_epoch(77).sealed(1);
        let joining = joining.serving(Serves::After, false);
        let joining = joining.kept(true).orphaned(true).waited(Duration::from_millis(1_500));
        assert_eq!(known(false).marker(), joining);
        assert!(CachedMarker::read(true, &[Value::Nil, Value::Int(1)]).is_none());
        assert!(
            CachedMarker::read(true, &std::array::from_fn::<_, 9, _>(|_| Value::Int(1))).is_none()
        );
        assert!(Head::read(b"77.1/abc/0/0 12").is_none() && Head::read(b"a b c").is_none());
    }

    #[test]
    fn data_that_went_back_is_told_by_its_seal_or_its_high_water_mark() {
        let older = |mark, high_water| known(true).is_older_than(mark, high_water);
        assert!(!older(EpochMark::new(77, 1), 200) && !older(EpochMark::new(77, 0), 150));
        assert!(older(EpochMark::new(77, 1), 201) && older(EpochMark::new(77, 2), 200));
        assert!(!older(EpochMark::new(76, 9), 900), "of an earlier epoch");
        assert!(older(EpochMark::new(78, 0), 0), "it was in a later epoch already");
        assert!(!known(false).is_older_than(EpochMark::new(77, 9), 900), "it does not vote anyway");
        assert!(known(false).is_older_than(EpochMark::new(78, 0), 0), "it was admitted since");
        let written = EpochMark::new(1 << 53, 0);
        assert!(!known(false).is_older_than(written, 0) && !known(true).is_older_than(written, 0));
    }

    #[test]
    fn the_head_only_rises_and_only_in_its_state() {
        let mut known = known(true);
        for (head, high_water) in [
            ("77.1/abc/0/0 0000000000000300 0000000000000150", 300),
            ("77.1/abc/0/0 0000000000000250 0000000000000150", 300),
            ("77.2/abc/0/0 0000000000000900 0000000000000150", 300),
            ("nothing", 300),
        ] {
            known = known.raised(head.as_bytes()).unwrap_or(known);
            assert_eq!(known.high_water(), high_water, "{head}");
        }
    }
}

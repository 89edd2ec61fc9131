//! A holder's note on the nodes beside its key: its label, since when it holds, and the record of a leader.
//!
//! It decides which labels and texts are accepted, and the form of a note on a node. A note decides nothing: only the
//! owner tells whose key it is.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use super::fencing::FencingToken;

/// The digits of a time or a token.
const DIGITS: usize = 16;
/// The digits of a label's length, where a text follows the label.
const LENGTH: usize = 3;
/// The first byte of a note with a record. A note without begins with a digit.
const PROCLAIMED: u8 = b'p';

/// A holder's name for itself: any bytes, at least one, at most [`Label::MAX_BYTES`]. Printing escapes bytes that are
/// not printable ASCII.
///
/// ```
/// use quorlock_core::Label;
///
/// let label = Label::new("web-1/4711/billing").unwrap();
/// assert_eq!(label.as_bytes(), b"web-1/4711/billing");
/// assert_eq!(Label::new(b"a\n\xff").unwrap().to_string(), r"a\n\xff");
/// assert_eq!(Label::new(""), None);
/// ```
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Label(Arc<[u8]>);

impl Label {
    /// The longest accepted label. Every acquire sends a label, and every node keeps one for each resource.
    pub const MAX_BYTES: usize = 128;

    /// Takes the bytes as they are; `None` if there are none, or too many.
    pub fn new(text: impl AsRef<[u8]>) -> Option<Self> {
        let text = text.as_ref();
        (1..=Self::MAX_BYTES).contains(&text.len()).then(|| Self(text.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({self})")
    }
}

/// A leader's text about itself, such as an address: any bytes, at most [`LeaderText::MAX_BYTES`], or none. Printing
/// escapes bytes that are not printable ASCII.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaderText(Arc<[u8]>);

impl LeaderText {
    /// The longest accepted text. Every node keeps it.
    pub const MAX_BYTES: usize = 1024;

    /// Takes the bytes as they are; `None` if there are too many.
    pub fn new(text: impl AsRef<[u8]>) -> Option<Self> {
        let text = text.as_ref();
        (text.len() <= Self::MAX_BYTES).then(|| Self(text.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Default for LeaderText {
    fn default() -> Self {
        Self([].into())
    }
}

impl fmt::Display for LeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for LeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaderText({self})")
    }
}

/// The record of an elected leader. The leader writes it once its round is won, and never before.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Its term, which is the fencing token of its lease.
    pub term: FencingToken,
    /// The order of the records of one term.
    pub number: u64,
    /// Its text.
    pub text: LeaderText,
}

impl Record {
    /// The record with this number of that term.
    pub const fn new(term: FencingToken, number: u64, text: LeaderText) -> Self {
        Self { term, number, text }
    }

    /// Whether it replaces `other`.
    pub fn is_later_than(&self, other: &Self) -> bool {
        (self.term, self.number) > (other.term, other.number)
    }
}

/// The note of one acquire round: the same on every node, as it is made once.
///
/// The time is that of the holder's own wall clock when its round began, and is as right as that clock.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Note(Arc<Noted>);

#[derive(Eq, Hash, PartialEq)]
struct Noted {
    since_us: u64,
    label: Option<Label>,
    record: Option<Record>,
}

impl Note {
    /// The longest note, in bytes.
    pub const MAX_BYTES: usize = 1 + 3 * DIGITS + LENGTH + Label::MAX_BYTES + LeaderText::MAX_BYTES;

    /// The note of a holder since this time of its wall clock, in microseconds.
    pub fn new(since_us: u64, label: Label) -> Self {
        Self(Arc::new(Noted { since_us, label: Some(label), record: None }))
    }

    /// The note of an elected leader.
    pub fn of_leader(since_us: u64, label: Option<Label>, record: Record) -> Self {
        Self(Arc::new(Noted { since_us, label, record: Some(record) }))
    }

    /// The wall clock of the holder when its round began, since the Unix epoch.
    pub fn since(&self) -> Duration {
        Duration::from_micros(self.0.since_us)
    }

    /// The holder's label; a leader may have none.
    pub fn label(&self) -> Option<&Label> {
        self.0.label.as_ref()
    }

    /// The record of an elected leader.
    pub fn record(&self) -> Option<&Record> {
        self.0.record.as_ref()
    }

    /// The form on a node: sixteen digits of the time, and the label. With a record: `p`, sixteen digits each of the
    /// term, the number and the time, three of the label's length, the label and the text.
    ///
    /// ```
    /// use quorlock_core::{Label, Note};
    ///
    /// let note = Note::new(1_795_170_000_123_456, Label::new("web-1").unwrap());
    /// assert_eq!(note.to_bytes(), b"1795170000123456web-1");
    /// assert_eq!(Note::read(&note.to_bytes()), Some(note));
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let Noted { since_us, label, record } = &*self.0;
        let label = label.as_ref().map_or(&[][..], Label::as_bytes);
        let mut text = Vec::with_capacity(Self::MAX_BYTES.min(4 * DIGITS + label.len()));
        let Some(Record { term, number, text: of_leader }) = record else {
            write(&mut text, *since_us, DIGITS);
            text.extend_from_slice(label);
            return text;
        };
        text.push(PROCLAIMED);
        write(&mut text, term.get(), DIGITS);
        write(&mut text, *number, DIGITS);
        write(&mut text, *since_us, DIGITS);
        write(&mut text, u64::try_from(label.len()).unwrap_or(0), LENGTH);
        text.extend_from_slice(label);
        text.extend_from_slice(of_leader.as_bytes());
        text
    }

    /// Reads the form on a node. Another program may have written anything there: `None` if it is no note.
    pub fn read(text: &[u8]) -> Option<Self> {
        let Some(rest) = text.strip_prefix(&[PROCLAIMED]) else {
            let (since_us, label) = read(text, DIGITS)?;
            return Some(Self::new(since_us, Label::new(label)?));
        };
        let (term, rest) = read(rest, DIGITS)?;
        let (number, rest) = read(rest, DIGITS)?;
        let (since_us, rest) = read(rest, DIGITS)?;
        let (length, rest) = read(rest, LENGTH)?;
        let (label, text) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let label = if label.is_empty() { None } else { Some(Label::new(label)?) };
        let term = FencingToken::try_from(term).ok().filter(|term| term.get() > 0)?;
        Some(Self::of_leader(since_us, label, Record::new(term, number, LeaderText::new(text)?)))
    }
}

/// Writes a number in this many digits. A larger number, such as a clock beyond the year 2286, becomes all nines.
fn write(text: &mut Vec<u8>, number: u64, digits: usize) {
    let mut scale = (1..digits).fold(1_u64, |scale, _| scale.saturating_mul(10));
    let number = number.min(scale.saturating_mul(10).saturating_sub(1));
    while scale > 0 {
        text.push(b'0' + u8::try_from(number / scale % 10).unwrap_or(0));
        scale /= 10;
    }
}

/// A number of this many digits, and the rest of the text.
fn read(text: &[u8], digits: usize) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })?;
    Some((number, rest))
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Noted { label, record, .. } = &*self.0;
        let mut note = f.debug_struct("Note");
        note.field("since", &self.since()).field("label", label);
        if let Some(record) = record {
            note.field("record", record);
        }
        note.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_some_bytes_and_not_too_many() {
        assert!(Label::new([b'x'; Label::MAX_BYTES]).is_some());
        assert!(Label::new([b'x'; Label::MAX_BYTES + 1]).is_none());
        assert!(Label::new([]).is_none());
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for since in [0, 1, 1_795_170_000_123_456, 9_999_999_999_999_999] {
            let note = Note::new(since, Label::new(b"\0 7\xff").unwrap());
            assert_eq!(Note::read(&note.to_bytes()), Some(note.clone()), "{note:?}");
        }
        let beyond = Note::new(u64::MAX, Label::new("x").unwrap());
        assert_eq!(beyond.to_bytes(), b"9999999999999999x");
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for label in [None, Label::new("web-1"), Label::new([b'x'; Label::MAX_BYTES])] {
            for text in [&b""[..], b"10.0.0.7:80", &[b'7'; LeaderText::MAX_BYTES]] {
                let text = LeaderText::new(text).unwrap();
                let record = Record::new(FencingToken::MAX, 42, text);
                let note = Note::of_leader(1_795_170_000_123_456, label.clone(), record);
                let bytes = note.to_bytes();
                assert!(bytes.len() <= Note::MAX_BYTES);
                assert_eq!(Note::read(&bytes), Some(note));
            }
        }
        assert_eq!(LeaderText::new([b'x'; LeaderText::MAX_BYTES + 1]), None);
        let record = Record::new(FencingToken::new(7), 1, LeaderText::new("a").unwrap());
        let note = Note::of_leader(5, None, record);
        assert_eq!(note.to_bytes(), b"p000000000000000700000000000000010000000000000005000a");
    }

    #[test]
    fn what_is_no_record_is_none() {
        let of = |term: &str, length: &str, rest: &str| {
            let text = alloc::format!("p{term}00000000000000010000000000000005{length}{rest}");
            Note::read(text.as_bytes())
        };
        let term = "0000000000000007";
        assert!(of(term, "003", "abcd").is_some_and(|note| note.label().is_some()));
        assert_eq!(of(term, "005", "abcd"), None, "the label is cut");
        assert_eq!(of(term, "129", &"x".repeat(200)), None, "of no length of a label");
        assert_eq!(of("0000000000000000", "000", ""), None, "no term");
        assert_eq!(of("9999999999999999", "000", ""), None, "beyond the last token");
        assert_eq!(of(term, "00x", ""), None);
        assert_eq!(of(term, "000", &"x".repeat(LeaderText::MAX_BYTES + 1)), None);
        assert_eq!(Note::read(b"p"), None);
    }

    #[test]
    fn what_is_no_note_is_none() {
        let long = [&b"1795170000123456"[..], &[b'x'; Label::MAX_BYTES + 1]].concat();
        for text in
            [&b""[..], b"179517000012345", b"1795170000123456", b"17951700001234x6web", &long]
        {
            assert_eq!(Note::read(text), None, "{}", text.escape_ascii());
        }
    }
}

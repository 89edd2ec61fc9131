//! What a holder leaves on the nodes beside its key, for people: its label, and since when it holds.
//!
//! It decides which labels are accepted, and how a note stands on a node. Nothing is decided by a note: whose key it is,
//! only the owner tells.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

/// How many digits the time of a note has.
const DIGITS: usize = 16;

/// Who a holder is, in its own words: any bytes, at least one, at most [`Label::MAX_BYTES`]. Printed, whatever is not
/// printable ASCII is escaped.
///
/// ```
/// use quorlock::protocol::Label;
///
/// let label = Label::new("web-1/4711/billing").unwrap();
/// assert_eq!(label.as_bytes(), b"web-1/4711/billing");
/// assert_eq!(Label::new(b"a\n\xff").unwrap().to_string(), r"a\n\xff");
/// assert_eq!(Label::new(""), None);
/// ```
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Label(Arc<[u8]>);

impl Label {
    /// The longest accepted label. One is sent with every acquire, and kept on every node for each resource.
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

/// The note of one acquire round: the same on every node, since it is made once.
///
/// The time is that of the holder's own wall clock when its round began, so that all nodes have one and the same note.
/// It is as right as that clock.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Note(Arc<Noted>);

#[derive(Eq, Hash, PartialEq)]
struct Noted {
    since_us: u64,
    label: Label,
}

impl Note {
    /// A note of whoever holds since this time of its wall clock, in microseconds.
    pub fn new(since_us: u64, label: Label) -> Self {
        Self(Arc::new(Noted { since_us, label }))
    }

    /// The wall clock of the holder when its round began, since the Unix epoch.
    pub fn since(&self) -> Duration {
        Duration::from_micros(self.0.since_us)
    }

    /// Who the holder is.
    pub fn label(&self) -> &Label {
        &self.0.label
    }

    /// As it stands on a node: sixteen digits of the time, and the label.
    ///
    /// ```
    /// use quorlock::protocol::{Label, Note};
    ///
    /// let note = Note::new(1_795_170_000_123_456, Label::new("web-1").unwrap());
    /// assert_eq!(note.to_bytes(), b"1795170000123456web-1");
    /// assert_eq!(Note::read(&note.to_bytes()), Some(note));
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(DIGITS + self.label().as_bytes().len());
        let mut scale = 10_u64.pow(15);
        // A clock that is beyond sixteen digits is cut: the year 2286.
        let since = self.0.since_us.min(10_u64.pow(16) - 1);
        while scale > 0 {
            text.push(b'0' + u8::try_from(since / scale % 10).unwrap_or(0));
            scale /= 10;
        }
        text.extend_from_slice(self.label().as_bytes());
        text
    }

    /// From what stands on a node. Others may have written anything there: `None` if it is no note.
    pub fn read(text: &[u8]) -> Option<Self> {
        let (digits, label) = text.split_at_checked(DIGITS)?;
        let since_us = digits.iter().try_fold(0_u64, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })?;
        Some(Self::new(since_us, Label::new(label)?))
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Note").field("since", &self.since()).field("label", self.label()).finish()
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
    fn what_is_no_note_is_none() {
        let long = [&b"1795170000123456"[..], &[b'x'; Label::MAX_BYTES + 1]].concat();
        for text in
            [&b""[..], b"179517000012345", b"1795170000123456", b"17951700001234x6web", &long]
        {
            assert_eq!(Note::read(text), None, "{}", text.escape_ascii());
        }
    }
}

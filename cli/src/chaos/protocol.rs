//! The lines between `chaos` and a worker: what a worker says, and what it is answered.
//!
//! Each line of a worker is one JSON object, and is answered by one line, for which the worker waits. So a time taken here
//! lies between the two: after the worker's step before the line, and before its next one. Whatever is no such line is an
//! error in words, and never a guess.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// The longest line, with its end.
pub(crate) const LONGEST: usize = 4096;

/// What a worker says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Said {
    /// It is about to ask for the lock, or to extend it.
    Ask {},
    /// It has got or extended it: counted from the answer to its last `ask` the lock is promised for that time, by default for the ttl.
    Got {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validity_ms: Option<f64>,
    },
    /// It has not.
    Failed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The counter is to be read for it.
    Read {},
    /// One more than what it has read is to be written back.
    Write {},
    /// It is about to release the lock.
    Release {},
    /// It has learned that it holds the lock no longer.
    Lost {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

/// How a line is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Done,
    /// The store has seen a larger token: nothing was read or written.
    Stale,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "ok",
            Self::Stale => "stale",
        })
    }
}

/// The event of a line; the error says what is wrong with it.
pub(crate) fn event(line: &[u8]) -> Result<Said, String> {
    serde_json::from_slice(line)
        .map_err(|error| format!("it has printed what is no event, {}: {error}", shown(line)))
}

/// A line for people, cut where it is long.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut begin: String = text.trim_end().chars().take(120).collect();
    if begin.len() < text.trim_end().len() {
        begin.push('…');
    }
    format!("{begin:?}")
}

/// A validity that was said, where it is a time at all.
pub(crate) fn validity(ms: f64) -> Result<Duration, String> {
    let whole = Duration::try_from_secs_f64(ms / 1000.0).ok();
    let whole = whole.filter(|time| *time <= Duration::from_secs(86_400));
    whole.ok_or_else(|| format!("`validity_ms` is {ms}, and may be 0 to 86400000"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let all = [
            Said::Ask {},
            Said::Got { token: Some(u64::MAX), validity_ms: Some(1400.5) },
            Said::Got { token: None, validity_ms: None },
            Said::Failed { why: Some("busy".to_owned()) },
            Said::Read {},
            Said::Write {},
            Said::Release {},
            Said::Lost { why: None },
        ];
        for said in all {
            let line = serde_json::to_string(&said).unwrap();
            assert_eq!(event(format!("{line}\n").as_bytes()), Ok(said), "{line}");
        }
        // As a worker in Python prints it.
        let line = br#"{"event": "got", "validity_ms": 1500, "token": 7}"#;
        assert_eq!(event(line), Ok(Said::Got { token: Some(7), validity_ms: Some(1500.0) }));
    }

    /// A misspelt token would be a lock without tokens.
    #[test]
    fn what_is_no_event_is_told_with_the_line() {
        for (line, why) in [
            (&b"Traceback (most recent call last):"[..], "Traceback"),
            (b"", "\"\""),
            (br#"{"event":"grabbed"}"#, "grabbed"),
            (br#"{"event":"got","tokn":7}"#, "tokn"),
            (br#"{"event":"got","token":-1}"#, "-1"),
            (br#"{"event":"ask","token":1}"#, "token"),
            (b"\xff\xfe", "no event"),
            (b"7", "no event"),
        ] {
            let told = event(line).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert!(event("x".repeat(3000).as_bytes()).unwrap_err().len() < 300);
        for ms in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(validity(ms).is_err(), "{ms}");
        }
        assert_eq!(validity(1400.5), Ok(Duration::from_micros(1_400_500)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_an_event_or_told(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(told) = event(&line) {
                prop_assert!(told.contains("no event") && !told.contains('\n'), "{}", told);
            }
        }
    }
}

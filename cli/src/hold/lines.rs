//! What a caller asks, a line each: `check`, `extend` or `release`, and a word behind it that the answer repeats.
//!
//! It decides what is a line, and what it asks. Nothing that is read may cost memory without a limit, and what is cut off
//! asks for nothing: a caller that dies in the middle of a line has not asked.

use std::fmt;

/// The longest line, in bytes.
const LONGEST: usize = 256;
/// So many characters of a line that is refused are repeated.
const SHOWN: usize = 64;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum What {
    Check,
    Extend,
    Release,
}

const ALL: [(&str, What); 3] =
    [("check", What::Check), ("extend", What::Extend), ("release", What::Release)];

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ALL.iter().filter(|(_, what)| what == self).try_for_each(|(name, _)| f.write_str(name))
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Asked {
    pub(super) what: What,
    /// By which the caller knows the answer again.
    pub(super) id: Option<String>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refused {
    /// What was read, cut and made printable.
    pub(super) line: String,
    pub(super) reason: &'static str,
}

/// Cuts what is read into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    /// One more byte; a line where that ends one.
    pub(super) fn take(&mut self, byte: u8) -> Option<Result<Asked, Refused>> {
        match byte {
            b'\n' => {
                let (line, is_too_long) = (std::mem::take(&mut self.line), self.is_too_long);
                self.is_too_long = false;
                Some(asked(&line, is_too_long))
            }
            _ if self.line.len() < LONGEST => {
                self.line.push(byte);
                None
            }
            _ => {
                self.is_too_long = true;
                None
            }
        }
    }
}

fn asked(line: &[u8], is_too_long: bool) -> Result<Asked, Refused> {
    let text = String::from_utf8_lossy(line);
    let refused = |reason| Refused { line: text.chars().take(SHOWN).collect(), reason };
    if is_too_long {
        return Err(refused("the line is longer than 256 bytes"));
    }
    let mut words = text.split_whitespace();
    let (name, id, more) = (words.next().unwrap_or_default(), words.next(), words.next());
    let what = ALL.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
    match (what, more) {
        (Some(what), None) => Ok(Asked { what, id: id.map(str::to_owned) }),
        (Some(_), Some(_)) => Err(refused("one word may stand behind it")),
        (None, _) => Err(refused("write check, extend or release")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<Result<Asked, Refused>> {
        let mut lines = Lines::default();
        bytes.iter().filter_map(|byte| lines.take(*byte)).collect()
    }

    fn asked(what: What, id: Option<&str>) -> Result<Asked, Refused> {
        Ok(Asked { what, id: id.map(str::to_owned) })
    }

    #[test]
    fn a_line_asks_for_one_thing_and_may_have_a_word_behind_it() {
        let read = all(b"check\nextend 7\r\n release  x \ncheck a b\n\nCHECK\n\xff\x00\ncheck");
        let refused = |line: &str, reason| Err(Refused { line: line.to_owned(), reason });
        let unknown = "write check, extend or release";
        assert_eq!(
            read,
            [
                asked(What::Check, None),
                asked(What::Extend, Some("7")),
                asked(What::Release, Some("x")),
                refused("check a b", "one word may stand behind it"),
                refused("", unknown),
                refused("CHECK", unknown),
                refused("\u{fffd}\0", unknown),
            ],
            "the last has no end, and asks for nothing"
        );
    }

    #[test]
    fn a_line_of_any_length_is_one_that_is_refused_and_costs_nothing() {
        let mut lines = Lines::default();
        assert!((0..1_000_000).all(|_| lines.take(b'a').is_none()));
        assert!(lines.line.capacity() <= 2 * LONGEST);
        let refused = lines.take(b'\n').unwrap().unwrap_err();
        assert_eq!(refused.line, "a".repeat(SHOWN));
        assert_eq!(all(&[&[b' '; 400][..], b"release\n"].concat()).len(), 1);
        assert!(all(&[&[b' '; 400][..], b"release\n"].concat())[0].is_err());
        // The next one is read as if nothing had been.
        b"check".iter().for_each(|byte| assert!(lines.take(*byte).is_none()));
        assert_eq!(lines.take(b'\n'), Some(asked(What::Check, None)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_as_many_lines_as_have_an_end(bytes in any::<Vec<u8>>()) {
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(all(&bytes).len(), ends);
        }
    }
}

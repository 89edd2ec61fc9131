//! One script in the place of another, in what a client sends: the server runs the other one whenever it is asked for the
//! first, by its digest or in full.
//!
//! It reads whole commands, and changes nothing else in them. What it does not understand it passes on as it is.

use std::ops::Range;

/// The script to replace, and its replacement.
#[derive(Clone, Debug)]
pub(super) struct Exchanged {
    digest: String,
    text: String,
    other: String,
}

impl Exchanged {
    pub(super) fn new(text: &str, other: &str) -> Self {
        let digest = redis::Script::new(text).get_hash().to_owned();
        Self { digest, text: text.to_owned(), other: other.to_owned() }
    }

    /// What to send to the server in place of this command, where it asks for the script.
    fn instead(&self, bytes: &[u8], words: &[Range<usize>]) -> Option<Vec<u8>> {
        let [verb, script, rest @ ..] = words else { return None };
        let asked = match &bytes[verb.clone()] {
            b"EVALSHA" => self.digest.as_bytes(),
            b"EVAL" => self.text.as_bytes(),
            _ => return None,
        };
        if &bytes[script.clone()] != asked {
            return None;
        }
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        let rest = rest.iter().map(|word| &bytes[word.clone()]);
        for word in [&b"EVAL"[..], self.other.as_bytes()].into_iter().chain(rest) {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        Some(command)
    }
}

/// What one client sends.
#[derive(Debug)]
pub(super) struct Exchange {
    scripts: Vec<Exchanged>,
    /// The bytes of a command that is not complete yet.
    begun: Vec<u8>,
}

impl Exchange {
    pub(super) const fn new(scripts: Vec<Exchanged>) -> Self {
        Self { scripts, begun: Vec::new() }
    }

    /// What is to be passed on, now that this has come.
    pub(super) fn pass(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.scripts.is_empty() {
            return bytes;
        }
        self.begun.extend_from_slice(&bytes);
        let (mut passed, mut done) = (Vec::new(), 0);
        loop {
            let rest = &self.begun[done..];
            match command(rest) {
                Read::Whole { words, end } => {
                    let instead =
                        self.scripts.iter().find_map(|script| script.instead(rest, &words));
                    passed.extend(instead.unwrap_or_else(|| rest[..end].to_vec()));
                    done += end;
                }
                Read::Part => break,
                Read::Other => {
                    passed.extend_from_slice(rest);
                    done = self.begun.len();
                    break;
                }
            }
        }
        self.begun.drain(..done);
        passed
    }
}

enum Read {
    /// The words of the first command, and where it ends.
    Whole { words: Vec<Range<usize>>, end: usize },
    /// It is not all there.
    Part,
    /// It is no list of words.
    Other,
}

fn command(bytes: &[u8]) -> Read {
    let (Some(mut at), Some(b'*')) = (line_end(bytes, 0), bytes.first()) else {
        return if bytes.first().is_none_or(|byte| *byte == b'*') {
            Read::Part
        } else {
            Read::Other
        };
    };
    let Some(count) = number(&bytes[1..at - 2]) else { return Read::Other };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(from) = line_end(bytes, at) else { return Read::Part };
        let Some(length) = number(&bytes[at + 1..from - 2]) else { return Read::Other };
        at = from + length + 2;
        if at > bytes.len() {
            return Read::Part;
        }
        words.push(from..from + length);
    }
    Read::Whole { words, end: at }
}

/// Where the next line begins.
fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(2).position(|pair| pair == b"\r\n").map(|at| from + at + 2)
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(words: &[&str]) -> Vec<u8> {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(*word);
        });
        command.get_packed_command()
    }

    #[test]
    fn only_the_script_is_exchanged_however_the_bytes_come() {
        let (one, other) = ("return 1", "return 'the other'");
        let digest = redis::Script::new(one).get_hash().to_owned();
        let sent = [
            packed(&["PING"]),
            packed(&["EVALSHA", &digest, "1", "key", "a\r\nb"]),
            packed(&["EVAL", one, "0"]),
            packed(&["EVAL", "return 2", "0"]),
            packed(&["SET", one, &digest]),
        ];
        let wanted = [
            sent[0].clone(),
            packed(&["EVAL", other, "1", "key", "a\r\nb"]),
            packed(&["EVAL", other, "0"]),
            sent[3].clone(),
            sent[4].clone(),
        ];
        for size in [1, 7, 4096] {
            let mut exchange = Exchange::new(vec![Exchanged::new(one, other)]);
            let mut passed = Vec::new();
            sent.concat().chunks(size).for_each(|part| passed.extend(exchange.pass(part.to_vec())));
            assert_eq!(passed, wanted.concat(), "{size} at a time");
        }
        let mut exchange = Exchange::new(vec![Exchanged::new(one, other)]);
        assert_eq!(exchange.pass(b"PING\r\n".to_vec()), b"PING\r\n");
    }
}

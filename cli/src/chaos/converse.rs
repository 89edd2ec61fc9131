//! Hears one worker line by line, and answers each, until its output ends.
//!
//! It decides what is a line and whether a worker waits for its answer, and not what a line means. No output of a worker can
//! make it panic, block for ever or take memory without a bound.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{
    heard::Heard,
    protocol::{LONGEST, Said, event, shown},
};

/// Hears and answers a worker until its output ends. Once `ends` is set its input ends at its next `ask` or `read`.
pub(crate) fn converse(
    output: impl Read,
    input: impl Write,
    heard: &mut Heard,
    ends: &AtomicBool,
) -> Result<(), String> {
    let (mut output, mut input) = (BufReader::new(output), Some(input));
    let mut line = Vec::new();
    loop {
        line.clear();
        // A read error is an end as any other.
        let _ = output.by_ref().take(LONGEST as u64).read_until(b'\n', &mut line);
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole && line.len() == LONGEST {
            return Err(format!(
                "it has printed a line longer than {LONGEST} bytes, {}",
                shown(&line)
            ));
        }
        let Some(answers) = &mut input else {
            // What it says after its end is nobody's.
            if is_whole { continue } else { return Ok(()) }
        };
        if !is_whole {
            return Err("it has ended by itself, before its input did".to_owned());
        }
        if !output.buffer().is_empty() {
            let said = shown(&line);
            return Err(format!(
                "it has printed more before it was answered: after {said} it is to read a line"
            ));
        }
        let said = event(&line)?;
        if ends.load(Relaxed) && matches!(said, Said::Ask {} | Said::Read {}) {
            heard.told_to_end();
            input = None;
            continue;
        }
        let answer =
            heard.take(said).map_err(|why| format!("{why}. Its line: {}", shown(&line)))?;
        // Where it is gone by now its output says so.
        let _ = writeln!(answers, "{answer}").and_then(|()| answers.flush());
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use quorlock_harness::history::record::Record;

    use super::*;
    use crate::chaos::{counter::Counter, dice::Dice, heard::Failed};

    fn heard() -> Heard {
        let (ttl, counter) = (Duration::from_secs(9), Arc::new(Counter::new(true)));
        let (record, failed, fate) = (Record::default(), Failed::default(), Arc::default());
        Heard::new(0, ttl, Dice::new(1), record, counter, failed, fate)
    }

    fn said(lines: &str) -> (Result<(), String>, String) {
        let mut heard = heard();
        let mut answers = Vec::new();
        let ended =
            converse(OneByOne(lines.as_bytes()), &mut answers, &mut heard, &AtomicBool::new(false));
        (ended, String::from_utf8(answers).unwrap())
    }

    /// A line at a time, as of one who waits for the answers.
    struct OneByOne<'a>(&'a [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let line =
                self.0.iter().position(|byte| *byte == b'\n').map_or(self.0.len(), |at| at + 1);
            let count = line.min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn each_line_is_answered_and_an_end_of_its_own_is_told() {
        let (ended, answers) = said("{\"event\":\"ask\"}\n{\"event\":\"failed\"}\n{\"event\":\"as");
        assert_eq!(answers, "ok\nok\n");
        assert!(ended.unwrap_err().contains("by itself"));
    }

    #[test]
    fn whoever_does_not_wait_or_prints_what_is_no_line_is_told() {
        let mut heard = heard();
        let flood = "{\"event\":\"failed\"}\n".repeat(100);
        let ended = converse(flood.as_bytes(), Vec::new(), &mut heard, &AtomicBool::new(false));
        assert!(ended.unwrap_err().contains("before it was answered"));
        let (ended, answers) = said(&"x".repeat(100_000));
        assert!(ended.unwrap_err().contains("longer than 4096") && answers.is_empty());
        assert!(said("{\"event\":\"ask\"}\nTraceback\n").0.unwrap_err().contains("Traceback"));
    }
}

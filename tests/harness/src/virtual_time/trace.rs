//! What a run leaves behind: its lines, if they are wanted, and a digest of them and of every step.
//!
//! Two runs with one digest did the same things at the same times in the same order. It decides nothing.

use std::fmt::{self, Write};

use quorlock::protocol::Timestamp;

pub(super) struct Trace {
    /// None where nobody will read them: writing them down costs more than the rest of a step.
    lines: Option<Vec<String>>,
    digest: Digest,
}

impl Trace {
    pub(super) fn new(keeps_lines: bool) -> Self {
        Self { lines: keeps_lines.then(Vec::new), digest: Digest(0xcbf2_9ce4_8422_2325) }
    }

    /// A task ran.
    pub(super) fn step(&mut self, task: u64, now: Timestamp) {
        self.digest.add(task);
        self.digest.add(u64::try_from(now.since_origin().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Something was said.
    pub(super) fn note(&mut self, now: Timestamp, event: impl fmt::Display) {
        // No different where lines are kept.
        let _ = write!(self.digest, "{event}");
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:?} {event}", now.since_origin()));
        }
    }

    pub(super) fn keeps_lines(&self) -> bool {
        self.lines.is_some()
    }

    pub(super) fn detail(&mut self, now: Timestamp, event: impl fmt::Display) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:?}     {event}", now.since_origin()));
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.clone().unwrap_or_default()
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.0
    }
}

struct Digest(u64);

impl Digest {
    fn add(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.add(u64::from_le_bytes(bytes) ^ (chunk.len() as u64) << 56);
        }
        Ok(())
    }
}

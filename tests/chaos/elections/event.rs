//! What a candidate tells, as a line of text. It judges nothing.

use std::time::Duration;

/// What a candidate tells.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// It has won.
    Won { candidate: usize, term: u64, at: Duration },
    /// It has acted, and its lease held still.
    Acted { candidate: usize, term: u64, at: Duration },
    /// Its work is about to end by itself.
    Resigns { candidate: usize, term: u64, at: Duration },
    /// It has seen this leader.
    Saw { candidate: usize, term: u64, text: String, asked: Duration },
}

impl Event {
    pub(super) fn tell(&self) {
        let text = match self {
            Self::Won { candidate, term, at } => {
                format!("won {candidate} {term} {}", at.as_nanos())
            }
            Self::Acted { candidate, term, at } => {
                format!("acted {candidate} {term} {}", at.as_nanos())
            }
            Self::Resigns { candidate, term, at } => {
                format!("resigns {candidate} {term} {}", at.as_nanos())
            }
            Self::Saw { candidate, term, text, asked } => {
                format!("saw {candidate} {term} {} {text}", asked.as_nanos())
            }
        };
        // On a line of its own, whatever the test runner prints.
        println!("\n{text}");
    }

    pub(super) fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let candidate = words.next()?.parse().ok()?;
        let term = words.next()?.parse().ok()?;
        let at = Duration::from_nanos(words.next()?.parse().ok()?);
        match kind {
            "won" => Some(Self::Won { candidate, term, at }),
            "acted" => Some(Self::Acted { candidate, term, at }),
            "resigns" => Some(Self::Resigns { candidate, term, at }),
            "saw" => {
                let text = words.next()?.to_owned();
                Some(Self::Saw { candidate, term, text, asked: at })
            }
            _ => None,
        }
    }
}

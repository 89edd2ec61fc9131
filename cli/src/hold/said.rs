//! What `hold` says: with `--json` an object a line, and in words to people.
//!
//! It decides the words alone. What means the same as in `run` has the same name.

use std::time::Duration;

use serde::Serialize;

use super::{lines::Refused, millis};
use crate::{
    exit::Status,
    shown::{line_of_json, plain},
    want::{Holds, Want},
};

/// One thing that has happened, or an answer. The names of its fields stay what they are.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The lease is asked for; or still waited for, for this reason.
    Waiting {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Granted {
        resource: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        also: Vec<String>,
        owner: String,
        token: Option<String>,
        slot: Option<u8>,
        term: Option<String>,
        validity_ms: u64,
    },
    /// Renewals fail, and the lease is lost soon unless one succeeds.
    Ending {
        reason: String,
        validity_ms: u64,
    },
    /// The answer to `check`.
    Held {
        validity_ms: u64,
    },
    /// The answer to `extend`.
    Extended {
        validity_ms: u64,
    },
    /// The other answer: the lease is as valid as before.
    NotExtended {
        reason: String,
        validity_ms: u64,
    },
    /// The answer to any other line.
    Refused {
        line: String,
        reason: String,
    },
    /// The last one, as each below.
    Lost {
        reason: String,
    },
    Released,
    NotReleased {
        reason: String,
    },
    /// The lease was not granted.
    Failed {
        what: Status,
        reason: String,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: &'a Event,
    /// The word behind the line that this answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<&'a str>,
}

impl Event {
    pub(super) fn granted(want: &Want, holds: &Holds) -> Self {
        let token = holds.token();
        Self::Granted {
            resource: want.resource.clone(),
            also: want.also.clone(),
            owner: holds.owner(),
            slot: holds.slot(),
            term: token.clone().filter(|_| want.elect),
            token,
            validity_ms: millis(holds.signal().validity()),
        }
    }

    /// For programs: one line.
    pub(super) fn json(&self, asked: Option<&str>) -> String {
        let line = serde_json::to_string(&Line { event: self, asked }).unwrap_or_default();
        line_of_json(&line).into_owned()
    }

    /// For people; `None` where they are told nothing.
    pub(super) fn words(&self) -> Option<String> {
        let left = |ms: &u64| format!("{:.1?}", Duration::from_millis(*ms));
        let words = match self {
            Self::Waiting { reason: None } => return None,
            Self::Waiting { reason: Some(reason) } => format!("waits for nodes: {reason}"),
            Self::Granted { resource, token, .. } => {
                let token = token.as_ref().map(|token| format!(", token {token}"));
                format!("holds `{resource}`{}", token.unwrap_or_default())
            }
            Self::Ending { reason, validity_ms } => {
                format!("ends in {}, unless a renewal succeeds: {reason}", left(validity_ms))
            }
            Self::Held { validity_ms } => format!("held for {} at least", left(validity_ms)),
            Self::Extended { validity_ms } => {
                format!("extended, held for {} at least", left(validity_ms))
            }
            Self::NotExtended { reason, .. } | Self::NotReleased { reason } => reason.clone(),
            Self::Refused { line, reason } => format!("`{line}`: {reason}"),
            Self::Lost { reason } => format!("lost: {reason}"),
            Self::Released => "released".to_owned(),
            Self::Failed { reason, .. } => reason.clone(),
        };
        Some(plain(&words).into_owned())
    }
}

/// What is wrong with a command line, without how one is written.
pub(super) fn first_of(error: &str) -> String {
    let parts = error.split("\n\n");
    let said =
        parts.take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let said = said.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let said = said.collect::<Vec<_>>().join("; ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

impl From<Refused> for Event {
    fn from(Refused { line, reason }: Refused) -> Self {
        Self::Refused { line, reason: reason.to_owned() }
    }
}

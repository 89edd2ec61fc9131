//! What `run` says of itself: in words to people, and with `--json` an object a line to programs.
//!
//! It decides the words alone. Whatever a program could want to know is an event, also where people are told nothing of it.

use serde::Serialize;

use super::told::Granted;
use crate::exit::{Failure, Status};

/// One thing that has happened. The names of its fields stay what they are.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The lease is asked for; or still waited for, for this reason.
    Waiting {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Acquired {
        owner: String,
        token: Option<String>,
        slot: Option<u8>,
        term: Option<String>,
    },
    /// By whom and how long ago, and no command was started.
    AlreadyDone {
        reason: String,
    },
    Lost {
        reason: String,
        command: Fate,
    },
    /// The work is done, and that is not on record: it may be done again in this period.
    NotSaid {
        reason: String,
    },
    /// The lease was not given back.
    NotReleased {
        reason: String,
    },
    /// The command was not started, or did not end.
    Failed {
        what: Status,
        reason: String,
    },
    /// The last one, with the exit status.
    Over {
        status: u8,
    },
}

/// What became of the command where the lease was lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    Ended,
    NotStarted,
    /// It had ended, and others were to be kept out for longer.
    WasOver,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: &'a Event,
    resource: &'a str,
}

impl Event {
    pub(crate) fn acquired(granted: &Granted, is_leader: bool) -> Self {
        Self::Acquired {
            owner: granted.owner.clone(),
            token: granted.token.clone(),
            slot: granted.slot,
            term: granted.token.clone().filter(|_| is_leader),
        }
    }

    /// For people; `None` where they are told nothing.
    pub(crate) fn words(&self, resource: &str) -> Option<String> {
        // A name may hold what a terminal obeys.
        let resource = resource.escape_debug();
        let words = match self {
            Self::Waiting { reason: Some(reason) } => format!("waits for nodes: {reason}"),
            Self::Waiting { reason: None } | Self::Acquired { .. } | Self::Over { .. } => {
                return None;
            }
            Self::Lost { reason, command: Fate::Ended } => {
                format!("`{resource}` is lost, and the command is ended: {reason}")
            }
            Self::Lost { reason, command: Fate::NotStarted } => {
                format!(
                    "`{resource}` was held, and is lost before the command was started: {reason}"
                )
            }
            Self::Lost { reason, command: Fate::WasOver } => format!(
                "`{resource}` is lost behind the end of the command, and sooner than --hold-at-least asks for: {reason}"
            ),
            Self::Failed { what: Status::Busy | Status::Broken, reason } => {
                format!("`{resource}`: {reason}")
            }
            Self::AlreadyDone { reason } => format!("`{resource}` is {reason}"),
            Self::NotSaid { reason } => {
                format!("`{resource}` is done, and may be done again in this period: {reason}")
            }
            Self::NotReleased { reason } | Self::Failed { reason, .. } => reason.clone(),
        };
        Some(words)
    }

    /// For programs: one line.
    pub(crate) fn json(&self, resource: &str) -> String {
        serde_json::to_string(&Line { event: self, resource }).unwrap_or_default()
    }
}

impl From<Failure> for Event {
    fn from(Failure { status, text }: Failure) -> Self {
        match status {
            Status::Done => Self::AlreadyDone { reason: text },
            what => Self::Failed { what, reason: text },
        }
    }
}

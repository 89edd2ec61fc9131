//! How this command ends: every status that is its own, in one list.
//!
//! It decides what a status means, and nothing about when it is used. None may clash with a meaning in shells.

use std::process::ExitCode;

use serde::Serialize;

/// A status of this command. That of a command that was run under a lease is passed on as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Done,
    /// What was looked for is not so: `doctor` has found a warning, `holder` finds nobody.
    No,
    /// `doctor` has found an error, `fleet show` a node of others.
    Bad,
    /// As `EX_USAGE` of sysexits.h.
    Usage,
    /// Too few nodes answer, as `EX_UNAVAILABLE`.
    Broken,
    /// A fault of this command or of the machine, as `EX_OSERR`.
    Failed,
    /// Somebody else has it, as `EX_TEMPFAIL`: try again later.
    Busy,
    /// The lease was lost, and the command was ended.
    Lost,
    /// The settings cannot be used, as `EX_CONFIG`.
    #[serde(rename = "settings")]
    Config,
    /// As of a shell: the command is there, and cannot be started.
    CannotRun,
    /// As of a shell: there is no such command.
    NotFound,
}

impl Status {
    const ALL: [Self; 11] = [
        Self::Done,
        Self::No,
        Self::Bad,
        Self::Usage,
        Self::Broken,
        Self::Failed,
        Self::Busy,
        Self::Lost,
        Self::Config,
        Self::CannotRun,
        Self::NotFound,
    ];

    /// The status for the number that another process of this command has ended with.
    pub(crate) fn of(code: u8) -> Self {
        let of = Self::ALL.into_iter().find(|status| status.code() == code);
        of.unwrap_or(Self::Failed)
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Bad => 2,
            Self::Usage => 64,
            Self::Broken => 69,
            Self::Failed => 71,
            Self::Busy => 75,
            Self::Lost => 76,
            Self::Config => 78,
            Self::CannotRun => 126,
            Self::NotFound => 127,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        status.code().into()
    }
}

/// Why this command ends, for people, and with which status.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl ToString) -> Self {
        Self { status, text: text.to_string() }
    }
}

//! The lines that are measured, in the order in which they stand, and what each is called.
//!
//! It decides what is beside what, and measures nothing.

/// One line of the table and of the picture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Line {
    Ping,
    One,
    FanOut,
    Classic,
    Lease,
    Permit,
    Read,
    Many,
    Extend,
    Tasks,
    Processes,
    Down,
}

/// What lines have in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Group {
    /// Without this crate.
    Without,
    Free,
    Others,
    Handover,
}

impl Group {
    pub(super) const ALL: [Self; 4] = [Self::Without, Self::Free, Self::Others, Self::Handover];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Without => "Without this crate",
            Self::Free => "Acquire and release of what is free",
            Self::Others => "The same under load, and of other kinds",
            Self::Handover => "Of what is held",
        }
    }

    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Without => "without",
            Self::Free => "free",
            Self::Others => "others",
            Self::Handover => "handover",
        }
    }
}

impl Line {
    pub(super) const ALL: [Self; 12] = [
        Self::Ping,
        Self::One,
        Self::FanOut,
        Self::Classic,
        Self::Lease,
        Self::Down,
        Self::Many,
        Self::Permit,
        Self::Read,
        Self::Extend,
        Self::Tasks,
        Self::Processes,
    ];

    pub(super) const fn group(self) -> Group {
        match self {
            Self::Ping | Self::One | Self::FanOut => Group::Without,
            Self::Classic | Self::Lease | Self::Down => Group::Free,
            Self::Many | Self::Permit | Self::Read => Group::Others,
            Self::Extend | Self::Tasks | Self::Processes => Group::Handover,
        }
    }

    /// The name in JSON.
    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::One => "one_server",
            Self::FanOut => "fan_out",
            Self::Classic => "classic",
            Self::Lease => "lease",
            Self::Permit => "permit",
            Self::Read => "read",
            Self::Many => "clients",
            Self::Extend => "renewal",
            Self::Tasks => "handover_tasks",
            Self::Processes => "handover_processes",
            Self::Down => "one_node_down",
        }
    }

    /// What it is, in no more letters than the table has room for.
    pub(super) fn text(self, clients: usize) -> String {
        match self {
            Self::Ping => "PING, a majority has answered".to_owned(),
            Self::One => "SET NX PX and DEL on one server".to_owned(),
            Self::FanOut => "the same on a majority".to_owned(),
            Self::Classic => "quorlock, classic: no tokens".to_owned(),
            Self::Lease => "quorlock: a lease with a token".to_owned(),
            Self::Permit => "a permit of a semaphore".to_owned(),
            Self::Read => "a read lease".to_owned(),
            Self::Many => format!("a lease, {clients} tasks at once"),
            Self::Extend => "a renewal".to_owned(),
            Self::Tasks => "handed over to another task".to_owned(),
            Self::Processes => "handed over to another process".to_owned(),
            Self::Down => "the same while one node is down".to_owned(),
        }
    }
}

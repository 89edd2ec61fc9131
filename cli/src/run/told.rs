//! What the process that holds the lease and the one that watches the command say to each other, a line of JSON each.
//!
//! It decides the words alone. Times are of the clock that counts while the machine sleeps, in microseconds, which both read.

use serde::{Deserialize, Serialize};

/// From the one that holds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    Granted(Granted),
    /// Nodes are waited for, and why.
    Waits {
        reason: String,
    },
    /// Renewed: the command may run until then.
    Until {
        until: u64,
    },
    /// It is not held any more, for this reason; and whether the command has been asked to end from there, since the other
    /// one did not.
    Lost {
        reason: String,
        asked: bool,
    },
    /// It has been given back, or why not.
    Over {
        left: Option<String>,
    },
    /// It was not granted.
    Failed {
        status: u8,
        text: String,
    },
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Granted {
    pub(crate) resource: String,
    pub(crate) owner: String,
    /// In classic mode there is none.
    pub(crate) token: Option<String>,
    pub(crate) slot: Option<u8>,
    pub(crate) until: u64,
    /// Of the time until then: so long before it the command is asked to end.
    pub(crate) grace_us: u64,
    /// Others are to be kept out until then, also where the command ends before, and nodes do not do so by themselves.
    pub(crate) keep_until: Option<u64>,
}

/// To it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Watched {
    /// A command is started: from now on one may run, before its group is known.
    Starts,
    /// It runs, in the process group of this leader, who was started then.
    Runs { leader: i32, started: Option<u64> },
    /// All of its group have been asked to end. None is asked twice.
    Asked,
    /// It is over, with all of its group; the lease is held for a while longer.
    Stays,
    /// It is over, with all of its group: the lease may be given back.
    Over,
    /// It was lost and is over: another campaign.
    Again,
}

pub(crate) fn line(word: &impl Serialize) -> String {
    let mut line = serde_json::to_string(word).unwrap_or_default();
    line.push('\n');
    line
}

//! What the process that holds the lease and the one that watches the command say to each other, a line of JSON each.
//!
//! It decides the words alone. Times are of the clock that counts while the machine sleeps, in microseconds, which both read.

use serde::{Deserialize, Serialize};

/// What the holder says.
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
    /// The lease is lost, for this reason; and whether the holder has asked the command to end, since the supervisor
    /// had not.
    Lost {
        reason: String,
        asked: bool,
    },
    /// The lease has been given back, or why not; and why it is not on record that the work is done, where it was to be.
    Over {
        left: Option<String>,
        unsaid: Option<String>,
    },
    /// The lease was not granted.
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
    /// How long before `until` the command is asked to end.
    pub(crate) grace_us: u64,
    /// This process keeps others out until then, also where the command ends before: the nodes alone would not.
    pub(crate) keep_until: Option<u64>,
}

/// What the supervisor says.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Watched {
    /// A command is started: from now on one may run, before its group is known.
    Starts,
    /// It runs, in the process group of this leader, which was started then.
    Runs { leader: i32, started: Option<u64> },
    /// All of its group have been asked to end. None is asked twice.
    Asked,
    /// It is over, with all of its group; the lease is held for a while longer.
    Stays,
    /// It is over, with all of its group: the lease may be given back.
    Over,
    /// The same, and its work is done.
    Done,
    /// The lease was lost and the command is over: another campaign.
    Again,
}

pub(crate) fn line(word: &impl Serialize) -> String {
    let mut line = serde_json::to_string(word).unwrap_or_default();
    line.push('\n');
    line
}

//! The contenders of the waiting scenarios by name, and where each takes part.

use std::str::FromStr;

use super::case::Case;

/// The contenders of the waiting scenarios.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Who {
    /// A mutex in one process: what waiting can be at best.
    Local,
    /// The bare fan-out. It cannot wait: it runs alone, and says what a quorum costs.
    Floor,
    Quorlock,
    /// The same with lingering grants.
    Linger,
    Classic,
    Rslock,
    Redlock,
    NodeRedlock,
}

impl Who {
    pub(crate) const ALL: [Self; 8] = [
        Self::Local,
        Self::Floor,
        Self::Quorlock,
        Self::Linger,
        Self::Classic,
        Self::Rslock,
        Self::Redlock,
        Self::NodeRedlock,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Local => "tokio::sync::Mutex",
            Self::Floor => "fan-out, alone",
            Self::Quorlock => "quorlock",
            Self::Linger => "quorlock, linger",
            Self::Classic => "quorlock, classic",
            Self::Rslock => "rslock 0.10",
            Self::Redlock => "redlock 2.0",
            Self::NodeRedlock => "node-redlock 5",
        }
    }

    /// The name on the command line, in the keys and in the results.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Floor => "floor",
            Self::Quorlock => "quorlock",
            Self::Linger => "linger",
            Self::Classic => "classic",
            Self::Rslock => "rslock",
            Self::Redlock => "redlock",
            Self::NodeRedlock => "node-redlock",
        }
    }

    pub(crate) fn takes_part(self, case: Case) -> bool {
        use Case::{
            Behind, HotProcesses, HotTasks, Linger, OverClients, OverProcesses, OverTasks, Queue,
            Waking,
        };
        match self {
            Self::Quorlock | Self::Classic | Self::Rslock => true,
            // It knows of no server.
            Self::Local => !matches!(case, OverClients | OverProcesses | Behind),
            Self::Floor => !matches!(case, Queue | Waking | Behind),
            Self::Linger => case == Linger,
            // It blocks a thread for each waiter, and opens ten connections for each attempt.
            Self::Redlock => matches!(case, OverTasks | OverClients | HotTasks),
            // One process of Node is one set of connections here.
            Self::NodeRedlock => {
                matches!(case, OverTasks | OverProcesses | HotTasks | HotProcesses | Behind)
            }
        }
    }

    /// Whether it sends `SET` by itself. Otherwise the `SET`s that a server counts are of its scripts.
    pub(crate) const fn sends_set(self) -> bool {
        matches!(self, Self::Floor | Self::Classic | Self::Rslock | Self::Redlock)
    }
}

impl FromStr for Who {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|who| who.id() == name).ok_or(())
    }
}

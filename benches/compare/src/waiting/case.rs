//! What is measured of waiting: the scenarios by name, and how many processes, clients and tasks each has.

use std::str::FromStr;

use super::who::Who;

/// The waiting scenarios by name. All are on five servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Case {
    OverTasks,
    OverClients,
    OverProcesses,
    HotTasks,
    HotClients,
    HotProcesses,
    Spread,
    Waking,
    Queue,
    Behind,
    Linger,
}

/// How many of each ask: `clients` are sets of connections, and the tasks of a process share them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Layout {
    pub(crate) processes: usize,
    /// Of each process.
    pub(crate) clients: usize,
    /// Of each process.
    pub(crate) tasks: usize,
    /// Of all.
    pub(crate) resources: usize,
}

impl Case {
    pub(crate) const ALL: [Self; 11] = [
        Self::OverTasks,
        Self::OverClients,
        Self::OverProcesses,
        Self::HotTasks,
        Self::HotClients,
        Self::HotProcesses,
        Self::Spread,
        Self::Waking,
        Self::Queue,
        Self::Behind,
        Self::Linger,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::OverTasks => "hand-over between two tasks of one process",
            Self::OverClients => "hand-over between two sets of connections of one process",
            Self::OverProcesses => "hand-over between two processes",
            Self::HotTasks => "one resource, held 2 ms: 16 tasks of one process",
            Self::HotClients => "one resource, held 2 ms: 16 sets of connections of one process",
            Self::HotProcesses => "one resource, held 2 ms: 8 processes with 4 tasks each",
            Self::Spread => "16 resources, held 2 ms: 256 tasks of one process",
            Self::Waking => "one resource, held 2 ms: 50 sets of connections wake at once",
            Self::Queue => "1,000 waiters on one resource in one process",
            Self::Behind => "waiters behind a lease that stays",
            Self::Linger => "acquire and release of one resource over and over",
        }
    }

    /// The name on the command line and in the results.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::OverTasks => "over-tasks",
            Self::OverClients => "over-clients",
            Self::OverProcesses => "over-processes",
            Self::HotTasks => "hot-tasks",
            Self::HotClients => "hot-clients",
            Self::HotProcesses => "hot-processes",
            Self::Spread => "spread",
            Self::Waking => "waking",
            Self::Queue => "queue",
            Self::Behind => "behind",
            Self::Linger => "linger",
        }
    }

    /// The layout for this contender. One that knows no other process has all tasks in one; one that cannot wait is
    /// alone.
    pub(crate) const fn layout(self, who: Who) -> Layout {
        let (processes, clients, tasks, resources) = match self {
            Self::OverTasks => (1, 1, 2, 1),
            Self::OverClients => (1, 2, 2, 1),
            Self::OverProcesses | Self::Linger | Self::Behind => (2, 1, 1, 1),
            Self::HotTasks => (1, 1, 16, 1),
            Self::HotClients => (1, 16, 16, 1),
            Self::HotProcesses => (8, 1, 4, 1),
            Self::Spread => (1, 1, 256, 16),
            Self::Waking => (1, 50, 50, 1),
            Self::Queue => (1, 1, 1000, 1),
        };
        match who {
            Who::Local => Layout { processes: 1, clients: 1, tasks: processes * tasks, resources },
            Who::Floor => Layout { processes: 1, clients: 1, tasks: resources, resources },
            _ => Layout { processes, clients, tasks, resources },
        }
    }
}

impl FromStr for Case {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|case| case.id() == name).ok_or(())
    }
}

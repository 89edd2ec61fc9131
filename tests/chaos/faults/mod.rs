//! The faults of a node, by family: its process, its clients, its data, its limits.
//!
//! Each is done to one node, lasts for a bounded time and is undone before it returns. It says whether it was felt,
//! as far as a server can tell. The nemesis decides which node to harm, and when.

mod aim;
mod clients;
mod data;
mod limits;
mod process;

use std::{sync::Mutex, thread, time::Duration};

use quorlock_harness::{Cluster, Server, eventually, redis};

use super::{MS, SECOND};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Fault {
    /// kill -9, and back with its append-only file.
    Restart,
    /// kill -9, and back without its data.
    EmptyRestart,
    /// SIGSTOP, and SIGCONT.
    Stop,
    /// Every connection closed, over and over.
    KillClients,
    PauseClients,
    PauseWrites,
    /// Another password than the clients have, and none again.
    Password,
    FlushScripts,
    FlushAll,
    /// Two databases exchanged, and back.
    SwapDb,
    /// A replica of an empty server, and a master again.
    FollowStranger,
    /// A replica of an older copy of itself, and a master again.
    FollowCopy,
    DebugSleep,
    MaxMemory,
    MinReplicas,
}

impl Fault {
    /// All that a minority may suffer.
    pub(crate) const ALL: [Self; 15] = [
        Self::Restart,
        Self::EmptyRestart,
        Self::Stop,
        Self::KillClients,
        Self::PauseClients,
        Self::PauseWrites,
        Self::Password,
        Self::FlushScripts,
        Self::FlushAll,
        Self::SwapDb,
        Self::FollowStranger,
        Self::FollowCopy,
        Self::DebugSleep,
        Self::MaxMemory,
        Self::MinReplicas,
    ];

    /// The faults that plain Redlock, which has no admission, bears too: a node forgets only while it stays away.
    pub(crate) fn classic() -> Vec<Self> {
        let borne = |kind: &Self| !kind.forgets() || *kind == Self::EmptyRestart;
        Self::ALL.into_iter().filter(borne).collect()
    }

    /// Whether the node forgets locks that it had set.
    pub(crate) const fn forgets(self) -> bool {
        matches!(
            self,
            Self::EmptyRestart
                | Self::FlushAll
                | Self::SwapDb
                | Self::FollowStranger
                | Self::FollowCopy
        )
    }
}

/// Those of these kinds that `QUORLOCK_CHAOS_FAULTS` names, with commas between, or all of them.
pub(crate) fn chosen(kinds: &[Fault]) -> Vec<Fault> {
    let Ok(names) = std::env::var("QUORLOCK_CHAOS_FAULTS") else { return kinds.to_vec() };
    let known = |name: &&str| Fault::ALL.iter().any(|kind| format!("{kind:?}") == **name);
    assert!(
        names.split(',').all(|name| known(&name)),
        "one of {names} is none of {:?}",
        Fault::ALL
    );
    let named = |kind: &&Fault| names.split(',').any(|name| name == format!("{kind:?}"));
    kinds.iter().filter(named).copied().collect()
}

/// The nodes, and the servers beside them that some faults need.
pub(crate) struct Scene<'a> {
    cluster: &'a Cluster,
    ttl: Duration,
    /// How long a node that comes back empty stays away.
    away: Duration,
    /// Longer than a node is quarantined.
    quarantine: Duration,
    stranger: Server,
    /// Of one node at a time.
    copy: Mutex<Server>,
}

/// Servers that every fault can be done to.
pub(crate) fn servers(n: usize) -> Cluster {
    Cluster::start_with(n, |_, builder| {
        // A node that is restarted with its keys must have written them down.
        let builder = builder.append_only(true).arg("enable-debug-command", "local");
        builder.arg("repl-diskless-sync", "no")
    })
}

impl<'a> Scene<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        ttl: Duration,
        away: Duration,
        quarantine: Duration,
    ) -> Self {
        let beside = || Server::builder().arg("repl-diskless-sync", "no").start();
        let (stranger, copy) = (beside(), Mutex::new(beside()));
        Self { cluster, ttl, away, quarantine, stranger, copy }
    }

    pub(crate) const fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Does a fault to a node and undoes it. Whether the node has felt it.
    pub(crate) fn strike(&self, fault: Fault, node: usize) -> bool {
        let server = &self.cluster[node];
        let aim = || aim::aim(self.cluster, node);
        match fault {
            Fault::Restart => process::restart(server),
            Fault::EmptyRestart => {
                aim();
                process::restart_empty(server, self.away)
            }
            Fault::Stop => process::stop(server, self.a_while()),
            Fault::KillClients => clients::kill(server, short()),
            Fault::PauseClients => clients::pause(server, "ALL", self.a_while()),
            Fault::PauseWrites => clients::pause(server, "WRITE", self.a_while()),
            Fault::Password => clients::password(server, self.a_while()),
            Fault::FlushScripts => data::flush_scripts(server, short()),
            Fault::FlushAll => {
                aim();
                data::flush_all(server)
            }
            Fault::SwapDb => {
                // Sometimes for so long that it is admitted with the other database.
                let long = random(2) == 0;
                data::swap_db(server, if long { self.quarantine + short() } else { short() }, aim)
            }
            Fault::FollowStranger => {
                aim();
                data::follow_stranger(server, &self.stranger)
            }
            Fault::FollowCopy => data::follow_copy(server, &self.copy, aim),
            Fault::DebugSleep => limits::debug_sleep(server, self.a_while()),
            Fault::MaxMemory => limits::max_memory(server, self.a_while()),
            Fault::MinReplicas => limits::min_replicas(server, self.a_while()),
        }
    }

    /// Sometimes longer than a lease lives, so that late commands meet later leases.
    fn a_while(&self) -> Duration {
        if random(3) == 0 { self.ttl + short() } else { short() }
    }
}

/// How a server has answered so far with errors of this kind, such as `OOM`.
fn errors(server: &Server, kind: &str) -> u64 {
    let info = info(server, "errorstats");
    let prefix = format!("errorstat_{kind}:count=");
    let count = info.lines().find_map(|line| line.strip_prefix(&prefix));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

fn info(server: &Server, section: &str) -> String {
    redis::from_redis_value(server.run(&["INFO", section])).unwrap()
}

/// Sets something, waits, sets it back, and says whether errors of this kind came of it.
fn setting(
    server: &Server,
    name: &str,
    [during, after]: [&str; 2],
    time: Duration,
    error: &str,
) -> bool {
    let before = errors(server, error);
    server.run(&["CONFIG", "SET", name, during]);
    thread::sleep(time);
    undo(|| server.try_run(&["CONFIG", "SET", name, after]).is_ok());
    errors(server, error) > before
}

/// A fault that is not undone would not be bounded.
fn undo(done: impl FnMut() -> bool) {
    eventually("the fault is undone", 20 * SECOND, done);
}

pub(crate) fn short() -> Duration {
    MS * u32::try_from(50 + random(400)).unwrap()
}

pub(crate) fn random(below: usize) -> usize {
    usize::try_from(rand::random::<u32>()).unwrap() % below
}

//! What a log is told of nodes, of quorums and of clocks, as `engine/watch.rs` sees them.
//!
//! It decides nothing but words and levels, each in one line of a list.

use std::{fmt::Display, time::Duration};

use crate::protocol::{AdmissionBlock, NodeId, Notice};

/// A node, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeShown<'a> {
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) node: NodeId,
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) address: &'a str,
}

/// Lines of one node.
macro_rules! of_nodes {
    ($($(#[$if:meta])? $level:ident $name:ident($($argument:ident: $type:ty),*) [$($field:tt)*] $text:literal;)*) => {$(
        $(#[$if])?
        pub(crate) fn $name(shown: NodeShown<'_>, $($argument: $type),*) {
            event!($name, $level, node = shown.node.index(), address = shown.address, $($field)* $text);
        }
    )*};
}

of_nodes! {
    #[cfg(feature = "redis")] TRACE node_connected(version: &str) [version,] "node connected";
    #[cfg(feature = "redis")] TRACE node_unreachable(reason: &str) [reason,] "node unreachable";
    #[cfg(feature = "redis")] INFO no_line(reason: &str) [reason,] "node without a line";
    INFO node_votes(version: Option<&str>, notice: Notice) [version, times = notice.times,] "node votes";
    WARN node_down(reason: &str, attempts: u64, notice: Notice)
        [reason, attempts, times = notice.times, lasted = ?notice.lasted,] "node down";
    WARN node_silent(notice: Notice) [times = notice.times, lasted = ?notice.lasted,] "node does not answer yet";
    ERROR node_refused(refusal: &dyn Display, notice: Notice)
        [%refusal, times = notice.times, lasted = ?notice.lasted,] "node refused";
    WARN node_quarantined(quarantine: Duration, notice: Notice)
        [?quarantine, times = notice.times,] "node may have forgotten leases and does not vote yet";
    WARN node_held_back(hold: AdmissionBlock, notice: Notice)
        [?hold, times = notice.times, lasted = ?notice.lasted,] "node cannot be admitted yet";
    INFO node_admitted(floor: u64, times: u64) [floor, times,] "node admitted";
    WARN max_ttl_raised(from: Duration, to: Duration)
        [?from, ?to,] "this process raises the longest ttl of the fleet";
}

/// Lines of all nodes together, and of this process.
macro_rules! of_fleet {
    ($($level:ident $name:ident($($argument:ident: $type:ty),*) [$($field:tt)*] $text:literal;)*) => {$(
        pub(crate) fn $name($($argument: $type),*) {
            event!($name, $level, $($field)* $text);
        }
    )*};
}

// `missing` names the nodes that do not vote. Of `nobody_votes` there is one line for all nodes, and its `max_ttl` is that of
// the fleet: another process may have told the nodes a longer one than this process has, and so made them wait for longer.
of_fleet! {
    INFO change_sealed(wait: Duration) [?wait,] "the old nodes are sealed; the new ones are opened after this wait";
    INFO change_ended() [] "the new nodes are open; the old list is refused";
    WARN own_clock_jumped(times: u64) [times,] "the clock of this process jumped against those of most nodes";
    ERROR quorum_lost(votes: usize, needed: usize, missing: &dyn Display, notice: Notice)
        [votes, needed, %missing, times = notice.times, lasted = ?notice.lasted,] "quorum lost";
    ERROR no_quorum_yet(votes: usize, needed: usize, missing: &dyn Display, notice: Notice)
        [votes, needed, %missing, lasted = ?notice.lasted,] "no quorum yet";
    INFO quorum_there(votes: usize, needed: usize) [votes, needed,] "quorum there";
    INFO quorum_back(votes: usize, needed: usize, times: u64) [votes, needed, times,] "quorum back";
    INFO quarantine_over(votes: usize, needed: usize, times: u64)
        [votes, needed, times,] "quarantine over, a quorum of nodes votes";
    WARN nobody_votes(waiting: usize, nodes: usize, quarantine: Duration, max_ttl: Duration, notice: Notice)
        [waiting, nodes, ?quarantine, ?max_ttl, times = notice.times, lasted = ?notice.lasted,]
        "{waiting} of {nodes} nodes are new or may have forgotten leases: nobody can acquire for up to {quarantine:.1?}, and acquires that may wait for longer do";
}

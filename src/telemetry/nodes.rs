//! What a log is told of nodes, of quorums and of clocks, as `engine/watch.rs` sees them.
//!
//! It decides nothing but words and levels.

use std::{fmt::Display, time::Duration};

use crate::protocol::{AdmissionBlock, NodeId, Notice};

/// A node, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeShown<'a> {
    pub(crate) node: NodeId,
    pub(crate) address: &'a str,
}

/// A connection was made and checked.
#[cfg(feature = "redis")]
pub(crate) fn node_connected(node: NodeId, address: &str, version: &str) {
    event!(TRACE, node = node.index(), address, version, "node connected");
}

/// One attempt to connect has failed.
#[cfg(feature = "redis")]
pub(crate) fn node_unreachable(node: NodeId, address: &str, reason: &str) {
    event!(TRACE, node = node.index(), address, reason, "node unreachable");
}

/// Whoever waits for a resource is not woken by it. Said once.
#[cfg(feature = "redis")]
pub(crate) fn no_line(node: NodeId, address: &str, reason: &str) {
    event!(INFO, node = node.index(), address, reason, "node without a line");
}

/// This process counts its votes, from now on.
pub(crate) fn node_votes(shown: NodeShown<'_>, version: Option<&str>, notice: Notice) {
    let (NodeShown { node, address }, times) = (shown, notice.times);
    event!(INFO, node = node.index(), address, version, times, "node votes");
}

pub(crate) fn node_down(shown: NodeShown<'_>, reason: &str, attempts: u64, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(WARN, node = node.index(), address, reason, attempts, times, ?lasted, "node down");
}

pub(crate) fn node_silent(shown: NodeShown<'_>, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(WARN, node = node.index(), address, times, ?lasted, "node does not answer yet");
}

pub(crate) fn node_refused(shown: NodeShown<'_>, refusal: &dyn Display, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(ERROR, node = node.index(), address, %refusal, times, ?lasted, "node refused");
}

pub(crate) fn node_quarantined(shown: NodeShown<'_>, quarantine: Duration, notice: Notice) {
    let (NodeShown { node, address }, times) = (shown, notice.times);
    event!(
        WARN,
        node = node.index(),
        address,
        ?quarantine,
        times,
        "node may have forgotten leases and does not vote yet"
    );
}

pub(crate) fn node_held_back(shown: NodeShown<'_>, hold: AdmissionBlock, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(
        WARN,
        node = node.index(),
        address,
        ?hold,
        times,
        ?lasted,
        "node cannot be admitted yet"
    );
}

/// This process has admitted it.
pub(crate) fn node_admitted(shown: NodeShown<'_>, floor: u64, times: u64) {
    let NodeShown { node, address } = shown;
    event!(INFO, node = node.index(), address, floor, times, "node admitted");
}

/// Leases of this process are longer than those that the nodes knew of, and so are the quarantines of all processes from now
/// on, until an operator lowers it.
pub(crate) fn max_ttl_raised(shown: NodeShown<'_>, from: Duration, to: Duration) {
    let NodeShown { node, address } = shown;
    event!(
        WARN,
        node = node.index(),
        address,
        ?from,
        ?to,
        "this process raises the longest ttl of the fleet"
    );
}

pub(crate) fn own_clock_jumped(times: u64) {
    event!(WARN, times, "the clock of this process jumped against those of most nodes");
}

/// So few nodes vote that nothing can be acquired or renewed.
pub(crate) fn quorum_lost(votes: usize, needed: usize, missing: &dyn Display, notice: Notice) {
    let Notice { times, lasted, .. } = notice;
    event!(ERROR, votes, needed, %missing, times, ?lasted, "quorum lost");
}

/// There has been none yet in this process.
pub(crate) fn no_quorum_yet(votes: usize, needed: usize, missing: &dyn Display, notice: Notice) {
    let lasted = notice.lasted;
    event!(ERROR, votes, needed, %missing, ?lasted, "no quorum yet");
}

/// Behind that: the first one of this process.
pub(crate) fn quorum_there(votes: usize, needed: usize) {
    event!(INFO, votes, needed, "quorum there");
}

/// So many nodes are in quarantine that nobody can acquire: one line for all of them. `max_ttl` is that of the fleet,
/// since another process may have told the nodes a longer one than this process has, and so made them wait for longer.
pub(crate) fn nobody_votes(
    waiting: usize,
    nodes: usize,
    quarantine: Duration,
    max_ttl: Duration,
    notice: Notice,
) {
    let Notice { times, lasted, .. } = notice;
    event!(
        WARN,
        waiting,
        nodes,
        ?quarantine,
        ?max_ttl,
        times,
        ?lasted,
        "{waiting} of {nodes} nodes are new or may have forgotten leases: nobody can acquire for up to {quarantine:.1?}, \
         and acquires that may wait for longer do"
    );
}

pub(crate) fn quarantine_over(votes: usize, needed: usize, times: u64) {
    event!(INFO, votes, needed, times, "quarantine over, a quorum of nodes votes");
}

pub(crate) fn quorum_back(votes: usize, needed: usize, times: u64) {
    event!(INFO, votes, needed, times, "quorum back");
}

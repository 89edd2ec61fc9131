//! Goal: every published objection to Redlock, and every promise about leases, fencing tokens and admission,
//! is an executable scenario on real servers.
//!
//! Method: real kills, empty restarts, pauses, rollbacks, clock jumps and late replies. Where a schedule breaks
//! plain Redlock, the same schedule is run twice: with `classic()` two holders are asserted, with the default
//! they are excluded. Times are measured; `late` and `fields` look after a fixed time, by which what was late must
//! have been dealt with.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod beside_readers;
mod changes;
mod client_pause;
mod clock;
mod cost;
mod counters;
mod delayed;
mod deployment;
mod elections;
mod fast_paths;
mod fields;
mod grants;
mod guard;
mod held;
mod identity;
mod idle;
mod joining;
mod kinds;
mod late;
mod late_commands;
mod late_renewals;
mod lead;
mod lines;
mod lock_delay;
mod loss;
mod lost_entries;
mod marked;
mod members;
mod neighbours;
mod notes;
mod overload;
mod overtaken;
mod own_clock;
mod pending;
mod prolonged;
mod quarantines;
mod ranges;
mod reader_votes;
mod readers;
mod records;
mod restarts;
mod restore;
mod retransmitted;
mod rights;
mod rolling;
mod scripts;
mod short_lived;
mod shutdown;
mod slot_votes;
mod standing;
#[path = "../../src/node/redis/texts.rs"]
#[allow(dead_code, reason = "each test program uses some")]
mod texts;
mod together;
mod tokens;

use std::time::Duration;

use quorlock::{Builder, Lease, Redlock, node::NodeState};
use quorlock_harness::{Cluster, Server, all_ready, connected as ready, eventually};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);
/// No server of a test that is not about it takes so long, on however busy a machine.
const NODE_TIMEOUT: Duration = Duration::from_millis(400);

/// The key of a node's marker.
const MARKER: &str = "quorlock:node";

/// Settings with leases as long as `ttl` at most.
fn settings(cluster: &Cluster, ttl: Duration) -> Builder {
    Redlock::builder()
        .nodes(cluster.urls())
        .connect_timeout(10 * SECOND)
        .node_timeout(NODE_TIMEOUT)
        .close_timeout(20 * SECOND)
        .ttl(ttl)
        .max_ttl(ttl)
}

/// How long a node is kept from voting, by the settings above.
fn quarantine(ttl: Duration) -> Duration {
    ttl + ttl / 10 + 2 * NODE_TIMEOUT
}

/// The same where no node timeout is set.
fn quarantine_by_default(ttl: Duration) -> Duration {
    ttl + ttl / 10 + 200 * MS
}

/// Makes new nodes ready at once, as if their deployment were long past.
fn admit(cluster: &Cluster, max_ttl: Duration) {
    quorlock_harness::admit(settings(cluster, max_ttl));
}

/// Servers that have been admitted.
fn admitted(n: usize, max_ttl: Duration) -> Cluster {
    let cluster = Cluster::start(n);
    admit(&cluster, max_ttl);
    cluster
}

/// Whether the key stands on a server with this lease's owner.
fn has_key(server: &Server, lease: &Lease) -> bool {
    server.get(lease.resource().as_bytes()).as_deref() == Some(lease.owner().to_hex().as_slice())
}

fn is_quarantined(redlock: &Redlock, node: usize) -> bool {
    matches!(redlock.nodes()[node].state, NodeState::Quarantined { .. })
}

/// Acquires without a vote of the node at `without`, which has another holder's key meanwhile.
#[track_caller]
fn acquire_without(cluster: &Cluster, redlock: &Redlock, resource: &str, without: usize) -> Lease {
    cluster[without].set(resource, "somebody else", None);
    let lease = redlock.try_acquire(resource).without_renewal().blocking().unwrap();
    for (index, server) in cluster.iter().enumerate().filter(|(index, _)| *index != without) {
        eventually("the others have the key", SOON, || has_key(server, &lease));
        assert_ne!(index, without);
    }
    assert!(cluster[without].del(resource));
    lease
}

/// Gives the client the votes of nodes 0 and 1, so that it knows their clocks and how high they have counted. A round
/// that other nodes win may end before their answers come.
fn has_heard(cluster: &Cluster, client: &Redlock) {
    acquire_without(cluster, client, "warm", 2).blocking_release().unwrap();
}

/// The number of the lease's token.
#[track_caller]
fn token(lease: &Lease) -> u64 {
    lease.token().expect("a fencing token").get()
}

/// The value below which `share` of the sorted samples lie.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[index]
}

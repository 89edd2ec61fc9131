//! Clients whose nodes all vote.
//!
//! It must never return before they do: a node that does not vote yet would take part in no round.

use std::time::Duration;

use quorlock::{Builder, Redlock, node::NodeState};

use crate::cluster::eventually;

/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

/// Connects, and waits until every node is ready to vote.
#[track_caller]
pub fn connected(builder: Builder) -> Redlock {
    let redlock = builder.blocking_connect().unwrap_or_else(|error| panic!("{}", chain(&error)));
    all_ready(&redlock);
    redlock
}

/// Waits until every node is ready to vote.
#[track_caller]
pub fn all_ready(redlock: &Redlock) {
    eventually("every node is ready", SOON, || {
        redlock.nodes().iter().all(|node| node.state == NodeState::Ready)
    });
}

/// Makes new nodes ready at once, as if their deployment were long past.
#[track_caller]
pub fn admit(settings: Builder) {
    // A server that has just been started may be slow to answer.
    let redlock =
        connected(settings.danger_skip_quarantine().connect_timeout(SOON).close_timeout(SOON));
    redlock.blocking_close().expect("nothing is under way");
}

/// An error with its sources, as a user would print it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

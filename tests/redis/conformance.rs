//! Goal: `MemoryNode` answers as a real server does.
//!
//! Method: each case runs against both through the same public API and writes down what it saw. Both
//! transcripts are compared with what is expected, and with each other; where they could only agree by
//! chance they would have to be equal line by line. Here is what runs a case, and the words in which it writes.

mod backend;
mod elections;
mod extensions;
mod holders;
mod keys;
mod labels;
mod outages;
mod ranges;
mod readers;
mod semaphore;
mod together;

use std::time::Duration;

use quorlock::{
    AcquireError, Builder, ExtendError, Lease, NodeOutcome, Redlock, ReleaseError,
    node::{MemoryNode, NodeError, NodeState},
};
use quorlock_harness::{Server, connected};

use self::backend::Backend;
use super::{SECOND, patient, plain};

type Case = fn(&dyn Backend, &Clients, &mut Vec<String>);

/// Two clients of one node, and the first by itself: what it holds it knows without asking.
struct Clients {
    redlock: Redlock,
    other: Redlock,
}

/// Who asks, and who asks where that one need not.
trait Asks {
    fn in_order(&self) -> (&Redlock, &Redlock);
}

impl Asks for Clients {
    fn in_order(&self) -> (&Redlock, &Redlock) {
        (&self.redlock, &self.other)
    }
}

impl Asks for Redlock {
    fn in_order(&self) -> (&Redlock, &Redlock) {
        (self, self)
    }
}

impl std::ops::Deref for Clients {
    type Target = Redlock;

    fn deref(&self) -> &Redlock {
        &self.redlock
    }
}

/// Runs a case against both kinds of node, in both modes, and compares.
#[track_caller]
fn conform(case: Case, expected: &[&str]) {
    conform_with(2 * SECOND, case, expected);
}

#[track_caller]
fn conform_with(node_timeout: Duration, case: Case, expected: &[&str]) {
    for builder in [plain().classic(), patient()] {
        conform_in(&builder.node_timeout(node_timeout), case, expected);
    }
}

/// In one mode.
#[track_caller]
fn conform_in(builder: &Builder, case: Case, expected: &[&str]) {
    let transcript = |node: &dyn Backend| {
        let client = || connected(builder.clone().node(node.spec()));
        let clients = Clients { redlock: client(), other: client() };
        let mut seen = Vec::new();
        case(node, &clients, &mut seen);
        seen
    };
    let (memory, server) = (transcript(&MemoryNode::new()), transcript(&Server::start()));
    assert_eq!(server, expected, "the real server, {builder:?}");
    assert_eq!(memory, expected, "the node in memory, {builder:?}");
}

/// An acquire in words. A holder is shown as text, a remaining time in whole half minutes, rounded up.
fn acquired(result: &Result<Lease, AcquireError>) -> String {
    match result {
        Ok(_) => "granted".to_owned(),
        Err(AcquireError::Contended { nodes, .. }) => {
            let (_, denial) = nodes.denials().next().expect("the one node's denial");
            let holder = denial.holder.as_deref().map(|holder| holder.escape_ascii().to_string());
            let half_minutes = |left: Duration| left.as_nanos().div_ceil(30_000_000_000) * 30;
            match denial.remaining {
                Some(left) => format!("held by {holder:?} for up to {} s", half_minutes(left)),
                None => format!("held by {holder:?} for ever"),
            }
        }
        Err(AcquireError::NoQuorum { nodes, .. }) => {
            let outcome = &nodes.iter().next().expect("the one node's report").outcome;
            match outcome {
                NodeOutcome::Failed(NodeError::NotConnected { .. }) => "not connected".to_owned(),
                NodeOutcome::Failed(NodeError::TimedOut) => "timed out".to_owned(),
                NodeOutcome::Failed(NodeError::ConnectionLost { .. }) => "cut off".to_owned(),
                other => format!("{other:?}"),
            }
        }
        Err(other) => other.to_string(),
    }
}

fn released(lease: Lease) -> &'static str {
    match lease.blocking_release() {
        Ok(()) => "released",
        Err(ReleaseError::AlreadyEnded { .. }) => "already ended",
        Err(ReleaseError::Unconfirmed { .. }) => "unconfirmed",
        Err(_) => "unknown",
    }
}

fn extended(lease: &Lease) -> String {
    match futures::executor::block_on(lease.extend()) {
        Ok(validity) => format!("extended, nearly a minute: {}", validity > 50 * SECOND),
        Err(ExtendError::Lost(lost)) => format!("lost: {:?}", lost.reason),
        Err(ExtendError::InDoubt { validity, .. }) => {
            format!("in doubt, still valid: {}", validity > 40 * SECOND)
        }
        Err(other) => other.to_string(),
    }
}

fn state(redlock: &Redlock) -> String {
    match &redlock.nodes()[0].state {
        NodeState::Down { .. } => "down".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Asks the node: where the client itself holds it, by the other one.
fn try_it(clients: &impl Asks, resource: impl AsRef<[u8]>) -> Result<Lease, AcquireError> {
    let ask = |redlock: &Redlock| redlock.try_acquire(&resource).ttl(60 * SECOND).blocking();
    let (redlock, other) = clients.in_order();
    match ask(redlock) {
        Err(error) if error.nodes().is_some_and(|nodes| nodes.held_here().is_some()) => ask(other),
        answer => answer,
    }
}

//! Goal: through the public API `MemoryNode` answers as a real server does, in both modes, also where it is killed, restarted
//! empty, or stopped for a while. What a node decides is said and compared in `src/node/alike_test`.
//!
//! Method: each case runs against both and writes down what it saw. Both transcripts are compared with what is expected.

mod backend;
mod outages;
mod ranges;

use std::time::Duration;

use quorlock::{
    Ability, AcquireError, Builder, ExtendError, Holder, Lease, NodeOutcome, Redlock, ReleaseError,
    Unsupported,
    node::{MemoryNode, NodeError, NodeState},
    protocol::{Sighting, Timestamp},
};
use quorlock_harness::{Server, connected};

use self::backend::Backend;
use super::{Monitor, SECOND, patient, plain};

type Case = fn(&Backend, &Clients, &mut Vec<String>);

/// Two clients of one node: the first knows without asking what it holds itself.
struct Clients {
    redlock: Redlock,
    other: Redlock,
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
    let transcript = |node: &Backend| {
        let client = || connected(builder.clone().node(node.spec()));
        let clients = Clients { redlock: client(), other: client() };
        let mut seen = Vec::new();
        case(node, &clients, &mut seen);
        seen
    };
    let memory = transcript(&Backend::Memory(MemoryNode::new()));
    let server = transcript(&Backend::Server(Box::new(Server::start())));
    assert_eq!(server, expected, "the real server, {builder:?}");
    assert_eq!(memory, expected, "the node in memory, {builder:?}");
}

/// What is left, in whole half minutes, rounded up.
fn left(remaining: Option<Duration>) -> String {
    let half_minutes = |left: Duration| left.as_nanos().div_ceil(30_000_000_000) * 30;
    remaining.map_or_else(|| "ever".to_owned(), |left| format!("{} s", half_minutes(left)))
}

/// An acquire in words. A holder is shown as text.
fn acquired(result: &Result<Lease, AcquireError>) -> String {
    match result {
        Ok(_) => "granted".to_owned(),
        Err(AcquireError::Contended { nodes, .. }) => {
            let (_, denial) = nodes.denials().next().expect("the one node's denial");
            let holder = denial.holder.as_deref().unwrap_or(b"none").escape_ascii();
            format!("held by {holder} for {}", left(denial.remaining))
        }
        Err(AcquireError::NoQuorum { nodes, .. }) => {
            let outcome = &nodes.iter().next().expect("the one node's report").outcome;
            match outcome {
                NodeOutcome::Failed(NodeError::NotConnected { .. }) => "not connected".to_owned(),
                NodeOutcome::Failed(NodeError::TimedOut) => "timed out".to_owned(),
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
        Err(ExtendError::Lost(lost)) => {
            format!("lost: {:?}, {:?} left", lost.reason, lease.validity())
        }
        Err(ExtendError::InDoubt { validity, .. }) => {
            format!("in doubt, still valid: {}", validity > 40 * SECOND)
        }
        Err(other) => other.to_string(),
    }
}

fn holder(redlock: &Redlock) -> String {
    match redlock.blocking_holder("r") {
        Ok(Holder::Held(by)) => {
            let value = by.value.escape_ascii();
            format!("{value} for {}, owner: {}", left(by.remaining), by.owner.is_some())
        }
        Ok(Holder::Unclear { nodes }) => match &nodes[0].seen {
            Err(error) => format!("unclear, sent: {}", error.sent()),
            Ok(Sighting::Held(key)) => format!("unclear: {key:?}"),
            Ok(Sighting::Free) => "unclear: free".to_owned(),
        },
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

fn state(redlock: &Redlock) -> String {
    match &redlock.nodes()[0].state {
        NodeState::Down { .. } => "down".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Asks the node: where the client itself holds it, by the other one.
fn try_it(clients: &Clients, resource: &str) -> Result<Lease, AcquireError> {
    let ask = |redlock: &Redlock| redlock.try_acquire(resource).ttl(60 * SECOND).blocking();
    match ask(&clients.redlock) {
        Err(error) if error.nodes().is_some_and(|nodes| nodes.held_here().is_some()) => {
            ask(&clients.other)
        }
        answer => answer,
    }
}

#[test]
fn a_lease_is_granted_denied_extended_released_and_lost() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            let owner = lease.owner().to_string();
            node.set(b"r", owner.as_bytes(), Some(25_000));
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(extended(&lease));
            seen.push(holder(redlock).replace(&owner, "OWNER"));
            let token = lease.token().ok();
            seen.push(released(lease).to_owned());
            seen.push(holder(redlock));
            let lease = try_it(redlock, "r").unwrap();
            assert!(token.is_none() || token < lease.token().ok(), "{token:?}");
            node.set(b"r", b"them\0", None);
            seen.push(extended(&lease));
            seen.push(released(lease).to_owned());
            seen.push(acquired(&try_it(redlock, "r")));
            seen.push(holder(redlock));
        },
        &[
            "held by OWNER for 30 s",
            "extended, nearly a minute: true",
            "OWNER for 60 s, owner: true",
            "released",
            "Free",
            "lost: Gone, 0ns left",
            "already ended",
            r"held by them\x00 for ever",
            r"them\x00 for ever, owner: false",
        ],
    );
}

/// It is refused, since classic mode has no such kind.
fn lacks<T>(answer: &Result<T, AcquireError>, lacking: Ability) -> bool {
    matches!(answer, Err(AcquireError::Unsupported(Unsupported::Classic { ability })) if *ability == lacking)
}

#[test]
fn what_classic_mode_cannot_do_is_refused_and_takes_nothing_away() {
    conform_in(
        &plain().classic(),
        |_, redlock, seen| {
            let set = redlock.try_acquire_all(["a", "b"]).blocking();
            assert!(lacks(&set, Ability::Sets));
            // One resource is one resource, however it is asked for.
            seen.push(acquired(&redlock.try_acquire_all(["a"]).blocking()));
            let read = redlock.try_read("r").blocking().map(drop);
            assert!(lacks(&read, Ability::Readers));
            seen.push(read.unwrap_err().to_string());
            let refused = try_it(redlock, "r").unwrap().downgrade().unwrap_err();
            seen.push(refused.to_string());
            seen.push(extended(&refused.into_lease()));
        },
        &[
            "granted",
            "the nodes cannot grant this kind of lease; nothing was sent: in classic mode a node supports no readers; \
             leave out \
             Builder::classic",
            "the lease cannot be shared with readers and is unchanged: in classic mode a node supports no readers; \
             leave out \
             Builder::classic",
            "extended, nearly a minute: true",
        ],
    );
}

#[test]
fn a_fraction_of_a_millisecond_is_rounded_up() {
    let asked = Duration::from_nanos(50_000_000_001);
    // A frozen clock shows the exact lifetime that the node in memory gave.
    let node = MemoryNode::with_clock(|| Timestamp::ORIGIN);
    let redlock = connected(patient().node(&node));
    let _lease = redlock.try_acquire("r").ttl(asked).blocking().unwrap();
    let other = connected(patient().node(&node));
    let busy = other.try_acquire("r").blocking().unwrap_err();
    let (_, denial) = busy.nodes().unwrap().denials().next().unwrap();
    assert_eq!(denial.remaining, Some(Duration::from_millis(50_001)));

    let server = Server::start();
    let redlock = connected(patient().node(server.url()));
    let mut monitor = Monitor::start(&server);
    let _lease = redlock.try_acquire("r").ttl(asked).blocking().unwrap();
    let set = monitor.next("\"SET\"");
    assert!(set.contains("\"NX\" \"PX\" \"50001\""), "{set}");
}

/// Only a real server has other types than strings.
#[test]
fn a_key_of_another_type_is_a_foreign_holder() {
    let server = Server::start();
    let redlock = connected(patient().node(server.url()));
    let ask = |name: &str| redlock.try_acquire(name).without_renewal().blocking();
    server.run(&["LPUSH", "list", "x"]);
    assert_eq!(acquired(&ask("list")), "held by none for ever");
    server.run(&["EXPIRE", "list", "25"]);
    assert_eq!(acquired(&ask("list")), "held by none for 30 s");

    let lease = ask("replaced").unwrap();
    server.del("replaced");
    server.run(&["LPUSH", "replaced", "x"]);
    assert_eq!(released(lease), "already ended");
    assert!(server.locks().contains(&b"replaced".to_vec()), "somebody else's list is left alone");
}

//! Goal: `MemoryNode` answers as a real server does.
//!
//! Method: each case runs against both through the same public API and writes down what it saw. Both
//! transcripts are compared with what is expected, and with each other; where they could only agree by
//! chance they would have to be equal line by line.

use std::time::{Duration, Instant};

use quorlock::{
    AcquireError, Builder, ExtendError, Lease, NodeOutcome, Redlock, ReleaseError,
    node::{MemoryNode, NodeError, NodeState},
    protocol::Timestamp,
};
use quorlock_harness::{Server, eventually};

use super::{MS, Monitor, SECOND, SOON, backend::Backend, connected, patient, plain};

type Case = fn(&dyn Backend, &Redlock, &mut Vec<String>);

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
        let redlock = connected(builder.clone().node(node.spec()));
        let mut seen = Vec::new();
        case(node, &redlock, &mut seen);
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
    match lease.release_blocking() {
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
        Err(ExtendError::InDoubt { validity }) => {
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

fn try_it(redlock: &Redlock, resource: impl AsRef<[u8]>) -> Result<Lease, AcquireError> {
    redlock.try_acquire(resource).ttl(60 * SECOND).blocking()
}

#[test]
fn grant_denial_and_release() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            let owner = lease.owner().to_string();
            seen.push(format!(
                "value is the owner: {}",
                node.get(b"r") == Some(owner.clone().into())
            ));
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(acquired(&try_it(redlock, "other")));
            seen.push(released(lease).to_owned());
            seen.push(format!("{:?}", node.get(b"r")));
            seen.push(acquired(&try_it(redlock, "r")));
        },
        &[
            "value is the owner: true",
            "held by Some(\"OWNER\") for up to 60 s",
            "granted",
            "released",
            "None",
            "granted",
        ],
    );
}

#[test]
fn expiry_and_the_release_after_it() {
    conform(
        |node, redlock, seen| {
            let lease =
                redlock.try_acquire("r").ttl(200 * MS).without_renewal().blocking().unwrap();
            let started = Instant::now();
            eventually("the key expires", SOON, || node.get(b"r").is_none());
            seen.push(format!("not early: {}", started.elapsed() >= 150 * MS));
            seen.push(format!("{:?}", node.keys()));
            let next = try_it(redlock, "r");
            seen.push(acquired(&next));
            seen.push(released(lease).to_owned());
            seen.push(format!("the next holder's key stands: {}", node.get(b"r").is_some()));
            seen.push(released(next.unwrap()).to_owned());
        },
        &[
            "not early: true",
            "[]",
            "granted",
            "already ended",
            "the next holder's key stands: true",
            "released",
        ],
    );
}

#[test]
fn a_value_that_begins_with_the_owner_is_somebody_elses() {
    conform(
        |node, redlock, seen| {
            for rest in ["x", "\0", "0123456789abcdef0123456789abcdef"] {
                let lease = redlock.try_acquire("r").without_renewal().blocking().unwrap();
                let longer = format!("{}{rest}", lease.owner());
                node.set(b"r", longer.as_bytes(), None);
                seen.push(released(lease).to_owned());
                let theirs = node.get(b"r") == Some(longer.into_bytes());
                seen.push(format!("it stands: {theirs}"));
                node.set(b"r", b"", Some(1));
                eventually("it is gone", SOON, || node.get(b"r").is_none());
                let lease = try_it(redlock, "r").unwrap();
                let longer = format!("{}{rest}", lease.owner());
                node.set(b"r", longer.as_bytes(), Some(45_000));
                seen.push(extended(&lease));
                drop(lease);
                node.set(b"r", b"", Some(1));
                eventually("it is gone", SOON, || node.get(b"r").is_none());
            }
        },
        &["already ended", "it stands: true", "lost: Gone"].repeat(3),
    );
}

#[test]
fn what_others_have_set_is_theirs() {
    conform(
        |node, redlock, seen| {
            node.set(b"short", b"them\0", Some(45_000));
            node.set(b"long", b"", None);
            seen.push(acquired(&try_it(redlock, "short")));
            seen.push(acquired(&try_it(redlock, "long")));
            let lease = try_it(redlock, "taken over").unwrap();
            node.set(b"taken over", b"thief", None);
            seen.push(released(lease).to_owned());
            seen.push(acquired(&try_it(redlock, "taken over")));
        },
        &[
            "held by Some(\"them\\\\x00\") for up to 60 s",
            "held by Some(\"\") for ever",
            "already ended",
            "held by Some(\"thief\") for ever",
        ],
    );
}

#[test]
fn any_bytes_are_a_name() {
    conform(
        |node, redlock, seen| {
            let names: [&[u8]; 4] = [b"\xff\x00\r\n", b" ", "\u{1f512}".as_bytes(), b"*"];
            let leases: Vec<_> = names.iter().map(|name| try_it(redlock, name).unwrap()).collect();
            let mut keys = node.keys();
            keys.sort();
            seen.extend(keys.iter().map(|key| key.escape_ascii().to_string()));
            seen.extend(leases.into_iter().map(released).map(str::to_owned));
            let long = vec![b'x'; 65_536];
            seen.push(acquired(&try_it(redlock, &long)));
            seen.push(acquired(&try_it(redlock, [&long[..], b"x"].concat())));
            seen.push(acquired(&try_it(redlock, "")));
        },
        &[
            " ",
            "*",
            "\\xf0\\x9f\\x94\\x92",
            "\\xff\\x00\\r\\n",
            "released",
            "released",
            "released",
            "released",
            "granted",
            "the resource cannot be locked",
            "the resource cannot be locked",
        ],
    );
}

#[test]
fn killed_and_restarted_empty() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.kill();
            eventually("it is down", SOON, || state(redlock) == "down");
            seen.push(acquired(&try_it(redlock, "r")));
            node.restart();
            eventually("it is back", SOON, || state(redlock) == "Ready");
            seen.push(format!("{:?}", node.keys()));
            seen.push(released(lease).to_owned());
            seen.push(acquired(&try_it(redlock, "r")));
        },
        &["not connected", "[]", "already ended", "granted"],
    );
}

#[test]
fn released_while_killed() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.kill();
            eventually("it is down", SOON, || state(redlock) == "down");
            seen.push(released(lease).to_owned());
        },
        &["unconfirmed"],
    );
}

#[test]
fn paused_and_resumed() {
    conform_with(
        200 * MS,
        |node, redlock, seen| {
            let lease = try_it(redlock, "held").unwrap();
            node.pause();
            seen.push(state(redlock));
            seen.push(acquired(&try_it(redlock, "late")));
            node.resume();
            eventually("the late key is released", SOON, || node.get(b"late").is_none());
            eventually("it answers again", SOON, || {
                try_it(redlock, "again").is_ok() && state(redlock) == "Ready"
            });
            seen.push(format!("still held: {}", node.get(b"held").is_some()));
            seen.push(released(lease).to_owned());
            eventually("nothing is left", SOON, || node.keys().is_empty());
        },
        &["Ready", "timed out", "still held: true", "released"],
    );
}

#[test]
fn an_extension_gives_the_key_its_whole_life_again() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            let owner = lease.owner().to_string();
            node.set(b"r", owner.as_bytes(), Some(25_000));
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(extended(&lease));
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(released(lease).to_owned());
            seen.push(format!("{:?}", node.keys()));
        },
        &[
            "held by Some(\"OWNER\") for up to 30 s",
            "extended, nearly a minute: true",
            "held by Some(\"OWNER\") for up to 60 s",
            "released",
            "[]",
        ],
    );
}

#[test]
fn an_extension_never_makes_a_key_anew_and_never_touches_another() {
    conform(
        |node, redlock, seen| {
            let gone = try_it(redlock, "gone").unwrap();
            node.set(b"gone", b"", Some(1));
            eventually("it expires", SOON, || node.get(b"gone").is_none());
            seen.push(extended(&gone));
            seen.push(format!("{:?}", node.get(b"gone")));
            seen.push(extended(&gone));
            seen.push(format!("{:?}", gone.validity()));

            let taken = try_it(redlock, "taken").unwrap();
            node.set(b"taken", b"thief", Some(25_000));
            seen.push(extended(&taken));
            seen.push(acquired(&try_it(redlock, "taken")));
            seen.push(released(taken).to_owned());
        },
        &[
            "lost: Gone",
            "None",
            "lost: Gone",
            "0ns",
            "lost: Gone",
            "held by Some(\"thief\") for up to 30 s",
            "already ended",
        ],
    );
}

#[test]
fn an_extension_that_nobody_answers_takes_nothing_away() {
    conform_with(
        200 * MS,
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.pause();
            seen.push(extended(&lease));
            node.resume();
            eventually("it answers again", SOON, || state(redlock) == "Ready");
            seen.push(format!("it stands: {}", node.get(b"r").is_some()));
            eventually("it is extended", SOON, || extended(&lease).starts_with("extended"));
            seen.push(released(lease).to_owned());
        },
        &["in doubt, still valid: true", "it stands: true", "released"],
    );
}

#[test]
fn tokens_rise_with_every_grant_and_outlive_the_lease() {
    let case: Case = |_, redlock, seen| {
        let mut last = None;
        for _ in 0..5 {
            let lease = try_it(redlock, "r").unwrap();
            let token = lease.fencing_token();
            seen.push(format!("token: {}, risen: {}", token.is_some(), token > last));
            assert_eq!(lease.signal().fencing_token(), token);
            seen.push(extended(&lease));
            assert_eq!(lease.fencing_token(), token, "an extension is no grant");
            seen.push(released(lease).to_owned());
            last = token;
        }
        let other = try_it(redlock, "other").unwrap();
        seen.push(format!("token: {}", other.fencing_token().is_some()));
    };
    let lines = |token: bool| {
        let grant = format!("token: {token}, risen: {token}");
        let mut lines: Vec<_> = (0..5)
            .flat_map(|_| {
                [grant.clone(), "extended, nearly a minute: true".into(), "released".into()]
            })
            .collect();
        lines.push(format!("token: {token}"));
        lines
    };
    for (builder, token) in [(plain().classic(), false), (patient(), true)] {
        let lines = lines(token);
        conform_in(&builder, case, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// The late SET itself can only be seen where the server tells of it, or where its release is held up.
#[test]
fn a_late_set_is_executed_and_then_released() {
    let server = Server::start();
    let redlock = connected(plain().classic().node(server.url()).node_timeout(200 * MS));
    let mut monitor = Monitor::start(&server);
    server.pause();
    assert_eq!(acquired(&try_it(&redlock, "late")), "timed out");
    server.resume();
    let set = monitor.next("late");
    assert!(set.contains("\"SET\""), "{set}");
    assert!(monitor.next("late").contains("EVAL"));
    eventually("nothing is left", SOON, || server.locks().is_empty());
}

#[test]
fn a_fraction_of_a_millisecond_is_rounded_up() {
    let asked = Duration::from_nanos(50_000_000_001);
    // A frozen clock shows the exact lifetime that the node in memory gave.
    let node = MemoryNode::with_clock(|| Timestamp::ORIGIN);
    let redlock = connected(patient().node(&node));
    let _lease = redlock.try_acquire("r").ttl(asked).blocking().unwrap();
    let busy = redlock.try_acquire("r").blocking().unwrap_err();
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
    server.run(&["LPUSH", "list", "x"]);
    assert_eq!(acquired(&try_it(&redlock, "list")), "held by None for ever");
    server.run(&["EXPIRE", "list", "25"]);
    assert_eq!(acquired(&try_it(&redlock, "list")), "held by None for up to 30 s");

    let lease = try_it(&redlock, "replaced").unwrap();
    server.del("replaced");
    server.run(&["LPUSH", "replaced", "x"]);
    assert_eq!(released(lease), "already ended");
    assert!(server.locks().contains(&b"replaced".to_vec()), "somebody else's list is left alone");
}

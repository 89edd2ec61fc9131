//! What stands at a key: whose it is, for how long, and under which name.

use std::time::{Duration, Instant};

use quorlock::{Lease, NodeOutcome, ReleaseError, node::MemoryNode, protocol::Timestamp};
use quorlock_harness::{Server, connected, eventually};

use super::{
    super::{MS, Monitor, SECOND, SOON, patient},
    acquired, conform, extended, released, try_it,
};

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
fn a_release_that_keeps_others_out_cuts_the_life_of_its_owners_key_and_of_no_other() {
    conform(
        |node, redlock, seen| {
            let held = |name: &str| {
                let request = redlock.try_acquire(name).ttl(60 * SECOND);
                request.hold_at_least(20 * SECOND).blocking().unwrap()
            };
            let lease = held("r");
            let owner = lease.owner().to_string();
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));
            seen.push(released(lease).to_owned());
            seen.push(acquired(&try_it(redlock, "r")).replace(&owner, "OWNER"));

            let gone = held("gone");
            node.set(b"gone", b"", Some(1));
            eventually("it expires", SOON, || node.get(b"gone").is_none());
            seen.push(released(gone).to_owned());
            seen.push(format!("{:?}", node.get(b"gone")));

            let taken = held("taken");
            node.set(b"taken", b"thief", Some(50_000));
            seen.push(released(taken).to_owned());
            seen.push(acquired(&try_it(redlock, "taken")));
        },
        &[
            "held by Some(\"OWNER\") for up to 60 s",
            "released",
            "held by Some(\"OWNER\") for up to 30 s",
            "already ended",
            "None",
            "already ended",
            "held by Some(\"thief\") for up to 60 s",
        ],
    );
}

fn too_late(lease: Lease) -> NodeOutcome {
    match lease.blocking_release() {
        Err(ReleaseError::AlreadyEnded { nodes, .. }) => {
            nodes.iter().next().unwrap().outcome.clone()
        }
        other => panic!("{other:?}"),
    }
}

/// A key that is gone is not told as somebody else's, nor the other way round.
#[test]
fn a_release_that_comes_too_late_says_what_became_of_the_key() {
    conform(
        |node, redlock, seen| {
            for (value, left) in [(&b"thief"[..], Some(50_000)), (b"", Some(1))] {
                let lease = redlock.try_acquire("r").without_renewal().blocking().unwrap();
                node.set(b"r", value, left);
                if value.is_empty() {
                    eventually("it expires", SOON, || node.get(b"r").is_none());
                }
                let outcome = too_late(lease);
                let NodeOutcome::Denied(denial) = &outcome else { panic!("{outcome:?}") };
                seen.push(format!("gone: {}", denial.gone));
                node.set(b"r", b"", Some(1));
                eventually("it is free", SOON, || node.get(b"r").is_none());
            }
        },
        &["gone: false", "gone: true"],
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
            "the resource cannot be locked, and nothing was sent: its key has 65537 bytes, of at most \
             65536, lock a digest of it instead",
            "the resource cannot be locked, and nothing was sent: it has no name, see whether a \
             variable was never set",
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

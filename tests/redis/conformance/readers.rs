//! Readers and writers: who is let in beside whom, and what stands on a node for them.

use std::time::Duration;

use quorlock::{AcquireError, ExtendError, ReadLease, ReadersError, Redlock};
use quorlock_harness::eventually;

use super::{
    super::{SECOND, patient, plain},
    Clients, acquired, conform_in, released, try_it,
};

fn conform(case: super::Case, expected: &[&str]) {
    conform_in(&patient().node_timeout(2 * SECOND), case, expected);
}

fn try_read(redlock: &Redlock) -> Result<ReadLease, AcquireError> {
    redlock.try_read("r").ttl(55 * SECOND).without_renewal().blocking()
}

fn read(result: &Result<ReadLease, AcquireError>) -> String {
    // In the words of an acquire.
    acquired(
        &result.as_ref().map_or_else(|error| Err(error.clone()), |_| Err(AcquireError::Closed)),
    )
    .replace(&AcquireError::Closed.to_string(), "granted")
}

fn extended(lease: &ReadLease) -> String {
    match lease.blocking_extend() {
        Ok(validity) => format!("extended, nearly a minute: {}", validity > 45 * SECOND),
        Err(ExtendError::Lost(lost)) => format!("lost: {:?}", lost.reason),
        Err(other) => other.to_string(),
    }
}

fn value(node: &dyn super::Backend) -> String {
    node.get(b"r").map_or_else(|| "none".to_owned(), |value| value.escape_ascii().to_string())
}

fn gone(node: &dyn super::Backend) {
    node.set(b"r", b"", Some(1));
    eventually("it is gone", 5 * SECOND, || node.get(b"r").is_none());
}

#[test]
fn readers_are_let_in_beside_each_other_and_no_writer_beside_them() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let one = try_read(redlock).unwrap();
            seen.push(value(node));
            let two = try_read(other);
            let three = try_read(redlock);
            seen.push(format!("{} {}", read(&two), read(&three)));
            seen.push(acquired(&try_it(other, "r")));
            seen.push(acquired(&redlock.try_acquire_all(["a", "r"]).blocking()));
            one.blocking_release().unwrap();
            two.unwrap().blocking_release().unwrap();
            seen.push(acquired(&try_it(other, "r")));
            three.unwrap().blocking_release().unwrap();
            seen.push(value(node));
            let writer = try_it(other, "r");
            seen.push(acquired(&writer));
            let owner = writer.as_ref().unwrap().owner().to_string();
            seen.push(read(&try_read(redlock)).replace(&owner, "OWNER"));
            seen.push(released(writer.unwrap()).to_owned());
            seen.push(read(&try_read(redlock)));
        },
        &[
            "shared by readers, see quorlock.",
            "granted granted",
            "held by Some(\"shared by readers, see quorlock.\") for up to 60 s",
            "held by Some(\"shared by readers, see quorlock.\") for up to 60 s",
            "held by Some(\"shared by readers, see quorlock.\") for up to 60 s",
            "none",
            "granted",
            "held by Some(\"OWNER\") for up to 60 s",
            "released",
            "granted",
        ],
    );
}

#[test]
fn a_key_of_readers_outlives_all_of_them_and_no_more() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let hold = |redlock: &Redlock, secs: u64| {
                redlock.try_read("r").ttl(Duration::from_secs(secs)).without_renewal().blocking()
            };
            let (short, long) = (hold(redlock, 20).unwrap(), hold(other, 100).unwrap());
            seen.push(acquired(&try_it(other, "r")));
            long.blocking_release().unwrap();
            seen.push(acquired(&try_it(other, "r")));
            short.blocking_release().unwrap();
            seen.push(value(node));
            let long = hold(other, 100).unwrap();
            let short = hold(redlock, 20).unwrap();
            short.blocking_release().unwrap();
            seen.push(acquired(&try_it(other, "r")));
            drop(long);
        },
        &[
            "held by Some(\"shared by readers, see quorlock.\") for up to 120 s",
            "held by Some(\"shared by readers, see quorlock.\") for up to 30 s",
            "none",
            "held by Some(\"shared by readers, see quorlock.\") for up to 120 s",
        ],
    );
}

#[test]
fn entries_are_void_once_their_key_is_gone() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let one = try_read(redlock).unwrap();
            seen.push(extended(&one));
            gone(node);
            // A writer in between, and then another reader.
            seen.push(released(try_it(other, "r").unwrap()).to_owned());
            let two = try_read(other).unwrap();
            seen.push(extended(&one));
            seen.push(extended(&two));
            drop(one);
            // It releases what is not there, and leaves the other's.
            std::thread::sleep(Duration::from_millis(50));
            seen.push(value(node));
            two.blocking_release().unwrap();
            seen.push(value(node));
            let lost = try_read(redlock).unwrap();
            node.set(b"r", b"thief", Some(50_000));
            seen.push(extended(&lost));
            seen.push(value(node));
        },
        &[
            "extended, nearly a minute: true",
            "released",
            "lost: Gone",
            "extended, nearly a minute: true",
            "shared by readers, see quorlock.",
            "none",
            "lost: Gone",
            "thief",
        ],
    );
}

#[test]
fn a_reader_has_the_number_of_the_writer_before_it() {
    conform(
        |_, Clients { redlock, other }, seen| {
            let from_nothing = try_read(redlock).unwrap();
            let first = from_nothing.token();
            let beside = try_read(other).unwrap();
            seen.push(format!("alike: {}", beside.token() == first));
            drop(beside);
            from_nothing.blocking_release().unwrap();
            let mut last = None;
            for _ in 0..4 {
                let writer = eventually_writes(other);
                let token = writer.token().unwrap();
                seen.push(format!("above: {}", !first.covers(token) && last < Some(token)));
                last = Some(token);
                writer.blocking_release().unwrap();
                let reader = try_read(redlock).unwrap();
                seen.push(format!("same: {}", reader.token().get() == token.get()));
                reader.blocking_release().unwrap();
            }
            seen.dedup();
            seen.sort();
            seen.dedup();
        },
        &["above: true", "alike: true", "same: true"],
    );
}

/// What was dropped is released in the background.
fn eventually_writes(redlock: &Redlock) -> quorlock::Lease {
    redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap()
}

#[test]
fn a_writer_that_waits_is_not_overtaken_by_readers() {
    conform(
        |_, Clients { redlock, other }, seen| {
            let reader = try_read(redlock).unwrap();
            let waiting = other.clone();
            let writer = std::thread::spawn(move || eventually_writes(&waiting));
            eventually("it stands in line", 5 * SECOND, || match try_read(redlock) {
                Ok(late) => {
                    late.blocking_release().unwrap();
                    false
                }
                Err(_) => true,
            });
            seen.push(read(&try_read(redlock)));
            reader.blocking_release().unwrap();
            let writer = writer.join().unwrap();
            seen.push("it writes".to_owned());
            seen.push(released(writer).to_owned());
            let reader = redlock.read("r").blocking();
            seen.push(read(&reader));
        },
        &[
            "held by Some(\"shared by readers, see quorlock.\") for up to 60 s",
            "it writes",
            "released",
            "granted",
        ],
    );
}

#[test]
fn a_writer_that_goes_on_as_a_reader_is_one_of_them_and_entries_of_before_stay_void() {
    conform(
        |node, Clients { redlock, other }, seen| {
            let void = try_read(redlock).unwrap();
            gone(node);
            let writer = try_it(other, "r").unwrap();
            let written = writer.token().unwrap();
            let lease = writer.downgrade().unwrap();
            // Behind the extension that has begun.
            seen.push(extended(&lease));
            seen.push(value(node));
            seen.push(extended(&void));
            let beside = try_read(redlock);
            seen.push(read(&beside));
            let token = beside.as_ref().unwrap().token();
            seen.push(format!("{} {}", lease.token() == written.into(), token >= lease.token()));
            lease.blocking_release().unwrap();
            seen.push(value(node));
            seen.push(acquired(&try_it(other, "r")));
            beside.unwrap().blocking_release().unwrap();
            seen.push(value(node));
            let next = try_it(other, "r").unwrap();
            seen.push(format!("{}", token.covers(next.token().unwrap())));
            seen.push(released(next).to_owned());
            // A release right behind, and a key that is somebody else's.
            let lease = try_it(other, "r").unwrap().downgrade().unwrap();
            lease.blocking_release().unwrap();
            seen.push(value(node));
            let lease = try_it(other, "r").unwrap().downgrade().unwrap();
            seen.push(extended(&lease));
            node.set(b"r", b"thief", Some(50_000));
            seen.push(extended(&lease));
            let _ = lease.blocking_release();
            seen.push(value(node));
            gone(node);
            // One that may be extended no more, so that the node does not follow, keeps others out for as long as it said.
            let limit = Duration::from_nanos(1);
            let request = other.try_acquire("r").ttl(55 * SECOND).max_hold(limit);
            let writer = request.hold_at_least(50 * SECOND).blocking().unwrap();
            let owner = writer.owner().to_string();
            writer.downgrade().unwrap().blocking_release().unwrap();
            seen.push(value(node).replace(&owner, "OWNER"));
            seen.push(read(&try_read(redlock)).replace(&owner, "OWNER"));
        },
        &[
            "extended, nearly a minute: true",
            "shared by readers, see quorlock.",
            "lost: Gone",
            "granted",
            "true true",
            "shared by readers, see quorlock.",
            "held by Some(\"shared by readers, see quorlock.\") for up to 60 s",
            "none",
            "false",
            "released",
            "none",
            "extended, nearly a minute: true",
            "lost: Gone",
            "thief",
            "OWNER",
            "held by Some(\"OWNER\") for up to 60 s",
        ],
    );
}

#[test]
fn readers_are_refused_where_nodes_know_of_none() {
    conform_in(
        &plain().classic(),
        |_, Clients { redlock, .. }, seen| {
            let classic = try_read(redlock);
            assert!(matches!(classic, Err(AcquireError::Readers(ReadersError::Classic))));
            seen.push(read(&classic));
            let refused = try_it(redlock, "r").unwrap().downgrade().unwrap_err();
            seen.push(refused.to_string());
            seen.push(super::extended(&refused.lease));
        },
        &[
            "the resource cannot be shared by readers, and nothing was sent: in classic mode a node knows no readers, \
           leave out Builder::classic",
            "the lease cannot be shared with readers, and is as it was: in classic mode a node knows no readers, leave out \
           Builder::classic",
            "extended, nearly a minute: true",
        ],
    );
}

/// Others may have taken the end from it. Were it not for that, writers would wait for ever once its readers have crashed.
#[test]
fn a_key_of_readers_without_an_end_gets_one_from_whoever_wants_to_write() {
    const SHARED: &[u8] = b"shared by readers, see quorlock.";
    conform_in(
        &plain().ttl(SECOND).max_ttl(SECOND).danger_skip_quarantine(),
        |node, Clients { redlock, other }, seen| {
            for set in [false, true] {
                node.set(b"r", SHARED, None);
                let write = || if set { other.acquire_all(["a", "r"]) } else { other.write("r") };
                let tried =
                    if set { other.try_acquire_all(["a", "r"]) } else { other.try_write("r") };
                let tried = tried.blocking();
                seen.push(acquired(&tried));
                let lease = write().wait(10 * SECOND).blocking();
                seen.push(acquired(&lease));
                seen.push(released(lease.unwrap()).to_owned());
            }
            // One who reads it keeps it for no less.
            node.set(b"r", SHARED, None);
            let lease = redlock.read("r").blocking().unwrap();
            std::thread::sleep(3 * SECOND);
            seen.push(format!("{:?}", lease.check().is_ok()));
            seen.push(acquired(&other.try_acquire("r").blocking()));
            lease.blocking_release().unwrap();
            seen.push(value(node));
        },
        &[
            "held by Some(\"shared by readers, see quorlock.\") for up to 30 s",
            "granted",
            "released",
            "held by Some(\"shared by readers, see quorlock.\") for up to 30 s",
            "granted",
            "released",
            "true",
            "held by Some(\"shared by readers, see quorlock.\") for up to 30 s",
            "none",
        ],
    );
}

//! Goal: the reader locks that others have on several servers fail where `docs/moving.md` says so, and this crate does not.
//!
//! Method: each fault on real servers, for a peer and for this crate beside it. xtr-lock (PyPI) runs as it is; the scripts
//! and rounds of madelson's DistributedLock are in `peers/madelson.rs`. Each test prints what it saw.

mod madelson;

use std::{
    future::{Future as _, IntoFuture as _},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use quorlock::{AcquireError, FenceGate, ReadLease, Redlock};
use quorlock_harness::{Cluster, Server, all_ready, eventually};

use super::{SECOND, SOON, foreign::Foreign};
use madelson::{EXPIRY, Madelson, Waiting};

const MS: Duration = Duration::from_millis(1);

/// A client that lets no node vote that has forgotten, as by default.
fn ours(cluster: &Cluster) -> Redlock {
    ours_for(cluster, EXPIRY)
}

fn ours_for(cluster: &Cluster, ttl: Duration) -> Redlock {
    let builder = Redlock::builder().nodes(cluster.urls()).ttl(ttl).max_ttl(ttl);
    let redlock = builder.node_timeout(SECOND / 2).blocking_connect().unwrap();
    all_ready(&redlock);
    redlock
}

/// Readers that follow each other and overlap, for so many turns, with a try of a writer in each. Returns in which turn
/// the writer got in, and whether that was behind the last reader.
fn overlapping<R>(
    turns: usize,
    mut read: impl FnMut() -> Option<R>,
    mut release: impl FnMut(R),
    mut writes: impl FnMut() -> bool,
) -> Option<usize> {
    let mut inside = read();
    for turn in 0..turns {
        let next = read();
        if let Some(before) = std::mem::replace(&mut inside, next) {
            release(before);
        }
        std::thread::sleep(20 * MS);
        if writes() {
            inside.into_iter().for_each(&mut release);
            return Some(turn);
        }
    }
    inside.into_iter().for_each(release);
    None
}

/// A reader whose process was killed is forgotten when its own ttl is over.
#[test]
fn readers_that_died_keep_writers_out_of_madelsons_for_as_long_as_others_read() {
    let cluster = Cluster::start(3);
    let peer = Madelson::new(&cluster, "r");
    let _died = peer.read();
    let alive = peer.read();
    let began = Instant::now();
    while began.elapsed() < 2 * EXPIRY {
        std::thread::sleep(EXPIRY.mul_f64(0.3));
        assert!(peer.extend(&alive));
    }
    peer.release(alive);
    assert!(peer.try_write().is_none(), "nobody who lives reads");
    let released = Instant::now();
    eventually("the set has expired", SOON, || peer.try_write().is_some());
    let theirs = released.elapsed();

    let redlock = ours(&cluster);
    let other = ours(&cluster);
    let reads = |redlock: &Redlock| redlock.read("q").blocking().unwrap();
    let (died, alive) = (redlock.read("q").without_renewal().blocking().unwrap(), reads(&other));
    // The process that has it is gone: nobody renews it, and nobody releases it.
    std::mem::forget(died);
    std::thread::sleep(2 * EXPIRY);
    alive.blocking_release().unwrap();
    let released = Instant::now();
    let lease = other.write("q").wait(SOON).blocking().unwrap();
    let here = released.elapsed();
    println!("behind a reader that died 2 ttl ago, a writer waits {theirs:?} there, {here:?} here");
    // Renewals of other readers would keep it for two thirds of its ttl at least.
    assert!(theirs > EXPIRY / 2 && here < EXPIRY / 2);
    lease.blocking_release().unwrap();
}

/// A waiting writer's mark goes with the release of a round that was lost to slow servers, and is not set again.
#[test]
fn a_writer_of_madelsons_that_has_lost_a_round_waits_behind_readers_that_come_later() {
    let cluster = Cluster::start(3);
    let peer = Madelson::new(&cluster, "r");
    let reader = peer.read();
    let mut waiting = Waiting::default();
    eventually("it has set its mark", SOON, || {
        assert!(peer.wait_to_write(&mut waiting).is_none(), "it is read");
        waiting.has_mark()
    });
    assert!(peer.try_read().is_none(), "its mark keeps newcomers out");
    peer.release(reader);
    // The servers are slow in the round that would have won.
    let slow = || cluster.iter().skip(1);
    slow().for_each(Server::pause);
    assert!(peer.wait_to_write(&mut waiting).is_none());
    slow().for_each(Server::resume);
    eventually("what it was granted too late is released", SOON, || {
        cluster.iter().all(|server| server.get("r.writer").is_none())
    });
    let theirs = overlapping(
        100,
        || Some(peer.read()),
        |reader| peer.release(reader),
        || peer.wait_to_write(&mut waiting).is_some(),
    );

    let (redlock, other) = (ours(&cluster), ours(&cluster));
    let reader = other.read("q").blocking().unwrap();
    let mut writer = redlock.write("q").wait(60 * SECOND).into_future();
    let mut context = Context::from_waker(Waker::noop());
    let mut polled = || std::pin::Pin::new(&mut writer).poll(&mut context);
    assert!(polled().is_pending());
    eventually("it stands in line", SOON, || other.try_read("q").blocking().is_err());
    slow().for_each(Server::pause);
    drop(reader);
    std::thread::sleep(SECOND);
    assert!(polled().is_pending());
    slow().for_each(Server::resume);
    let here = overlapping(
        100,
        || other.try_read("q").ttl(SECOND).blocking().ok(),
        |reader: ReadLease| drop(reader.blocking_release()),
        || matches!(polled(), Poll::Ready(Ok(_))),
    );
    println!(
        "behind a lost round the writer gets in: there {theirs:?}, here {here:?} of 100 turns"
    );
    assert_eq!(theirs, None, "it is kept out for as long as they come");
    assert!(here.is_some_and(|turn| turn < 100));
}

/// A reader stands on two of three nodes; one of these is restarted without its data while the third is back. Whether a writer
/// gets in beside it.
fn one_node_forgets<R>(
    cluster: &Cluster,
    reads: impl FnOnce() -> R,
    writes: impl FnOnce(&R) -> bool,
) -> bool {
    cluster[2].kill();
    let reader = reads();
    cluster[2].restart();
    cluster[0].restart_empty();
    writes(&reader)
}

#[test]
fn one_empty_restart_lets_a_writer_of_madelsons_in_beside_a_reader() {
    let cluster = Cluster::start(3);
    let peer = Madelson::new(&cluster, "r");
    let beside =
        one_node_forgets(&cluster, || peer.read(), |_| (0..20).any(|_| peer.try_write().is_some()));
    assert!(beside);
}

#[test]
fn one_empty_restart_lets_a_writer_of_xtr_lock_in_beside_a_reader() {
    let (cluster, store) = (Cluster::start(3), Server::start());
    let start = || Foreign::start("xtr-lock", &store, "r", &cluster);
    let (Some(mut reader), Some(mut writer)) = (start(), start()) else { return };
    let beside = one_node_forgets(
        &cluster,
        || assert_eq!(reader.ask("read 60000"), "got"),
        |()| writer.ask("write 60000") == "got",
    );
    assert!(beside);
}

#[test]
fn one_empty_restart_lets_no_writer_of_ours_in_beside_a_reader() {
    let cluster = Cluster::start(3);
    let (redlock, other) = (ours_for(&cluster, 2 * EXPIRY), ours_for(&cluster, 2 * EXPIRY));
    let writes = |reader: &ReadLease| {
        let mut tries = 0;
        while reader.check().is_ok() {
            match other.try_write("q").blocking() {
                Ok(_) => return reader.check().is_ok(),
                Err(error) => assert!(error.is_contended() || is_short_of_nodes(&error), "{error}"),
            }
            tries += 1;
            std::thread::sleep(20 * MS);
        }
        println!("here {tries} tries were refused until the reader had lost its lease");
        assert!(tries > 3, "{tries}");
        false
    };
    assert!(!one_node_forgets(&cluster, || redlock.read("q").blocking().unwrap(), writes));
}

const fn is_short_of_nodes(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Quarantined { .. } | AcquireError::NoQuorum { .. })
}

/// Nothing keeps new readers out while a writer waits.
#[test]
fn readers_that_overlap_keep_a_writer_of_xtr_lock_out() {
    let (cluster, store) = (Cluster::start(3), Server::start());
    let start = || Foreign::start("xtr-lock", &store, "r", &cluster);
    let (Some(one), Some(other), Some(mut writer)) = (start(), start(), start()) else { return };
    let mut readers = [one, other];
    for turn in 0..30 {
        assert_eq!(readers[turn % 2].ask("read 60000"), "got", "although a writer waits");
        if turn > 0 {
            assert_eq!(readers[(turn + 1) % 2].ask("release"), "released");
        }
        assert_eq!(writer.ask("write 60000"), "busy", "turn {turn}");
    }
    assert_eq!(readers[1].ask("release"), "released");
    eventually("it is alone", SOON, || writer.ask("write 60000") == "got");
}

/// No store can tell its late write from one in time: there is no number to compare.
#[test]
fn a_stopped_writer_of_xtr_lock_writes_beside_a_reader() {
    let (cluster, store) = (Cluster::start(3), Server::start());
    let start = || Foreign::start("xtr-lock", &store, "r", &cluster);
    let (Some(mut writer), Some(mut reader)) = (start(), start()) else { return };
    store.set("value", "old", None);
    assert_eq!(writer.ask("write 3000"), "got");
    assert_eq!(writer.ask("put new"), "checked");
    writer.signal("-STOP");
    eventually("its ttl is over", SOON, || reader.ask("read 60000") == "got");
    assert_eq!(reader.ask("look"), "old");
    writer.signal("-CONT");
    assert_eq!(writer.answer(), "put", "late, and without knowing it");
    assert_eq!(reader.ask("look"), "new", "under its lock");
    assert_eq!(reader.ask("held"), "held");

    // The same here, with a store that compares.
    let (redlock, gate) = (ours(&cluster), FenceGate::new());
    let writer = redlock.write("q").ttl(SECOND).without_renewal().blocking().unwrap();
    let checked = writer.check().map(|_| writer.token().unwrap()).unwrap();
    std::thread::sleep(SECOND);
    let reader = redlock.read("q").wait(SOON).blocking().unwrap();
    gate.admit_read(reader.token()).unwrap();
    gate.admit(checked).expect_err("it comes behind a reader");
    reader.check().unwrap();
}

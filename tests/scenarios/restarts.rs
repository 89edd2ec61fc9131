//! Goal: a node that has forgotten what it granted cannot give a resource away twice.
//!
//! Method: three nodes. The holder has the keys of the nodes 0 and 1; node 1 forgets, by an empty restart, by a
//! rollback to an older append-only file, or by FLUSHALL; a second client asks for the resource without a pause.
//! In classic mode it is granted by the nodes 1 and 2 while the holder's lease is valid. By default it is granted
//! once that lease is over, with a larger token.

use std::path::Path;

use quorlock::{Lease, Redlock};
use quorlock_harness::{Cluster, Server, eventually};

use super::{SOON, acquire_without, admit, all_ready, is_quarantined, ready, settings, token};

/// How node 1 forgets.
#[derive(Clone, Copy, Debug)]
enum Loss {
    EmptyRestart,
    Rollback,
    Flush,
}

/// Longer than any of these schedules takes in classic mode.
const LONG: std::time::Duration = std::time::Duration::from_secs(20);
/// What the default has to wait for.
const SHORT: std::time::Duration = std::time::Duration::from_secs(2);

impl Loss {
    fn cluster(self) -> Cluster {
        let keeps = matches!(self, Self::Rollback);
        Cluster::start_with(3, |index, builder| builder.append_only(keeps && index == 1))
    }

    /// What is needed of the state before the grant, and then the loss itself.
    fn around(self, server: &Server, grant: impl FnOnce() -> Lease) -> Lease {
        let older = tempfile_dir();
        if matches!(self, Self::Rollback) {
            copy_dir(&server.data_dir(), &older.0);
        }
        let lease = grant();
        match self {
            Self::EmptyRestart => server.restart_empty(),
            Self::Flush => server.flush(),
            Self::Rollback => {
                server.kill();
                std::fs::remove_dir_all(server.data_dir()).unwrap();
                copy_dir(&older.0, &server.data_dir());
                server.restart();
            }
        }
        assert_eq!(server.get("r"), None, "{self:?}: the key is forgotten");
        lease
    }
}

fn classic_gives_two_holders(loss: Loss) {
    let cluster = loss.cluster();
    let client = || settings(&cluster, LONG).classic();
    let (first, second) = (ready(client()), ready(client()));
    // Something to roll back to.
    drop(first.acquire("before").without_renewal().blocking().unwrap());
    let held = loss.around(&cluster[1], || acquire_without(&cluster, &first, "r", 2));
    let mut other = None;
    eventually("the second client is granted too", SOON, || {
        other = second.try_acquire("r").without_renewal().blocking().ok();
        other.is_some()
    });
    let (held, other) = (held.check(), other.unwrap().check());
    assert!(held.is_ok() && other.is_ok(), "{loss:?}: two holders at once: {held:?}, {other:?}");
}

fn default_gives_one_holder(loss: Loss) {
    let cluster = loss.cluster();
    admit(&cluster, SHORT);
    let (first, second) = (ready(settings(&cluster, SHORT)), ready(settings(&cluster, SHORT)));
    let before = token(&first.acquire("r").without_renewal().blocking().unwrap());
    eventually("it is released", SOON, || cluster.iter().all(|server| server.get("r").is_none()));
    let held = loss.around(&cluster[1], || acquire_without(&cluster, &first, "r", 2));
    // A client that never saw the node before its loss.
    let fresh = settings(&cluster, SHORT).build().unwrap();
    assert!(token(&held) > before);
    let mut quarantined = 0;
    let other = 'granted: loop {
        for client in [&second, &fresh] {
            quarantined += usize::from(is_quarantined(client, 1) && held.is_valid());
            if let Ok(lease) = client.try_acquire("r").without_renewal().blocking() {
                break 'granted lease;
            }
        }
    };
    assert!(held.check().is_err(), "{loss:?}: two holders at once");
    assert!(quarantined > 0, "{loss:?}: the loss was noticed while the lease was valid");
    assert!(token(&other) > token(&held), "{loss:?}");
    for client in [&first, &second, &fresh] {
        all_ready(client);
    }
    drop(other);
    assert!(token_afterwards(&fresh) > token(&held), "{loss:?}");
}

/// The token of one more grant, by whatever nodes.
fn token_afterwards(redlock: &Redlock) -> u64 {
    token(&redlock.acquire("r").wait(SOON).blocking().unwrap())
}

#[test]
fn an_empty_restart_gives_two_holders_in_classic_mode() {
    classic_gives_two_holders(Loss::EmptyRestart);
}

#[test]
fn an_empty_restart_gives_one_holder_by_default() {
    default_gives_one_holder(Loss::EmptyRestart);
}

#[test]
fn a_rollback_gives_two_holders_in_classic_mode() {
    classic_gives_two_holders(Loss::Rollback);
}

#[test]
fn a_rollback_gives_one_holder_by_default() {
    default_gives_one_holder(Loss::Rollback);
}

#[test]
fn a_flush_gives_two_holders_in_classic_mode() {
    classic_gives_two_holders(Loss::Flush);
}

#[test]
fn a_flush_gives_one_holder_by_default() {
    default_gives_one_holder(Loss::Flush);
}

/// A restart that keeps its data is a new process all the same: the marker names the old one.
#[test]
fn a_restart_with_all_data_is_quarantined_too() {
    let cluster = Cluster::start_with(3, |_, builder| builder.append_only(true));
    // The quarantine is far longer than this test waits.
    admit(&cluster, SOON);
    let redlock = ready(settings(&cluster, SOON));
    cluster[0].restart();
    eventually("it is quarantined", SOON, || is_quarantined(&redlock, 0));
    let lease = redlock.acquire("r").wait(SOON).blocking().unwrap();
    assert!(lease.is_valid(), "the other two go on");
    assert!(is_quarantined(&redlock, 0));
}

/// A directory that is removed with its contents.
struct Dir(std::path::PathBuf);

fn tempfile_dir() -> Dir {
    let name = format!("qlk-older-{}-{:x}", std::process::id(), rand::random::<u64>());
    Dir(std::env::temp_dir().join(name))
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

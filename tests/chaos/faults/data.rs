//! Faults of a server's data, the process being the same: scripts and keys that are gone, other keys in their place.

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Server, eventually};

use super::{MS, SECOND, errors, info, random, short, undo};

pub(super) fn flush_scripts(server: &Server, time: Duration) -> bool {
    let before = errors(server, "NOSCRIPT");
    let began = Instant::now();
    while began.elapsed() < time {
        server.run(&["SCRIPT", "FLUSH"]);
        thread::sleep(MS * u32::try_from(1 + random(40)).unwrap());
    }
    errors(server, "NOSCRIPT") > before
}

pub(super) fn flush_all(server: &Server) -> bool {
    let keys = server.keys().len();
    server.flush();
    keys > 0
}

pub(super) fn swap_db(server: &Server, time: Duration, aim: impl Fn()) -> bool {
    aim();
    server.run(&["SWAPDB", "0", "1"]);
    thread::sleep(time);
    aim();
    server.run(&["SWAPDB", "0", "1"]);
    true
}

/// Its data is thrown away when the master has sent its own, which is none.
pub(super) fn follow_stranger(server: &Server, stranger: &Server) -> bool {
    follow(server, stranger);
    thread::sleep(short());
    lead(server);
    true
}

/// Its data is what it was a moment ago, with its own marker.
pub(super) fn follow_copy(server: &Server, copy: &Mutex<Server>, aim: impl Fn()) -> bool {
    let copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
    follow(&copy, server);
    lead(&copy);
    thread::sleep(short());
    aim();
    follow(server, &copy);
    lead(server);
    true
}

fn follow(server: &Server, master: &Server) {
    server.run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica has the data of its master", 20 * SECOND, || {
        let info = info(server, "replication");
        info.contains("master_link_status:up") && info.contains("master_sync_in_progress:0")
    });
}

fn lead(server: &Server) {
    undo(|| server.try_run(&["REPLICAOF", "NO", "ONE"]).is_ok());
}

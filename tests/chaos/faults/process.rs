//! Faults of a server's process: killed, killed with its data, stopped.

use std::{thread, time::Duration};

use quorlock_harness::Server;

use super::short;

pub(super) fn restart(server: &Server) -> bool {
    server.kill();
    thread::sleep(short());
    server.restart();
    true
}

pub(super) fn restart_empty(server: &Server, away: Duration) -> bool {
    server.kill();
    thread::sleep(away);
    server.restart_empty();
    true
}

pub(super) fn stop(server: &Server, time: Duration) -> bool {
    server.pause();
    thread::sleep(time);
    server.resume();
    true
}

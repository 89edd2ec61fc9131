//! Ended in the middle, by any signal: figures of what there is, and nothing is left.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use quorlock_harness::{Cluster, eventually};

use crate::program::command;

/// Ends it while it does this, and looks at what is left.
fn ended_while(signal: Signal, at: &str, seconds: u64) {
    let fleet = Cluster::start(3);
    let urls = fleet.urls().join(",");
    let mut program =
        command(&format!("--nodes {urls} --danger-skip-quarantine --seconds {seconds} --json"));
    let child = program.command.spawn().unwrap();
    let is_at = || fleet.locks_left().iter().any(|(_, name)| contains(name, at.as_bytes()));
    eventually("it is there", Duration::from_secs(30), is_at);
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let ended = program.ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(ended.found["interrupted"], true);
    assert!(ended.found["left"].is_null() && ended.err.contains("once more"), "{}", ended.err);
    assert!(ended.picture.ends_with("</svg>\n"));
    assert_eq!(fleet.locks_left(), []);
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

#[test]
fn ctrl_c_leaves_nothing() {
    ended_while(Signal::SIGINT, "/renewal", 15);
}

/// Servers of its own, and all that they have written.
#[test]
fn killed_it_leaves_no_servers_and_no_files() {
    let temporary = tempfile::tempdir().unwrap();
    let mut program = command("--seconds 600");
    program.command.env("TMPDIR", temporary.path());
    let mut child = program.command.spawn().unwrap();
    let files = || std::fs::read_dir(temporary.path()).unwrap().count();
    let servers = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let dirs = all.filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok());
        dirs.filter(|dir| dir.starts_with(temporary.path())).count()
    };
    eventually("servers are there", Duration::from_secs(30), || servers() == 5);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("no server is left", Duration::from_secs(30), || servers() == 0);
    eventually("no file is left", Duration::from_secs(30), || files() == 0);
}

/// Where one of the two processes holds it, and the other stands in line.
#[test]
fn a_signal_in_a_hand_over_leaves_nothing() {
    ended_while(Signal::SIGTERM, "/processes", 15);
}

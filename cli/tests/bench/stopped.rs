//! Whoever ends it, in the middle: figures of what there is, and nothing is left.

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
    ended_while(Signal::SIGINT, "/lease/", 15);
}

/// Where one of the two processes holds it, and the other stands in line.
#[test]
fn a_signal_in_a_hand_over_leaves_nothing() {
    ended_while(Signal::SIGTERM, "/processes", 1);
}

//! Goal: servers of others are harmed only by the commands that were given for it, and are well again at the end.
//!
//! Method: servers of this test, which `kill -STOP` and `kill -CONT` stop and let go on by their numbers.

use std::{fs, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use quorlock_harness::{Cluster, Server, eventually};

use super::{Ended, chaos_with, command};

fn state(server: &Server) -> char {
    let status = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    status.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn with(fleet: &Cluster, handles: &[&str], args: &str) -> Ended {
    let urls = fleet.urls().join(",");
    let fixed = format!("--seed 2 --nodes {urls} --workers 2 --ttl 500ms {args}");
    chaos_with(fixed.split_whitespace().chain(handles.iter().copied()))
}

#[test]
fn nodes_of_others_are_stopped_by_the_command_that_was_given() {
    let fleet = Cluster::start(3);
    let dir = tempfile::tempdir().unwrap();
    for (number, server) in fleet.iter().enumerate() {
        let file = dir.path().join((number + 1).to_string());
        fs::write(file, server.pid().to_string()).unwrap();
    }
    let file = dir.path().join("{}").display().to_string();
    let (pause, unpause) =
        (format!("kill -STOP $(cat {file})"), format!("kill -CONT $(cat {file})"));
    let ended = with(&fleet, &["--pause", &pause, "--unpause", &unpause], "--seconds 18");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(fleet.iter().all(|server| state(server) != 'T'));
    let nodes = ended.picture.split("class=\"node\"").skip(1);
    let stopped = nodes.filter(|lane| lane.split("</g>").next().unwrap().contains("stopped"));
    assert!(stopped.count() > 0, "{}", ended.found);
}

/// As by a closed terminal, which ends most runs that nobody waits for.
#[test]
fn nodes_of_others_go_on_also_where_the_terminal_is_closed() {
    let fleet = Cluster::start(3);
    let dir = tempfile::tempdir().unwrap();
    for (number, server) in fleet.iter().enumerate() {
        let file = dir.path().join((number + 1).to_string());
        fs::write(file, server.pid().to_string()).unwrap();
    }
    let kill_each = |signal: &str| format!("kill -{signal} $(cat {}/{{}})", dir.path().display());
    let (pause, unpause) = (kill_each("STOP"), kill_each("CONT"));
    let urls = fleet.urls().join(",");
    let fixed = format!("--seed 2 --nodes {urls} --workers 2 --ttl 500ms --seconds 600");
    let handles = ["--pause", &pause, "--unpause", &unpause];
    let (mut command, _picture, _dir) = command(fixed.split_whitespace().chain(handles));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_stopped = || fleet.iter().any(|server| state(server) == 'T');
    eventually("a node is stopped", Duration::from_secs(60), is_stopped);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGHUP).unwrap();
    child.wait().unwrap();
    assert!(!is_stopped());
}

#[test]
fn commands_come_in_pairs_and_are_for_servers_of_somebody() {
    for (args, why) in [
        ("--pause true --nodes redis://a,redis://b,redis://c", "--unpause <COMMAND>"),
        ("--pause true --unpause true", "for servers of yours"),
    ] {
        let ended = chaos_with(args.split_whitespace());
        assert_eq!(ended.code, 64, "{args}: {}", ended.err);
        assert!(ended.err.contains(why), "{args}: {}", ended.err);
    }
}

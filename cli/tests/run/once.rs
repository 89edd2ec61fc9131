//! `run --once-per`: the command runs on the host that comes first, and on no other in the period, unless it fails.

use std::thread;

use nix::sys::signal::Signal;
use quorlock_harness::{Server, eventually};

use super::host::{Host, MS, SOON};

/// A day ends at noon, which may be now: then it may run once more.
const LONG: &str = "job --once-per 366d";

#[test]
fn the_command_runs_once_and_others_hear_that_it_is_done() {
    let host = Host::new();
    let first = host.run(LONG, "echo ran");
    assert_eq!((first.code, &*first.out, &*first.err), (0, "ran\n", ""));
    let second = host.run(LONG, "echo ran");
    assert_eq!((second.code, &*second.out), (0, ""));
    assert!(second.err.starts_with("quorlock: `job` is already done "), "{}", second.err);
    assert!(second.err.contains("/sh`"), "by whom: {}", second.err);
    let quiet = host.run(&format!("{LONG} --quiet"), "echo ran");
    assert_eq!((quiet.code, &*quiet.out, &*quiet.err), (0, "", ""));
    let json = host.run(&format!("{LONG} --json"), "echo ran");
    let events: Vec<serde_json::Value> =
        json.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["waiting", "already_done", "over"]);
    assert_eq!(events[2]["status"], 0);
    // It is no lock, and another name is other work.
    assert_eq!(host.run("job --try", "echo ran").out, "ran\n");
    assert_eq!(host.run("other --once-per 366d", "echo ran").out, "ran\n");
}

#[test]
fn a_command_that_fails_or_is_killed_has_not_done_it() {
    let host = Host::new();
    for (script, code) in [("exit 1", 1), ("kill -9 $$", 137), ("exit 0", 0)] {
        assert_eq!(host.run(LONG, script).code, code, "{script}");
    }
    assert_eq!(host.run(LONG, "echo ran").out, "");
}

#[test]
fn of_many_hosts_that_start_it_at_once_one_runs_it() {
    let host = Host::new();
    let all: Vec<_> = thread::scope(|scope| {
        let start = |_| scope.spawn(|| host.shell(LONG, "echo ran; sleep 0.1").ended());
        let started: Vec<_> = (0..6).map(start).collect();
        started.into_iter().map(|ended| ended.join().unwrap()).collect()
    });
    assert!(all.iter().all(|ended| ended.code == 0), "{all:?}");
    assert_eq!(all.iter().filter(|ended| ended.out == "ran\n").count(), 1, "{all:?}");
    // What the others had under which they heard that it is done.
    assert_eq!(host.fleet.locks_left(), []);
}

#[test]
fn a_command_that_is_asked_to_end_has_not_done_it() {
    let host = Host::new();
    let script = "trap 'exit 0' TERM; echo begun > begun; sleep 1000 & wait";
    let running = host.shell(LONG, script);
    host.written("begun");
    running.supervisor().signal(Signal::SIGTERM);
    assert_eq!(running.ended().code, 0);
    assert_eq!(host.run(LONG, "echo ran").out, "ran\n");
}

/// For longer than ten node timeouts, and less than the ttl.
#[test]
fn it_goes_on_saying_that_it_is_done_while_its_lease_holds() {
    let host = Host::hasty();
    let script = "echo begun > begun; until [ -e go ]; do sleep 0.05; done";
    let running = host.shell(LONG, script);
    host.written("begun");
    host.fleet.iter().take(2).for_each(Server::pause);
    std::fs::write(host.file("go"), "").unwrap();
    thread::sleep(2_500 * MS);
    host.fleet.iter().take(2).for_each(Server::resume);
    let ended = running.ended();
    assert_eq!((ended.code, &*ended.err), (0, ""));
    assert_eq!(host.run(LONG, "echo ran").out, "");
}

#[test]
fn a_holder_that_is_killed_before_it_has_said_so_is_told_of() {
    let host = Host::new();
    let script = "kill -9 $(pgrep -P $PPID -f 'hold-for-ru[n]'); exit 0";
    let ended = host.run(&format!("{LONG} --ttl 2s"), script);
    // The end of either may be seen first.
    assert!(ended.err.contains("may be done again") || ended.code == 76, "{ended:?}");
    assert_eq!(host.run(LONG, "echo ran").out, "ran\n");
}

#[test]
fn a_host_that_is_killed_at_the_command_leaves_it_to_another() {
    let host = Host::new();
    let running = host.shell(&format!("{LONG} --ttl 2s"), "echo begun; sleep 1000");
    eventually("it runs", SOON, || running.command().line().contains("sleep 1000"));
    let (supervisor, holder) = (running.supervisor(), running.holder());
    holder.signal(Signal::SIGKILL);
    supervisor.signal(Signal::SIGKILL);
    drop(running);
    assert_eq!(host.run(LONG, "echo ran").out, "ran\n");
    assert_eq!(host.run(LONG, "echo ran").out, "");
}

#[test]
fn what_cannot_be_once_per_period_is_refused() {
    let host = Host::new();
    for args in
        ["--elect", "--shared", "--semaphore 2", "--also b", "--hold-at-least 1s", "--once-per 1y"]
    {
        let ended = host.run(&format!("job --once-per 1d {args}"), "echo ran");
        assert_eq!((ended.code, &*ended.out), (64, ""), "{args}: {}", ended.err);
    }
    let ended = host.run("job --once-per 367d", "echo ran");
    assert_eq!((ended.code, &*ended.out), (64, ""), "{}", ended.err);
    assert!(ended.err.contains("ask for 1 ms to 366 days"), "{}", ended.err);
    let ended = host.run("job --once-per 1d --classic", "echo ran");
    assert_eq!((ended.code, &*ended.out), (64, ""), "{}", ended.err);
}

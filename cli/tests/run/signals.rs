//! Signals: passed on to all of the command; and those that come while it waits in line.

use nix::sys::signal::Signal;
use quorlock_harness::eventually;

use super::host::{Host, MS, Process, SOON};

/// A command that notes each signal that it gets, and goes on.
const TELLS: &str = "for s in HUP INT QUIT TERM USR1 USR2; do trap \"echo $s >> got\" $s; done; \
    echo > ready; while :; do sleep 0.02; done";

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    let host = Host::new();
    let running = host.shell("job", TELLS);
    host.written("ready");
    let all = [
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
    ];
    for (index, (signal, name)) in all.into_iter().enumerate() {
        running.supervisor().signal(signal);
        eventually(name, SOON, || host.read("got").lines().count() == index + 1);
        assert_eq!(host.read("got").lines().last(), Some(name));
    }
    assert_eq!(host.run("job --try", "true").code, 75, "it still runs");
    drop(running);
}

#[test]
fn a_signal_that_ends_the_command_is_its_status_and_the_lock_is_given_back() {
    let host = Host::new();
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        // Without a shell around it: a shell that has just started its child may itself lose SIGINT.
        let running = host.shell("job", "echo > ready; exec sleep 60");
        host.written("ready");
        running.supervisor().signal(signal);
        let ended = running.ended();
        assert_eq!((ended.code, &*ended.err), (code, ""));
        host.is_free("job");
        std::fs::remove_file(host.file("ready")).unwrap();
    }
    // One that cleans up has a status of its own.
    let running =
        host.shell("job", "trap 'exit 5' TERM; echo > ready; while :; do sleep 0.02; done");
    host.written("ready");
    running.supervisor().signal(Signal::SIGTERM);
    assert_eq!(running.ended().code, 5);
}

#[test]
fn one_who_waits_in_line_leaves_it_at_once() {
    let host = Host::new();
    let first = host.shell("job", "echo > ready; sleep 60");
    host.written("ready");
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let waits = host.shell("job", "echo > ran");
        let holder = waits.holder();
        waits.supervisor().signal(signal);
        assert_eq!(waits.ended().code, code);
        holder.ends();
    }
    first.supervisor().signal(Signal::SIGTERM);
    assert_eq!(first.ended().code, 143);
    host.is_free("job");
    assert_eq!(host.read("ran"), "");
}

#[test]
fn what_it_leaves_behind_in_its_group_ends_with_it() {
    let host = Host::new();
    let ended = host.run(
        "job",
        "sleep 60 & echo $! > left; sh -c 'trap : TERM; echo $$ > hard; \
        while :; do sleep 0.02; done' & while ! [ -s hard ]; do sleep 0.01; done; exit 3",
    );
    assert_eq!(ended.code, 3, "{}", ended.err);
    for file in ["left", "hard"] {
        assert!(Process::of(&host.read(file)).is_gone(), "{file}");
    }
    host.is_free("job");
}

#[test]
fn what_makes_a_session_of_its_own_escapes() {
    // As the documents say.
    let host = Host::new();
    let ended = host.run(
        "job",
        "setsid sh -c 'echo $$ > left; exec sleep 30' & \
        while ! [ -s left ]; do sleep 0.01; done",
    );
    assert_eq!(ended.code, 0, "{}", ended.err);
    let left = Process::of(&host.written("left"));
    assert!(!left.is_gone());
    left.signal(Signal::SIGKILL);
    host.is_free("job");
}

#[test]
fn one_that_ends_all_processes_at_once_ends_the_command_and_no_lease_stays() {
    let host = Host::new();
    // As systemd does with KillMode=control-group. This one needs a while for its end.
    let script =
        "trap 'sleep 0.5; echo > cleaned; exit 7' TERM; echo > ready; while :; do sleep 0.02; done";
    let running = host.shell("job --ttl 8s", script);
    host.written("ready");
    let all = [running.holder(), running.supervisor(), running.command()];
    all.into_iter().for_each(|process| process.signal(Signal::SIGTERM));
    let ended = running.ended();
    assert_eq!(ended.code, 7);
    assert!(!ended.err.contains("quorlock"), "{}", ended.err);
    host.written("cleaned");
    host.is_free("job");
}

#[test]
fn one_that_ends_all_processes_at_once_may_come_at_any_time() {
    let host = Host::new();
    for delay in 0..25 {
        let running = host.shell("job --ttl 8s", "exec sleep 60");
        std::thread::sleep(delay * 3 * MS);
        let all = [running.supervisor().children(), vec![running.supervisor()]].concat();
        // The supervisor may not listen for signals yet, and then ends as any program does.
        all.into_iter().for_each(|process| process.signal(Signal::SIGTERM));
        let ended = running.ended();
        assert_eq!((ended.code, &*ended.err), (143, ""), "after {delay} times 3 ms");
    }
    host.is_free("job");
}

#[test]
fn the_one_that_holds_survives_what_comes_before_it_listens() {
    let host = Host::new();
    for _ in 0..20 {
        let running = host.shell("job --ttl 8s", "exec sleep 60");
        // As soon as the holder is there, and long before the supervisor is asked to end.
        let mut holder = None;
        while holder.is_none() {
            holder = running.supervisor().children().first().copied();
        }
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGALRM] {
            holder.unwrap().signal(signal);
        }
        let command = running.command();
        running.supervisor().signal(Signal::SIGTERM);
        let ended = running.ended();
        assert_eq!((ended.code, &*ended.err), (143, ""));
        command.ends();
    }
    host.is_free("job");
}

#[test]
fn under_nohup_the_end_of_a_terminal_is_not_passed_on() {
    let host = Host::new();
    let mut command = std::process::Command::new("nohup");
    let script = "echo > ready; while ! [ -e go ]; do sleep 0.02; done";
    command.arg(env!("CARGO_BIN_EXE_quorlock")).args(["run", "job", "--", "sh", "-c", script]);
    command.env("QUORLOCK_NODES", host.fleet.urls().join(",")).current_dir(host.file(""));
    let running = host.start(command);
    host.written("ready");
    for process in [running.supervisor(), running.holder(), running.command()] {
        process.signal(Signal::SIGHUP);
    }
    std::fs::write(host.file("go"), "").unwrap();
    assert_eq!(running.ended().code, 0);
}

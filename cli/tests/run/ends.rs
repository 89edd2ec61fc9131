//! Whatever is killed or stopped: the command ends before another can hold the resource.

use std::time::Instant;

use nix::sys::signal::{SigSet, Signal};
use quorlock_harness::eventually;

use super::host::{Host, MS, Process, Running, SECOND, SOON};

/// A command that notes that it runs, and each time that it is asked to end, and goes on; with a process behind it that
/// does the same.
const STUBBORN: &str = "sh -c \"trap 'echo >> behind.asked' TERM; echo \\$\\$ > behind; while :; do sleep 0.02; done\" & \
    trap 'echo >> asked' TERM; echo $QUORLOCK_TOKEN > token; echo $$ > first; while :; do sleep 0.02; done";

struct Started {
    running: Running,
    command: Process,
    behind: Process,
}

impl Started {
    fn new(host: &Host, args: &str) -> Self {
        let running = host.shell(args, STUBBORN);
        let (command, behind) = (host.written("first"), host.written("behind"));
        Self { running, command: Process::of(&command), behind: Process::of(&behind) }
    }

    /// How often both have been asked to end, a line each.
    fn asked(&self, host: &Host) -> [String; 2] {
        ["asked", "behind.asked"].map(|file| host.read(file))
    }

    /// The next run gets it only when all of the command is gone.
    #[track_caller]
    fn is_gone_before_the_next(&self, host: &Host) {
        let (command, behind) = (&self.command.0, &self.behind.0);
        let script = format!("LC_ALL=C cat /proc/{command}/stat /proc/{behind}/stat 2>&1; true");
        let ended = host.run("job --wait 60s", &script);
        assert_eq!((ended.code, ended.out.lines().count()), (0, 2), "it looked: {}", ended.err);
        let lives = |line: &&str| !line.contains("No such file") && !line.contains(") Z ");
        assert_eq!(ended.out.lines().find(lives), None, "{}", ended.err);
    }
}

#[test]
fn the_one_that_holds_is_killed() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 3s");
    started.running.holder().signal(Signal::SIGKILL);
    started.is_gone_before_the_next(&host);
    let ended = started.running.ended();
    assert_eq!(ended.code, 76);
    assert!(ended.err.contains("`job` is lost, and the command is ended: "), "{}", ended.err);
    assert_eq!(host.read("asked"), "\n", "asked once, and then killed");
}

#[test]
fn the_one_that_holds_is_stopped() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 3s");
    started.running.holder().pause();
    started.is_gone_before_the_next(&host);
    let ended = started.running.ended();
    assert_eq!(ended.code, 76);
    assert!(ended.err.contains("not renewed in time"), "{}", ended.err);
    assert_eq!(host.read("asked"), "\n");
}

#[test]
fn the_one_that_watches_is_killed() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 3s");
    let holder = started.running.holder();
    started.running.supervisor().signal(Signal::SIGKILL);
    started.is_gone_before_the_next(&host);
    assert_eq!(started.running.ended().code, 137);
    holder.ends();
}

#[test]
fn the_one_that_watches_is_stopped_while_the_lease_is_renewed() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 2s");
    started.running.supervisor().pause();
    // Long beyond the ttl: the holder renews it.
    std::thread::sleep(4 * SECOND);
    assert_eq!(host.run("job --try", "true").code, 75);
    assert!(!started.command.is_gone() && !started.behind.is_gone());
    started.running.supervisor().resume();
    std::thread::sleep(SECOND);
    assert!(!started.command.is_gone(), "{}", started.running.errors());
    assert_eq!(host.read("asked"), "");
    drop(started);
}

#[test]
fn the_one_that_watches_is_stopped_and_the_lease_is_lost() {
    ended_by_the_one_that_holds(&Host::hasty());
}

/// The renewal is answered after its lack has ended the command: nodes may answer for as long as the lease lasts.
#[test]
fn the_one_that_watches_is_stopped_and_the_lease_comes_back() {
    ended_by_the_one_that_holds(&Host::new());
}

#[test]
fn the_one_that_watches_is_stopped_and_the_delay_is_kept() {
    let host = Host::new();
    let started = Started::new(&host, "job --ttl 2s --lock-delay 5s");
    started.running.supervisor().pause();
    host.fleet[0].pause();
    host.fleet[1].pause();
    started.command.ends();
    host.fleet[0].resume();
    host.fleet[1].resume();
    let next = host.run("job --wait 3s", "true");
    assert_eq!(next.code, 75, "{}", next.err);
    started.running.supervisor().resume();
    assert_eq!(started.running.ended().code, 76);
}

fn ended_by_the_one_that_holds(host: &Host) {
    let started = Started::new(host, "job --ttl 2s");
    started.running.supervisor().pause();
    host.fleet[0].pause();
    host.fleet[1].pause();
    // Only the holder can end it.
    started.behind.ends();
    started.command.ends();
    assert_eq!(host.read("asked"), "\n");
    host.fleet[0].resume();
    host.fleet[1].resume();
    started.is_gone_before_the_next(host);
    started.running.supervisor().resume();
    assert_eq!(started.running.ended().code, 76);
}

#[test]
fn the_one_that_watches_is_stopped_as_it_starts_the_command() {
    let host = Host::hasty();
    let script = "sh -c 'echo $$ > behind; exec sleep 60' & echo $$ > first; exec sleep 60";
    let stopped = || {
        let running = host.shell("job --ttl 2s", script);
        // The kernel keeps the supervisor until its child has called `exec`: it is stopped before its next step.
        while running.supervisor().children().len() < 2 {}
        running.supervisor().pause();
        running
    };
    // Killed in the end: a command that had been started would be known to nobody.
    for _ in 0..3 {
        let running = stopped();
        let late = Instant::now();
        while host.read("behind").is_empty() && late.elapsed() < 50 * MS {}
        running.supervisor().signal(Signal::SIGKILL);
        let ended = host.run("job --wait 15s", "true");
        assert_eq!(ended.code, 0, "{}", ended.err);
        for file in ["first", "behind"].map(|file| host.read(file)) {
            assert!(file.is_empty() || Process::of(&file).is_gone(), "{file}");
        }
        drop(running);
    }
    // Stopped for longer than the lease: another run has it, and this one waits in line anew.
    let running = loop {
        ["first", "behind"].iter().for_each(|file| drop(std::fs::remove_file(host.file(file))));
        let running = stopped();
        let other = host.run("job --wait 15s", "cat first behind");
        assert_eq!(other.out, "");
        if other.code != 75 {
            break running;
        }
        // On a busy machine it was stopped a step later, having said that the command runs: then the lease is kept.
        running.supervisor().signal(Signal::SIGKILL);
    };
    running.supervisor().resume();
    host.written("behind");
    running.supervisor().signal(Signal::SIGTERM);
    assert_eq!(running.ended().code, 143);
    host.is_free("job");
}

#[test]
fn both_are_killed_at_once() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 2s");
    for process in [started.running.holder(), started.running.supervisor()] {
        process.signal(Signal::SIGKILL);
    }
    // The command itself ends with its parent. What it has started is not known to anybody, as the documents say.
    started.command.ends();
    assert!(!started.behind.is_gone());
    started.behind.signal(Signal::SIGKILL);
    assert_eq!(host.run("job", "true").code, 0);
}

#[test]
fn both_are_stopped_which_is_the_case_for_tokens() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 3s");
    let both = [started.running.holder(), started.running.supervisor()];
    both.iter().for_each(|process| process.signal(Signal::SIGSTOP));
    both.iter().for_each(|process| process.pause());
    // No process can end it, and another run gets the lock beside it, with a larger token.
    let next = host.run("job --wait 60s", "echo $QUORLOCK_TOKEN");
    assert_eq!(next.code, 0, "{}", next.err);
    let token = |text: &str| text.trim().parse::<u64>().unwrap();
    assert!(token(&host.read("token")) < token(&next.out), "{}", next.out);
    assert!(!started.command.is_gone());
    // The command ends as soon as one of them goes on.
    started.running.supervisor().resume();
    started.command.ends();
    started.behind.ends();
    started.running.holder().resume();
    assert_eq!(started.running.ended().code, 76);
}

#[test]
fn a_command_that_does_not_end_is_killed_in_time() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 9s --grace 2s");
    host.fleet[0].pause();
    host.fleet[1].pause();
    eventually("it is asked to end", SOON, || host.read("asked") == "\n");
    // The nodes give the lock to others as soon as the lease is over.
    host.fleet[0].resume();
    host.fleet[1].resume();
    started.is_gone_before_the_next(&host);
    assert_eq!(started.running.ended().code, 76);
    assert_eq!(host.read("asked"), "\n", "asked once, and then killed");
}

/// What happens after the first SIGTERM. There must be no second one.
#[derive(Clone, Copy, Debug)]
enum Behind {
    Nothing,
    WatcherIsKilled,
    WatcherIsStopped,
    HolderIsStopped,
}

#[test]
fn a_majority_that_is_lost_asks_once_and_kills_after_the_grace() {
    use Behind::{HolderIsStopped, Nothing, WatcherIsKilled, WatcherIsStopped};
    let all = [Nothing, WatcherIsKilled, WatcherIsStopped, HolderIsStopped];
    // Each waits most of the time.
    std::thread::scope(|scope| {
        for behind in all {
            scope.spawn(move || asks_once(behind));
        }
    });
}

fn asks_once(behind: Behind) {
    let host = Host::hasty();
    // Half a grace is long beside whatever keeps a process waiting.
    let started = Started::new(&host, "job --ttl 9s --grace 3s");
    let (watcher, holder) = (started.running.supervisor(), started.running.holder());
    host.fleet[0].pause();
    host.fleet[1].pause();
    eventually("all are asked", SOON, || started.asked(&host) == ["\n", "\n"]);
    match behind {
        Behind::Nothing => {}
        Behind::WatcherIsKilled => watcher.signal(Signal::SIGKILL),
        Behind::WatcherIsStopped => watcher.pause(),
        Behind::HolderIsStopped => holder.pause(),
    }
    started.behind.ends();
    started.command.ends();
    assert_eq!(started.asked(&host), ["\n", "\n"], "{behind:?}: once, and then killed");
    host.fleet[0].resume();
    host.fleet[1].resume();
    started.is_gone_before_the_next(&host);
    watcher.resume();
    holder.resume();
    let killed = matches!(behind, Behind::WatcherIsKilled);
    assert_eq!(started.running.ended().code, if killed { 137 } else { 76 }, "{behind:?}");
}

/// The holder has asked in its place.
#[test]
fn one_that_watches_and_was_stopped_asks_nobody_a_second_time() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 9s --grace 3s");
    let watcher = started.running.supervisor();
    watcher.pause();
    host.fleet[0].pause();
    host.fleet[1].pause();
    eventually("all are asked", SOON, || started.asked(&host) == ["\n", "\n"]);
    watcher.resume();
    started.behind.ends();
    started.command.ends();
    assert_eq!(started.asked(&host), ["\n", "\n"], "once, and then killed");
    let ended = started.running.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
}

#[test]
fn a_node_that_is_killed_is_no_loss() {
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 2s");
    host.fleet[1].kill();
    std::thread::sleep(4 * SECOND);
    assert_eq!(started.running.errors(), "");
    assert!(!started.command.is_gone() && host.read("asked").is_empty());
    started.running.command().signal(Signal::SIGKILL);
    let ended = started.running.ended();
    assert_eq!(ended.code, 137, "{}", ended.err);
    host.is_free("job");
}

#[test]
fn a_node_that_is_down_does_not_keep_the_end_waiting() {
    let script = "echo > ready; while ! [ -e go ]; do sleep 0.01; done";
    for node in 0..3 {
        let host = Host::patient();
        // A run that waited for that node would take longer than this test waits.
        let patience = "--set close_timeout=60s --set node_timeout=10s";
        let running = host.shell(&format!("job {patience}"), script);
        host.written("ready");
        host.fleet[node].kill();
        std::fs::write(host.file("go"), "").unwrap();
        let ended = running.ended();
        assert_eq!((ended.code, &*ended.err), (0, ""));
    }
}

#[test]
fn a_leader_that_loses_is_ended_and_leads_again() {
    let host = Host::hasty();
    let running =
        host.shell("leader --elect --ttl 2s", "echo $QUORLOCK_TOKEN >> terms; exec sleep 60");
    let terms = |count: usize| {
        eventually("it leads", SOON, || host.read("terms").lines().count() == count);
        let terms = host.read("terms");
        terms.lines().map(|term| term.parse().unwrap()).collect::<Vec<u64>>()
    };
    terms(1);
    let first = running.command();
    // A majority answers nobody for a while.
    host.fleet[0].pause();
    host.fleet[2].pause();
    first.ends();
    host.fleet[0].resume();
    host.fleet[2].resume();
    let both = terms(2);
    assert!(both[0] < both[1], "{both:?}");
    // The holder is killed, and replaced.
    let (second, holder) = (running.command(), running.holder());
    holder.signal(Signal::SIGKILL);
    second.ends();
    let all = terms(3);
    assert!(all[1] < all[2], "{all:?}");
    // And stopped.
    let (third, holder) = (running.command(), running.holder());
    holder.pause();
    third.ends();
    let all = terms(4);
    assert!(all[2] < all[3], "{all:?}");
    holder.ends();
    running.supervisor().signal(Signal::SIGTERM);
    assert_eq!(running.ended().code, 143);
}

#[test]
fn the_status_is_the_commands_where_the_lease_cannot_be_given_back() {
    let host = Host::hasty();
    let running =
        host.shell("job --ttl 9s", "echo > ready; while ! [ -e go ]; do sleep 0.02; done; exit 6");
    host.written("ready");
    host.fleet[0].kill();
    host.fleet[1].kill();
    std::fs::write(host.file("go"), "").unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, 6);
    assert!(ended.err.starts_with("quorlock: "), "it says so: {}", ended.err);
}

#[test]
fn one_that_is_stopped_in_line_holds_nothing() {
    let host = Host::hasty();
    let first = host.shell("job --ttl 1s", "echo > ready; sleep 60");
    host.written("ready");
    let second = host.shell("job --ttl 1s", "echo > second");
    // It may stand in line already, or be on its way: its holder, another process, goes on.
    second.holder();
    second.supervisor().pause();
    first.supervisor().signal(Signal::SIGTERM);
    assert_eq!(first.ended().code, 143);
    // Its turn comes, but its command is not started.
    assert_eq!(host.run("job --ttl 1s --wait 10s", "true").code, 0);
    assert_eq!(host.read("second"), "");
    // It stands in line anew.
    second.supervisor().resume();
    let ended = second.ended();
    assert_eq!((ended.code, &*host.read("second")), (0, "\n"), "{}", ended.err);
}

#[test]
fn the_grace_is_taken_out_of_the_lease() {
    let host = Host::hasty();
    let running = host.shell(
        "job --ttl 3s --grace 0s",
        "trap 'echo > asked' TERM; echo > ready; \
        while :; do sleep 0.02; done",
    );
    host.written("ready");
    let command = running.command();
    running.holder().signal(Signal::SIGKILL);
    // Killed at once: there is no grace.
    command.ends();
    assert_eq!(running.ended().code, 76);
}

#[test]
fn where_its_keys_are_taken_away_it_has_the_grace_and_no_longer() {
    // As the documents say: deleting the keys takes the lock away while the command runs.
    let host = Host::hasty();
    let started = Started::new(&host, "job --ttl 6s --grace 1s");
    host.fleet.flush();
    eventually("it is asked to end", SOON, || host.read("asked") == "\n");
    started.is_gone_before_the_next(&host);
    let ended = started.running.ended();
    assert_eq!(ended.code, 76);
    assert!(ended.err.contains("`job` is lost, and the command is ended: "), "{}", ended.err);
}

#[test]
fn a_holder_that_is_stopped_does_not_keep_the_end_waiting() {
    let host = Host::hasty();
    let running = host.shell("job --ttl 1s", "echo > ready; sleep 60");
    host.written("ready");
    running.holder().pause();
    assert_eq!(running.ended().code, 76);
}

/// The process that becomes the command looks at the clock last: it may have been stopped with all others.
#[test]
fn nothing_is_started_when_its_time_is_over() {
    let host = Host::hasty();
    for (before, code) in [("1", 76), ("18446744073709551615", 0)] {
        let file = host.file(before);
        let mut step = std::process::Command::new(env!("CARGO_BIN_EXE_quorlock"));
        step.args(["become", "--parent", &std::process::id().to_string(), "--before", before]);
        step.arg("--").arg("touch").arg(&file);
        // As the supervisor does.
        let go = SigSet::from(Signal::SIGCONT);
        go.thread_block().unwrap();
        let running = host.start(step);
        go.thread_unblock().unwrap();
        running.supervisor().resume();
        let ended = running.ended();
        assert_eq!((ended.code, file.exists()), (code, code == 0), "{}", ended.err);
    }
}

//! Exit statuses, the environment of the command, and how the command line is read.

use std::{
    ffi::OsString,
    os::unix::{ffi::OsStringExt as _, fs::symlink},
};

use nix::sys::signal::Signal;
use quorlock_harness::eventually;

use super::host::{Host, Process, SOON};

#[test]
fn the_status_is_that_of_the_command() {
    let host = Host::new();
    for (script, code) in [("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("exit 255", 255)] {
        let ended = host.run("job", script);
        assert_eq!((ended.code, &*ended.err), (code, ""), "{script}");
    }
    // The status of a signal, as in a shell.
    assert_eq!(host.run("job", "kill -9 $$").code, 137);
    assert_eq!(host.run("job", "kill -15 $$").code, 143);
    host.is_free("job");
}

#[test]
fn a_command_that_cannot_be_started_has_the_status_of_a_shell_and_leaves_no_lock() {
    let host = Host::new();
    let of =
        |command: &[&str]| host.start(host.command([&["job", "--"], command].concat())).ended();
    let ended = of(&["no-such-command-anywhere"]);
    assert_eq!(ended.code, 127);
    assert!(ended.err.contains("no-such-command-anywhere: "), "{}", ended.err);
    // It is there, and is no program.
    std::fs::write(host.file("text"), "text").unwrap();
    assert_eq!(of(&["./text"]).code, 126);
    assert_eq!(of(&["/"]).code, 126);
    host.is_free("job");
}

#[test]
fn arguments_that_are_too_long_for_the_system_leave_no_lock() {
    let host = Host::new();
    // One argument may be 128 KiB long.
    let long = "x".repeat(200 * 1024);
    let command = host.command(["job", "--", "true", &long]).spawn();
    // The system says so already here.
    assert!(command.is_err());
    // Together they fit once, and not with what is put before them.
    let mut fits = host.command(["job", "--"]);
    fits.args((0..10_000).map(|_| "x".repeat(100)));
    assert_eq!(host.start(fits).ended().code, 127);
    host.is_free("job");
}

#[test]
fn the_command_finds_what_it_holds_in_its_environment() {
    let host = Host::new();
    let script = "echo $QUORLOCK_RESOURCE $QUORLOCK_TOKEN $QUORLOCK_OWNER ${QUORLOCK_SLOT-none}";
    let words = |ended: super::host::Ended| {
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let [first, second] = [words(host.run("job:1", script)), words(host.run("job:1", script))];
    assert_eq!((&*first[0], &*first[3]), ("job:1", "none"));
    let token = |words: &[String]| words[1].parse::<u64>().unwrap();
    assert!(token(&first) < token(&second), "{first:?} {second:?}");
    assert_ne!(first[2], second[2], "the owners");
    let with_slot = words(host.run("pool --semaphore 2", script));
    assert!(["0", "1"].contains(&&*with_slot[3]), "{with_slot:?}");
    // Nothing of a lease around it.
    let classic = words(host.run("old --classic", "echo ${QUORLOCK_TOKEN-none}"));
    assert_eq!(classic, ["none"]);
}

#[test]
fn a_run_in_a_run_has_its_own_lease_and_hides_that_around_it() {
    let host = Host::new();
    let run = env!("CARGO_BIN_EXE_quorlock");
    let show = "echo $QUORLOCK_RESOURCE ${QUORLOCK_TOKEN-none} ${QUORLOCK_SLOT-none} ${QUORLOCK_TERM-none}";
    let script = format!("{show}; {run} run inner --classic -- sh -c '{show}'; {show}");
    let ended = host.run("outer --semaphore 3", &script);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines[1], "inner none none none");
    assert!(lines[0].starts_with("outer ") && lines[0] == lines[2], "{lines:?}");
    let ended = host.run("leader --elect", &script);
    assert_eq!(ended.out.lines().nth(1), Some("inner none none none"), "{}", ended.err);
    // It does not get what is held around it, and says who has it.
    let ended = host.run("outer", &format!("{run} run outer --try -- true; echo $?"));
    assert_eq!((ended.code, &*ended.out), (0, "75\n"), "{}", ended.err);
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let host = Host::new();
    let of = |args: &str| {
        let ended = host.run(args, "echo ran");
        assert_eq!(ended.out, "", "{args}");
        (ended.code, ended.err)
    };
    for usage in [
        "job --no-such-option",
        "job --try --wait 1s",
        "job --ttl 5",
        "job --ttl 1",
        "job --shared --semaphore 2",
        "job --elect --also other",
        "job --elect --hold-at-least 5s",
        "job --semaphore 0",
        "job --busy-status 256",
        "job --json --quiet",
        "job --ttl 9s --grace 4s",
    ] {
        let (code, err) = of(usage);
        assert_eq!(code, 64, "{usage}: {err}");
        assert!(!err.is_empty());
    }
    host.is_free("job");
    assert!(of("job --wait 9999999999999d").1.contains("it is too long"));
    // A name is shown with its control codes escaped.
    let named = |how: &'static str| {
        [&["\u{1b}[2Jjob", how], &["--", "sh", "-c", "echo > ready; sleep 60"][..]].concat()
    };
    let first = host.start(host.command(named("--elect")));
    host.written("ready");
    let busy = host.start(host.command(named("--try"))).ended();
    assert!(busy.err.starts_with("quorlock: `\\u{1b}[2Jjob`: "), "{}", busy.err);
    drop(first);
    for config in ["job --nodes nonsense", "job --set no_such=1s", "job --set ttl=-1"] {
        let (code, err) = of(config);
        assert_eq!(code, 78, "{config}: {err}");
    }
    let in_environment = |name: &str, value: &str| {
        let mut command = host.command(["job", "--", "echo", "ran"]);
        command.env(name, value);
        host.start(command).ended()
    };
    let ended = in_environment("QUORLOCK_TTTL", "5s");
    assert_eq!((ended.code, &*ended.out), (78, ""));
    assert!(ended.err.contains("did you mean `QUORLOCK_TTL`?"), "{}", ended.err);
    let mut command = host.command(["job", "--", "echo", "ran"]);
    command.env_remove("QUORLOCK_NODES");
    let ended = host.start(command).ended();
    assert_eq!(ended.code, 78);
    assert!(ended.err.contains("QUORLOCK_NODES: it is not set"), "{}", ended.err);
}

#[test]
fn what_a_wrong_url_holds_is_not_shown() {
    let host = Host::new();
    let ended = host.run("job --nodes redis://app:hunter2@,redis://b", "true");
    assert_eq!(ended.code, 78, "{}", ended.err);
    assert!(!ended.err.contains("hunter2"), "{}", ended.err);
}

#[test]
fn nodes_that_do_not_answer_are_a_status_of_their_own() {
    let host = Host::new();
    host.fleet[0].kill();
    assert_eq!(host.run("job", "true").code, 0, "one of three may be down");
    host.fleet[1].kill();
    for how in ["--try", "--wait 1s"] {
        let ended = host.run(&format!("job {how}"), "echo ran");
        assert_eq!((ended.code, &*ended.out), (69, ""), "{how}: {}", ended.err);
    }
}

/// The rest cannot become a quorum: the run says so at once, however long it would wait.
#[test]
fn nodes_that_refuse_are_settings_that_are_wrong() {
    let host = Host::new();
    let refuse = |node: usize| host.fleet[node].run(&["CONFIG", "SET", "requirepass", "sesame"]);
    refuse(0);
    let ended = host.run("job", "echo ran");
    assert_eq!((ended.code, &*ended.out), (0, "ran\n"), "one of three: {}", ended.err);
    refuse(2);
    // `ended` waits for less than these would.
    for how in ["", "--try", "--wait 300s", "--elect", "--semaphore 2", "--shared"] {
        let ended = host.run(&format!("job {how}"), "echo ran");
        assert_eq!((ended.code, &*ended.out), (78, ""), "{how}: {}", ended.err);
        let says = |part: &str| assert!(ended.err.contains(part), "{how}: {part}: {}", ended.err);
        says("2 of 3 nodes cannot vote as configured");
        says("it needs a password, and the URL has none");
        says(&format!("127.0.0.1:{}", host.fleet[2].port()));
    }
}

/// Of two that are left one may come back.
#[test]
fn a_node_that_refuses_beside_one_that_is_down_is_waited_for() {
    let host = Host::new();
    host.fleet[0].run(&["CONFIG", "SET", "requirepass", "sesame"]);
    host.fleet[1].pause();
    let ended = host.run("job --try", "echo ran");
    assert_eq!((ended.code, &*ended.out), (69, ""), "{}", ended.err);
    assert!(ended.err.contains("it needs a password"), "{}", ended.err);
    let waits = host.shell("job", "echo ran");
    eventually("it says so", SOON, || waits.errors().contains("quorlock: waits for nodes: "));
    host.fleet[1].resume();
    let ended = waits.ended();
    assert_eq!((ended.code, &*ended.out), (0, "ran\n"), "{}", ended.err);
}

#[test]
fn what_it_waits_for_is_said_and_it_goes_on_when_they_answer() {
    let host = Host::new();
    host.fleet[0].pause();
    host.fleet[1].pause();
    for kind in ["", "--elect"] {
        let waits = host.shell(&format!("job {kind}"), "echo >> ran");
        eventually("it says so", SOON, || waits.errors().contains("quorlock: waits for nodes: "));
        waits.supervisor().signal(Signal::SIGTERM);
        assert_eq!(waits.ended().code, 143);
    }
    let waits = ["", "--elect"].map(|kind| host.shell(&format!("job {kind}"), "echo >> ran"));
    waits.iter().for_each(|waits| eventually("it says so", SOON, || !waits.errors().is_empty()));
    host.fleet[0].resume();
    host.fleet[1].resume();
    for waits in waits {
        let ended = waits.ended();
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
    assert_eq!(host.read("ran"), "\n\n");
}

#[test]
fn arguments_are_passed_on_byte_by_byte() {
    let host = Host::new();
    let bytes = OsString::from_vec(b"a\xff\n b".to_vec());
    let show = ["job", "--", "sh", "-c", r#"printf '[%s]' "$@""#, "sh"].map(OsString::from);
    let more = [bytes, "--try".into(), "--".into(), "".into(), "-x".into()];
    let mut command = host.command(show.into_iter().chain(more));
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"[a\xff\n b][--try][--][][-x]", "{output:?}");
    // Without `--`, and with options behind the resource.
    let plain = host.start(host.command(["--wait", "9s", "job", "--quiet", "echo", "-n", "--try"]));
    assert_eq!(plain.ended().out, "--try");
    let mut command = host.command([OsString::from_vec(b"\xff".to_vec())]);
    let output = command.args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "a resource is text");
}

#[test]
fn a_large_environment_is_passed_on() {
    let host = Host::new();
    let mut command = host.command(["job", "--", "sh", "-c", "echo ${#LARGE_7}"]);
    for number in 0..10 {
        command.env(format!("LARGE_{number}"), "x".repeat(100 * 1024));
    }
    let ended = host.start(command).ended();
    assert_eq!((ended.code, ended.out.trim()), (0, "102400"), "{}", ended.err);
}

#[test]
fn nothing_of_quorlock_is_left_in_the_command() {
    let host = Host::new();
    // What a shell would give it: its files, and no signal ignored or blocked but what was before.
    let script =
        "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -a; umask; pwd";
    let mut plain = std::process::Command::new("sh");
    plain.args(["-c", script]).stdin(std::process::Stdio::null()).current_dir(host.file(""));
    assert_eq!(host.run("job", script).out, host.start(plain).ended().out);
}

#[test]
fn a_program_that_is_replaced_while_it_waits_still_runs_its_command() {
    let host = Host::new();
    let first = host.shell("job", "echo > first; sleep 60");
    host.written("first");
    let copy = host.file("copy");
    std::fs::copy(env!("CARGO_BIN_EXE_quorlock"), &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    command.args(["run", "job", "--", "echo", "ran"]);
    command.env("QUORLOCK_NODES", host.fleet.urls().join(","));
    let second = host.start(command);
    let asks = second.holder();
    std::fs::remove_file(&copy).unwrap();
    // As an upgrade does.
    symlink("/bin/false", &copy).unwrap();
    assert!(!asks.is_gone());
    first.supervisor().signal(Signal::SIGTERM);
    let ended = second.ended();
    assert_eq!((ended.code, &*ended.out), (0, "ran\n"), "{}", ended.err);
    drop(first);
}

#[test]
fn it_ends_as_soon_as_the_command_does() {
    let host = Host::patient();
    let other = host.shell("other", "echo > other; sleep 3600");
    host.written("other");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // Compared with a run that starts no command: the lock is another's.
    for _ in 0..5 {
        let started = std::time::Instant::now();
        assert_eq!(host.run("other --try", "true").code, 75);
        without.push(started.elapsed());
        let started = std::time::Instant::now();
        assert_eq!(host.run("job", "echo $$ > shell").code, 0);
        with.push(started.elapsed());
        assert!(Process::of(&host.written("shell")).is_gone());
    }
    let (with, without) = (with.iter().min().unwrap(), without.iter().min().unwrap());
    println!("{with:?} with a command, {without:?} without");
    assert!(*with < 6 * *without, "{with:?} with a command, {without:?} without");
    drop(other);
}

#[test]
fn a_wait_that_the_settings_name_is_one_that_was_asked_for() {
    let host = Host::new();
    let first = host.shell("job", "echo > first; sleep 60");
    host.written("first");
    for args in
        ["job --set wait=100ms", "job --elect --set wait=100ms", "job --wait 100ms --set wait=1h"]
    {
        assert_eq!(host.run(args, "true").code, 75, "{args}");
    }
    for (wait, code) in [("100ms", 75), (" 100ms\n", 75), ("soon", 78)] {
        let mut command = host.command(["job", "--", "true"]);
        command.env("QUORLOCK_WAIT", wait);
        let ended = host.start(command).ended();
        assert_eq!(ended.code, code, "{wait:?}: {}", ended.err);
        assert_eq!(ended.err.contains("QUORLOCK_WAIT: it is `soon`"), code == 78, "{}", ended.err);
    }
    drop(first);
}

//! A machine that lacks something: threads, /proc, a process that waits for orphans.

use std::process::Command;

use quorlock_harness::{decided, undecided};

use super::host::{Ended, Host};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorlock");

/// `quorlock run job` by way of these words, a program and its arguments.
fn by(host: &Host, words: &[&str], script: &str) -> Ended {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["run", "job", "--", "sh", "-c", script]);
    command.env("QUORLOCK_NODES", host.fleet.urls().join(",")).current_dir(host.file(""));
    host.start(command).ended()
}

/// Whether this machine lets us run a program that is none of ours behind these words. If not, it says why.
fn may(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).arg("true").output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}: {said}", words.join(" "))) }
}

#[test]
fn where_there_are_no_threads_it_says_so() {
    const OTHER: [&str; 6] = ["setpriv", "--reuid", "65300", "--regid", "65300", "--clear-groups"];
    if let Err(reason) = may(&OTHER).and_then(|()| may(&["prlimit", "--nproc=9:9"])) {
        return undecided!(reason);
    }
    decided!();
    let host = Host::new();
    // The limit counts a user's processes. Each run has a user of its own: ended processes count until the first
    // process of the machine has reaped them.
    let script = "exec 3< \"$0\"; exec setpriv --reuid 6530$1 --regid 6530$1 --clear-groups \
        prlimit --nproc=\"$1\":\"$1\" /proc/self/fd/3 run job -- sh -c 'echo ran'";
    let mut ran = 0;
    for limit in 1..=14 {
        let mut command = Command::new("sh");
        command.args(["-c", script, PROGRAM, &limit.to_string()]).current_dir("/");
        command.env("QUORLOCK_NODES", host.fleet.urls().join(","));
        let ended = host.start(command).ended();
        assert!(!ended.err.contains("panicked"), "{limit}: {}", ended.err);
        match ended.code {
            0 => ran += 1,
            71 => assert!(ended.err.starts_with("quorlock: "), "{limit}: {}", ended.err),
            126 => assert!(ended.err.contains("cannot be started"), "{limit}: {}", ended.err),
            _ => panic!("{limit}: {ended:?}"),
        }
    }
    assert!(ran > 0);
}

#[test]
fn without_proc_it_runs_all_the_same() {
    let hide = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let words = ["unshare", "--mount", "sh", "-c", hide, PROGRAM];
    if let Err(reason) = may(&words[..5]) {
        return undecided!(reason);
    }
    decided!();
    let host = Host::new();
    let ended = by(&host, &words, "sleep 60 & echo $QUORLOCK_TOKEN > ran; exit 4");
    assert_eq!((ended.code, &*ended.err), (4, ""));
    assert_ne!(host.read("ran"), "\n");
    host.is_free("job");
}

#[test]
fn as_the_first_process_of_a_container_it_waits_for_what_nobody_waits_for() {
    let words = ["unshare", "--fork", "--pid", "--mount-proc", PROGRAM];
    if let Err(reason) = may(&words[..4]) {
        return undecided!(reason);
    }
    decided!();
    let host = Host::new();
    // A run that waited for that process too would not end in time.
    let ended = by(&host, &words, "sh -c 'sleep 3600 & exit 0'; exit 4");
    assert_eq!((ended.code, &*ended.err), (4, ""));
    host.is_free("job");
    // And while the command runs, for as long as that may take: what has left its group too.
    let script = "for i in 1 2 3 4 5; do sh -c 'setsid true & echo $! >> left'; done; \
        for i in $(seq 500); do \
            for left in $(cat left); do [ -e /proc/$left ] && sleep 0.1 && continue 2; done; exit 0; \
        done; exit 1";
    let ended = by(&host, &words, script);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{}", ended.out);
}

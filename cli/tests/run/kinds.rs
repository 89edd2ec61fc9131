//! The kinds of leases, and the ways to wait for them.

use std::time::Instant;

use nix::sys::signal::Signal;
use quorlock_harness::eventually;

use super::host::{Host, MS, Process, SECOND, SOON};

#[test]
fn busy_is_a_status_and_can_be_another_or_silent() {
    let host = Host::new();
    let first = host.shell("job", "echo > first; sleep 60");
    host.written("first");
    for args in [
        "job --try",
        "job -n",
        "job --wait 300ms",
        "job -w 300ms",
        "job -w 0s",
        "job --shared --try",
    ] {
        let ended = host.run(args, "echo ran");
        assert_eq!((ended.code, &*ended.out), (75, ""), "{args}: {}", ended.err);
        assert!(ended.err.starts_with("quorlock: "), "{args}: {}", ended.err);
    }
    assert_eq!(host.run("job --try -E 0", "echo ran").code, 0);
    let quiet = host.run("job --try --quiet --busy-status 9", "echo ran");
    assert_eq!((quiet.code, &*quiet.out, &*quiet.err), (9, "", ""));
    assert_eq!(host.run("other --wait 0s", "true").code, 0);
    // Another one is free.
    assert_eq!(host.run("other --try", "true").code, 0);
    drop(first);
}

#[test]
fn whoever_looks_finds_the_host_the_process_and_the_command() {
    let host = Host::new();
    let shown = |mut command: std::process::Command| {
        command.env("QUORLOCK_NODES", host.fleet.urls().join(","));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let look = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quorlock"));
        command.args(["holder", "job", "--json"]);
        let found: serde_json::Value = serde_json::from_str(&shown(command)).unwrap();
        found["label"].as_str().unwrap_or_default().to_owned()
    };
    let first = host.shell("job", "echo > first; sleep 60");
    host.written("first");
    let mut uname = std::process::Command::new("uname");
    uname.arg("-n");
    let name = shown(uname).trim().to_owned();
    assert_eq!(look(), format!("{}/{}/sh", &name[..name.len().min(64)], first.supervisor().0));
    // And so does a run that comes too late.
    for args in ["job --try", "job --shared --try", "job --also other --try", "job --elect --try"] {
        let busy = host.run(args, "true");
        let said = format!("the resource `job` is held by `{}`; it did not become free", look());
        assert_eq!(busy.code, 75, "{args}: {}", busy.err);
        assert!(busy.err.contains(&said), "{args}: {}", busy.err);
    }
    first.supervisor().signal(Signal::SIGTERM);
    assert_eq!(first.ended().code, 143);
    for how in ["--set label=mine", ""] {
        let mut command = host.command("job".split(' ').chain(how.split_whitespace()));
        command.args(["--", "sh", "-c", "echo > ready; sleep 60"]).env("QUORLOCK_LABEL", "env");
        let running = host.start(command);
        host.written("ready");
        assert_eq!(look(), if how.is_empty() { "env" } else { "mine" });
        running.supervisor().signal(Signal::SIGTERM);
        assert_eq!(running.ended().code, 143);
        std::fs::remove_file(host.file("ready")).unwrap();
    }
}

#[test]
fn all_nodes_that_answer_have_its_key_from_the_start() {
    // Otherwise the loss of one node, before the first renewal sets the missing key, would lose the lease.
    let host = Host::new();
    for turn in 0..10 {
        let running = host.shell("job", "echo > ready; while ! [ -e go ]; do sleep 0.01; done");
        host.written("ready");
        // The last of them may be on its way. The first renewal is 3 s away.
        let what = format!("three have it in turn {turn}");
        eventually(&what, SECOND, || host.fleet.locks_left().len() == 3);
        std::fs::write(host.file("go"), "").unwrap();
        assert_eq!(running.ended().code, 0);
        ["go", "ready"].iter().for_each(|file| std::fs::remove_file(host.file(file)).unwrap());
    }
}

#[test]
fn whoever_waits_runs_when_the_one_before_has_ended() {
    let host = Host::new();
    let first = host.shell("job --ttl 3s", "echo > first; sleep 0.5; echo >> order 1");
    host.written("first");
    let ended = host.run("job", "echo >> order 2");
    assert_eq!((ended.code, &*host.read("order")), (0, "1\n2\n"), "{}", ended.err);
    assert_eq!(first.ended().code, 0);
}

#[test]
fn others_are_kept_out_for_the_least_time() {
    let host = Host::patient();
    let started = Instant::now();
    assert_eq!(host.run("nightly --hold-at-least 6s", "true").code, 0);
    // The timer of another host. It would not be refused if the first had stayed until the time was over.
    assert_eq!(host.run("nightly --hold-at-least 6s --try", "echo ran").code, 75);
    assert_eq!(host.run("nightly", "true").code, 0);
    assert!(started.elapsed() >= 5900 * MS, "{:?}", started.elapsed());
}

#[test]
fn for_longer_than_nodes_keep_it_by_themselves_it_stays() {
    let host = Host::patient();
    let started = Instant::now();
    // Nodes keep nothing for longer than 10 s.
    let ends = host.shell("nightly --hold-at-least 12s", "echo > ran; exit 3");
    let mut stays = host.shell("weekly --hold-at-least 1h", "echo $$ > stays; exit 4");
    host.written("ran");
    Process::of(&host.written("stays")).ends();
    // These two holds take longer than nodes keep the others by themselves.
    for _ in 0..2 {
        assert_eq!(host.run("beside --hold-at-least 6s", "true").code, 0);
        assert_eq!(host.run("beside --try", "true").code, 75, "nodes keep it");
    }
    assert_eq!(host.run("beside", "true").code, 0);
    assert!(!stays.has_ended());
    assert_eq!(host.run("weekly --try", "true").code, 75);
    // Its own time, and no sooner.
    assert_eq!(ends.ended().code, 3);
    assert!(started.elapsed() >= 12 * SECOND);
    host.is_free("nightly");
    // A signal ends that.
    stays.supervisor().signal(Signal::SIGTERM);
    assert_eq!(stays.ended().code, 4);
    host.is_free("weekly");
    // And nodes keep it for as long as they do.
    let again = host.shell("weekly --hold-at-least 1h", "echo $$ > again; exit 5");
    Process::of(&host.written("again")).ends();
    again.supervisor().signal(Signal::SIGTERM);
    assert_eq!(again.ended().code, 5);
    assert_eq!(host.run("weekly --try", "true").code, 75);
}

#[test]
fn so_many_run_at_once_as_there_are_permits() {
    let host = Host::new();
    let all =
        [0, 1].map(|_| host.shell("pool --semaphore 2", "echo $QUORLOCK_SLOT >> slots; sleep 60"));
    eventually("both run", SOON, || host.read("slots").lines().count() == 2);
    let mut slots: Vec<_> = host.read("slots").lines().map(str::to_owned).collect();
    slots.sort();
    assert_eq!(slots, ["0", "1"]);
    assert_eq!(host.run("pool --semaphore 2 --try", "true").code, 75);
    all[0].supervisor().signal(Signal::SIGTERM);
    assert_eq!(host.run("pool --semaphore 2", "true").code, 0);
    drop(all);
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let host = Host::new();
    let readers = [0, 1].map(|_| host.shell("tree --shared", "echo >> readers; sleep 60"));
    eventually("both read", SOON, || host.read("readers").lines().count() == 2);
    assert_eq!(host.run("tree --try", "true").code, 75);
    readers.iter().for_each(|reader| reader.supervisor().signal(Signal::SIGTERM));
    let writer = host.shell("tree", "echo > writer; sleep 60");
    host.written("writer");
    assert_eq!(host.run("tree --shared --try", "true").code, 75);
    drop((readers, writer));
}

#[test]
fn several_are_held_together_or_none_is() {
    let host = Host::new();
    let all = host
        .shell("a --also b --also c", "echo $QUORLOCK_RESOURCE $QUORLOCK_TOKEN > all; sleep 60");
    let said = host.written("all");
    assert!(said.starts_with("a 1") || said.split(' ').count() == 2, "{said}");
    for one in ["a", "b", "c"] {
        assert_eq!(host.run(&format!("{one} --try"), "true").code, 75, "{one}");
    }
    assert_eq!(host.run("d --also c --try", "true").code, 75);
    host.is_free("d");
    all.supervisor().signal(Signal::SIGTERM);
    assert_eq!(all.ended().code, 143);
    ["a", "b", "c"].into_iter().for_each(|one| host.is_free(one));
}

#[test]
fn one_leads_and_the_next_follows() {
    let host = Host::new();
    let script = "[ $QUORLOCK_TERM = $QUORLOCK_TOKEN ] && echo $QUORLOCK_TERM >> terms; sleep 60";
    let first = host.shell("leader --elect", script);
    host.written("terms");
    assert_eq!(host.run("leader --elect --try", "true").code, 75);
    assert_eq!(host.run("leader --elect --wait 300ms", "true").code, 75);
    let second = host.shell("leader --elect", script);
    first.supervisor().signal(Signal::SIGTERM);
    assert_eq!(first.ended().code, 143);
    eventually("the second leads", SOON, || host.read("terms").lines().count() == 2);
    let terms: Vec<u64> = host.read("terms").lines().map(|term| term.parse().unwrap()).collect();
    assert!(terms[0] < terms[1], "{terms:?}");
    drop(second);
}

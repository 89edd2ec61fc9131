//! Callers that write what they should not, or do not read.

use std::{fs::read_to_string, os::fd::OwnedFd, process::Stdio};

use nix::{fcntl::OFlag, unistd::pipe2};
use quorlock_harness::eventually;

use super::fleet::{Fleet, Helper, SOON};

#[test]
fn whatever_is_written_costs_no_lease() {
    let fleet = Fleet::start();
    let (mut helper, _) = fleet.granted("job --json");
    let long = "x".repeat(1 << 20);
    for (line, shown) in [
        ("nonsense", "nonsense"),
        ("", ""),
        ("release now please", "release now please"),
        ("check\u{0}", "check\u{0}"),
        ("{\"what\":\"check\"}", "{\"what\":\"check\"}"),
        ("\u{1b}[2J", "\u{1b}[2J"),
        (&*long, &long[..64]),
    ] {
        let refused = helper.ask(line, "refused");
        assert_eq!(refused["line"], shown);
        assert!(!refused["reason"].as_str().unwrap().is_empty());
    }
    helper.write(b"\xff\xfe\x00\n");
    helper.event("refused");
    helper.write(b"check 1\r\nche");
    assert_eq!(helper.event("held")["asked"], "1");
    helper.write(b"ck 2\n");
    assert_eq!(helper.event("held")["asked"], "2");
    // A megabyte without an end, and then the end.
    helper.write(long.as_bytes());
    helper.input = None;
    helper.event("released");
    assert_eq!(helper.ends(), 0);
}

fn memory(helper: &Helper) -> u64 {
    let status = read_to_string(format!("/proc/{}/status", helper.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_caller_that_never_reads_keeps_its_lease_and_gives_it_back() {
    let fleet = Fleet::start();
    let mut command = fleet.command("job --json --ttl 2s");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let unread = child.stdout.take();
    let mut helper = Helper::of(child);
    eventually("it holds", SOON, || fleet.keys("job") == 3);
    let owner = fleet.servers[0].get("job");
    let before = memory(&helper);
    // Far more than fits into a pipe.
    for _ in 0..200 {
        helper.write("check 1\nextend 2\nnonsense\n".repeat(1_000).as_bytes());
    }
    assert!(memory(&helper) < before + 30_000, "in kB");
    // It is renewed all the while: what is left of the key rises, and more than once.
    let mut renewed = 0;
    let mut last = fleet.servers[0].pttl("job");
    eventually("it is renewed", SOON, || {
        let left = fleet.servers[0].pttl("job");
        renewed += usize::from(left > last);
        last = left;
        renewed >= 3
    });
    assert_eq!(fleet.servers[0].get("job"), owner);
    helper.input = None;
    assert_eq!(helper.ends(), 0);
    fleet.is_given_back("job");
    drop(unread);
}

#[test]
fn pipes_that_do_not_block_are_read_and_written_all_the_same() {
    let fleet = Fleet::start();
    let pipe = || pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).unwrap();
    let ((input, orders), (answers, output)) = (pipe(), pipe());
    let mut command = fleet.command("job --json");
    let child = command.stdin(input).stdout(output).spawn().unwrap();
    drop(command);
    let mut helper = Helper::of(child);
    eventually("it holds", SOON, || fleet.keys("job") == 3);
    let lines = 3_000;
    let write = |orders: &OwnedFd, mut bytes: &[u8]| {
        eventually("it is written", SOON, || {
            if let Ok(count) = nix::unistd::write(orders, bytes) {
                bytes = &bytes[count..];
            }
            bytes.is_empty()
        });
    };
    // Its output is full by then, and it waits for room.
    write(&orders, "check\n".repeat(lines).as_bytes());
    let mut said = Vec::new();
    let mut read = || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = nix::unistd::read(&answers, &mut chunk) {
            said.extend_from_slice(&chunk[..count]);
        }
        String::from_utf8(said.clone()).unwrap()
    };
    // Answers that have waited too long were dropped.
    eventually("what it says comes through", SOON, || read().lines().count() > 1_000);
    drop(orders);
    eventually("and its end", SOON, || read().ends_with("{\"event\":\"released\"}\n"));
    assert_eq!(helper.ends(), 0);
    // No line is half written.
    let is_whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(read().lines().all(is_whole));
}

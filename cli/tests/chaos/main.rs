//! Goal: `quorlock chaos` finds nothing where nothing is wrong, finds what goes wrong without a fence and under plain Redlock,
//! says the same in its sentence, its JSON, its status and its picture, and kills no server of others.
//!
//! Method: the program itself on real servers. The faults that matter are made to happen: a worker is stopped until
//! another has written, and a majority is emptied while a worker holds the lock.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod ends;
mod given;
mod worker;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use quorlock_harness::Cluster;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use tempfile::TempDir;

/// What a run has left.
struct Ended {
    code: i32,
    found: Value,
    picture: String,
    err: String,
    _dir: TempDir,
}

fn command<'a>(args: impl IntoIterator<Item = &'a str>) -> (Command, PathBuf, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("run.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    command.arg("chaos").args(args).arg("--out").arg(&picture);
    // Servers of others have no other clients here, so that new ones need not wait for long before they vote.
    command.env("QUORLOCK_MAX_TTL", "1s").arg("--json").stdin(Stdio::null());
    (command, picture, dir)
}

fn chaos(args: &str) -> Ended {
    chaos_with(args.split_whitespace())
}

fn chaos_with<'a>(args: impl IntoIterator<Item = &'a str>) -> Ended {
    let (mut command, picture, dir) = command(args);
    let output = command.output().unwrap();
    let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    let found: Value = serde_json::from_slice(&out).unwrap_or_default();
    println!("{found}\n{err}");
    let code = output.status.code().expect("it ends by itself");
    let picture = std::fs::read_to_string(picture).unwrap_or_default();
    Ended { code, found, picture, err, _dir: dir }
}

/// Runs one seed after another, so many at the most, until a run shows what chance or a busy machine may prevent.
#[track_caller]
fn first_that(has: impl Fn(&Ended) -> bool, runs: u64, args: &str) -> Ended {
    let mut runs = (1..=runs).map(|seed| chaos(&format!("{args} --seed {seed}")));
    runs.find(has).expect("one of these runs has it")
}

impl Ended {
    #[track_caller]
    fn count(&self, name: &str) -> u64 {
        self.found[name].as_u64().unwrap_or_else(|| panic!("{name}: {}", self.err))
    }

    /// Looks at the picture, and returns how often each of these signs stands in a lane.
    #[track_caller]
    fn liveness(&self, nodes: usize, workers: usize) -> [usize; 3] {
        // Nothing of it comes from outside.
        let options = ParsingOptions { allow_dtd: false, ..ParsingOptions::default() };
        let document = Document::parse_with_options(&self.picture, options).expect("well-formed");
        let of = |class: &str| {
            let has = |node: &Node<'_, '_>| node.attribute("class") == Some(class);
            let groups = document.descendants().filter(|node| node.has_tag_name("g"));
            groups.filter(has).map(|node| node.attribute("id").unwrap()).collect::<Vec<_>>()
        };
        let names =
            |kind: &str, count| (1..=count).map(|n| format!("{kind}-{n}")).collect::<Vec<_>>();
        assert_eq!(of("node"), names("node", nodes));
        assert_eq!(of("worker"), names("worker", workers));
        assert_eq!(of("lock"), ["lock"]);
        let title = document.descendants().find(|node| node.attribute("id") == Some("verdict"));
        let title = title.and_then(|title| title.text().map(str::to_owned));
        assert_eq!(title.as_deref(), self.found["verdict"].as_str());
        assert!(self.picture.contains("prefers-color-scheme:dark"));
        let wrong = document.descendants().filter(|node| node.attribute("class") == Some("wrong"));
        // One more stands in the legend, where there is any.
        let liveness = |name: &str| {
            let liveness =
                document.descendants().filter(|node| node.attribute("href") == Some(name));
            liveness.count().saturating_sub(1)
        };
        [liveness("#refused"), liveness("#taken"), wrong.count().saturating_sub(1)]
    }
}

#[test]
fn nothing_is_found_and_late_writes_are_refused() {
    let has = |ended: &Ended| {
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(ended.found["clean"], true);
        let wrong = [
            "overlaps",
            "wrong_tokens",
            "stale_writes_taken",
            "falls_at_the_store",
            "lost_updates",
        ];
        assert_eq!(wrong.map(|name| ended.count(name)), [0; 5]);
        assert!(ended.count("leases") > 3 && ended.count("writes") > 10, "{}", ended.found);
        ended.count("faults") > 1 && ended.count("late_writes_refused") > 0
    };
    let ended = first_that(has, 3, "--seconds 12 --nodes 3 --workers 3 --ttl 1s");
    let refused = usize::try_from(ended.count("late_writes_refused")).unwrap();
    assert_eq!(ended.liveness(3, 3), [refused, 0, 0]);
    assert!(ended.found["verdict"].as_str().unwrap().starts_with("Nothing went wrong"));
}

#[test]
fn without_a_fence_late_writes_are_found() {
    let has = |ended: &Ended| {
        // Exclusion needs no fence.
        assert_eq!(["overlaps", "wrong_tokens"].map(|name| ended.count(name)), [0; 2]);
        let found = ended.count("late_writes_taken") > 0;
        assert!(!found || ended.code == 1, "{}", ended.err);
        assert_eq!(ended.found["clean"], ended.code == 0);
        found && ended.count("lost_updates") > 0
    };
    let ended = first_that(has, 3, "--seconds 6 --nodes 3 --workers 4 --ttl 1s --no-fence");
    assert!(ended.count("falls_at_the_store") > 0, "the store has it so: {}", ended.found);
    let taken = usize::try_from(ended.count("late_writes_taken")).unwrap();
    assert_eq!(ended.liveness(3, 4), [0, taken, 0]);
    assert!(ended.found["verdict"].as_str().unwrap().starts_with("Wrong: "));
}

#[test]
fn under_plain_redlock_two_holders_are_found_where_a_majority_forgets() {
    // Whether the holder holds it for long enough is drawn, so that one run in several may miss it.
    let has = |ended: &Ended| ended.count("overlaps") > 0;
    let ended = first_that(has, 8, "--seconds 12 --nodes 3 --workers 4 --ttl 2s --classic");
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.count("lost_updates") > 0, "there are no tokens: {}", ended.found);
    let (overlaps, [_, taken, wrong]) = (ended.count("overlaps"), ended.liveness(3, 4));
    // On the strip of the lock and in the lanes of both.
    assert_eq!(wrong, 3 * usize::try_from(overlaps).unwrap());
    assert_eq!(taken, usize::try_from(ended.count("late_writes_taken")).unwrap());
    let verdict = ended.found["verdict"].as_str().unwrap();
    assert!(verdict.contains("two workers held the lock at once"), "{verdict}");
}

/// Servers of others are cut off by proxies, and nothing else is done to them.
#[test]
fn servers_of_others_live_on() {
    let fleet = Cluster::start(3);
    let pids: Vec<u32> = fleet.iter().map(|server| server.pid()).collect();
    fleet[0].set("of somebody", "value", None);
    let urls = fleet.urls().join(",");
    let has = |ended: &Ended| {
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended.count("late_writes_refused") > 0 && ended.count("faults") > 1
    };
    let ended = first_that(has, 3, &format!("--seconds 8 --nodes {urls} --workers 3 --ttl 1s"));
    ended.liveness(3, 3);
    assert!(fleet.iter().all(|server| server.is_running() && !server.is_paused()));
    assert_eq!(fleet.iter().map(|server| server.pid()).collect::<Vec<_>>(), pids);
    assert_eq!(fleet[0].get("of somebody").as_deref(), Some(b"value".as_slice()));
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_done() {
    for (args, code, why) in [
        ("--nodes 2", 64, "take 3 to 15"),
        ("--workers 1", 64, "take 2 to 30"),
        ("--ttl 1ms", 64, "take 500ms to 30s"),
        ("--out /nowhere/there/x.svg", 64, "cannot be used multiple times"),
    ] {
        let ended = chaos(args);
        assert_eq!(ended.code, code, "{args}: {}", ended.err);
        assert!(ended.err.contains(why), "{args}: {}", ended.err);
        assert!(ended.picture.is_empty(), "{args}: it was not played");
    }
    // Otherwise a whole run would be played before the picture turns out to have no place.
    let mut unwritable = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    unwritable.args(["chaos", "--seconds", "1", "--json", "--out", "/nowhere/there/x.svg"]);
    let output = unwritable.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(78), 0), "{said}");
    assert!(said.contains("Name another place"), "{said}");
    let (mut command, picture, _dir) = command(["--seconds", "1"]);
    let output = command.env("PATH", "/nowhere").env_remove("REDIS_SERVER_BIN").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("valkey-server"));
    assert!(!picture.exists());
}

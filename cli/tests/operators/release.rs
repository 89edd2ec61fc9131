//! `release --force` takes what is held, says what to tell the stores, and takes nothing else.

use std::io::{Read as _, Write as _};

use quorlock::{FenceGate, LossReason, Redlock};
use quorlock_harness::{Cluster, connected, eventually};
use serde_json::Value;

use super::{SECOND, SOON, admitted, code, on, patient, quorlock, text};

fn connect(cluster: &Cluster) -> Redlock {
    connected(patient().nodes(cluster.urls()))
}

fn force(cluster: &Cluster, resource: &str, more: &[&str]) -> std::process::Output {
    let mut release = quorlock("release");
    release.args(["--force", resource]).args(more).args(on(&cluster.urls())).output().unwrap()
}

#[test]
fn the_old_holder_learns_of_it_and_its_writes_are_refused() {
    let cluster = admitted(3);
    let redlock = connect(&cluster);
    let lease = redlock.acquire("r").ttl(3 * SECOND).blocking().unwrap();
    let gate = FenceGate::new();
    gate.admit(lease.token().unwrap()).unwrap();
    let output = force(&cluster, "r", &["--yes", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    println!("{said}");
    assert_eq!(said["was"]["owner"], lease.owner().to_string());
    assert_eq!(said["released"], 3);
    let fence: u64 = said["fence"].as_str().unwrap().parse().unwrap();
    assert!(fence > lease.token().unwrap().get(), "{said}");
    // What a store does with the number.
    gate.admit(quorlock::FencingToken::new(fence)).unwrap();
    assert!(gate.admit(lease.token().unwrap()).is_err(), "the old holder is refused");
    eventually("the old holder knows", SOON, || lease.check().is_err());
    assert_eq!(lease.check().unwrap_err().reason, LossReason::Gone);
    let next = redlock.acquire("r").blocking().unwrap();
    assert!(next.token().unwrap().get() > fence);
}

#[test]
fn whoever_waits_gets_it_and_has_the_token_to_tell() {
    let cluster = admitted(3);
    let (holder, other) = (connect(&cluster), connect(&cluster));
    let lease = holder.acquire("r").blocking().unwrap();
    let waits = std::thread::spawn(move || {
        let lease = other.acquire("r").wait(60 * SECOND).blocking().unwrap();
        let token = lease.token().unwrap().get();
        // Until the command has looked.
        std::mem::forget(lease);
        (token, other)
    });
    eventually("it waits", SOON, || {
        cluster.iter().all(|server| server.keys().iter().any(|key| key == b"quorlock:line:r"))
    });
    let output = force(&cluster, "r", &["--yes", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let (token, other) = waits.join().unwrap();
    assert_eq!(said["fence"], token.to_string(), "{said}");
    assert_eq!(said["next"]["token"], token.to_string(), "{said}");
    assert!(token > lease.token().unwrap().get());
    drop(other);
}

#[test]
fn without_a_yes_nothing_is_taken() {
    let cluster = admitted(3);
    let lease = connect(&cluster).acquire("r").blocking().unwrap();
    let output = force(&cluster, "r", &[]);
    assert_eq!(code(&output), 64, "{output:?}");
    assert!(text(&output.stderr).contains("--yes"), "{output:?}");
    let output = quorlock("release").arg("r").args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&output), 64, "without --force: {output:?}");
    lease.check().unwrap();
    assert_eq!(cluster.locks_left().len(), 3);
}

/// In a terminal that `script` of util-linux makes.
#[test]
fn on_a_terminal_it_asks_and_says_what_breaks() {
    let cluster = admitted(3);
    let redlock = connect(&cluster);
    let _lease = redlock.acquire("r").blocking().unwrap();
    let ask = |answer: &str| {
        let line = format!(
            "{} release --force r --set node_timeout=2s --nodes {}",
            env!("CARGO_BIN_EXE_quorlock"),
            cluster.urls().join(",")
        );
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::piped());
        let script = script.stdout(std::process::Stdio::piped()).spawn();
        let mut script = script.expect("`script` of util-linux");
        script.stdin.as_mut().unwrap().write_all(format!("{answer}\n").as_bytes()).unwrap();
        script.wait_with_output().unwrap()
    };
    let declined = ask("no");
    let said = text(&declined.stdout);
    assert_eq!(code(&declined), 1, "{said}");
    assert!(
        said.contains("This breaks the lock") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(cluster.locks_left().len(), 3);
    let accepted = ask("yes");
    let said = text(&accepted.stdout);
    println!("{said}");
    assert_eq!(code(&accepted), 0, "{said}");
    assert!(said.contains("tell its stores this token"), "{said}");
}

/// A yes is for the holder that was shown.
#[test]
fn who_comes_while_it_waits_for_a_yes_keeps_it() {
    const OTHER: &str = "08080808080848088808080808080808";
    let cluster = admitted(3);
    let lease = connect(&cluster).acquire("r").blocking().unwrap();
    let line = format!(
        "{} release --force r --set node_timeout=2s --nodes {}",
        env!("CARGO_BIN_EXE_quorlock"),
        cluster.urls().join(",")
    );
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::piped());
    let mut script = script.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdout = script.stdout.take().unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"from that holder: ") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    for server in &cluster {
        server.run(&["SET", "r", OTHER, "PX", "60000"]);
    }
    script.stdin.as_mut().unwrap().write_all(b"yes\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(75), "{rest}");
    assert!(rest.contains("another client holds it by now"), "{rest}");
    assert_eq!(cluster.locks_left().len(), 3);
    drop(lease);
}

fn locks(cluster: &Cluster) -> Vec<(usize, Vec<u8>)> {
    let mut locks = cluster.locks_left();
    locks.sort();
    locks
}

#[test]
fn what_cannot_be_taken_stays_as_it_is() {
    let cluster = admitted(3);
    let redlock = connect(&cluster);
    let reader = redlock.read("read").blocking().unwrap();
    for server in &cluster {
        server.set("foreign", "somebody", None);
    }
    cluster[0].set("left", "07070707070747078707070707070707", None);
    cluster[0].set("split", "07070707070747078707070707070707", None);
    cluster[1].set("split", "08080808080848088808080808080808", None);
    for (resource, status, says) in [
        ("free", 1, "nobody holds it"),
        ("read", 75, "readers share it"),
        ("foreign", 75, "another program"),
        // A key on one of three nodes is no lease.
        ("left", 1, "nobody holds it"),
        ("split", 69, "no quorum of nodes names one holder"),
    ] {
        let before = locks(&cluster);
        let output = force(&cluster, resource, &["--yes"]);
        assert_eq!(code(&output), status, "{output:?}");
        let said = text(&output.stderr);
        println!("{said}");
        assert!(said.contains(says), "{said}");
        assert_eq!(locks(&cluster), before, "{resource}");
        // The same without `--yes`, and not the question.
        let asking = force(&cluster, resource, &[]);
        assert_eq!(code(&asking), status, "{asking:?}");
        assert!(text(&asking.stderr).contains(says), "{asking:?}");
    }
    drop(reader);
}

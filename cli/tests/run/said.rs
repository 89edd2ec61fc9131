//! What `run --json` says of itself: an object a line on standard error, whatever happens, and nothing else.

use nix::sys::signal::Signal;
use quorlock_harness::eventually;
use serde_json::{Value, json};

use super::host::{Host, SOON};

/// Each line, with its owner and words, which are not the same in each run, replaced where they are there.
fn events(said: &str) -> Vec<Value> {
    let lines = said.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"));
        for field in ["owner", "reason", "token", "term"] {
            if let Some(value) = event.get_mut(field).filter(|value| value.is_string()) {
                assert_ne!(value, "");
                *value = json!("some");
            }
        }
        event
    });
    lines.collect()
}

fn waiting() -> Value {
    json!({ "event": "waiting", "resource": "job" })
}

fn acquired() -> Value {
    json!({
        "event": "acquired", "resource": "job", "owner": "some", "token": "some", "slot": null, "term": null
    })
}

fn failed(what: &str) -> Value {
    json!({ "event": "failed", "resource": "job", "what": what, "reason": "some" })
}

fn over(status: i32) -> Value {
    json!({ "event": "over", "resource": "job", "status": status })
}

#[test]
fn each_thing_is_an_object_and_the_last_has_the_status() {
    let host = Host::new();
    let ended = host.run("job --json", "echo ran; exit 3");
    assert_eq!((ended.code, &*ended.out), (3, "ran\n"));
    assert_eq!(events(&ended.err), [waiting(), acquired(), over(3)]);
    // What the command finds is what was said.
    let ended = host.run("job --json --elect", "echo $QUORLOCK_OWNER $QUORLOCK_TERM");
    let line: Value = serde_json::from_str(ended.err.lines().nth(1).unwrap()).unwrap();
    let both = ["owner", "term"].map(|field| line[field].as_str().unwrap()).join(" ");
    assert_eq!(both, ended.out.trim());

    let first = host.shell("job", "echo > ready; sleep 60");
    host.written("ready");
    let busy = host.run("job --json --try --busy-status 9", "true");
    assert_eq!(events(&busy.err), [waiting(), failed("busy"), over(9)]);
    let waits = host.shell("job --json", "true");
    eventually("it waits", SOON, || waits.errors().ends_with('\n'));
    waits.supervisor().signal(Signal::SIGTERM);
    assert_eq!(events(&waits.ended().err), [waiting(), over(143)]);
    first.supervisor().signal(Signal::SIGTERM);
    assert_eq!(first.ended().code, 143);

    let missing = host.start(host.command(["job", "--json", "--", "no-such-command"])).ended();
    assert_eq!(events(&missing.err), [waiting(), acquired(), failed("not_found"), over(127)]);
    let config = host.run("job --json --nodes nonsense", "true");
    assert_eq!(events(&config.err), [waiting(), failed("settings"), over(78)]);
}

#[test]
fn so_are_losses_and_leases_that_are_not_given_back() {
    let host = Host::new();
    let running = host.shell("job --json --ttl 1s", "echo > ready; exec sleep 60");
    host.written("ready");
    running.holder().signal(Signal::SIGKILL);
    let lost = json!({ "event": "lost", "resource": "job", "reason": "some", "command": "ended" });
    assert_eq!(events(&running.ended().err), [waiting(), acquired(), lost, over(76)]);

    let script = "echo > again; while ! [ -e go ]; do sleep 0.02; done; exit 6";
    let running = host.shell("job --json", script);
    host.written("again");
    host.fleet[0].kill();
    host.fleet[1].kill();
    std::fs::write(host.file("go"), "").unwrap();
    let left = json!({ "event": "not_released", "resource": "job", "reason": "some" });
    assert_eq!(events(&running.ended().err), [waiting(), acquired(), left, over(6)]);
    let waits = host.shell("job --json", "true");
    let mut why = waiting();
    why["reason"] = json!("some");
    eventually("it says what it waits for", SOON, || {
        events(&waits.errors()) == [waiting(), why.clone()]
    });
}

//! Nodes that are killed, restarted empty, or stopped for a while.

use quorlock_harness::{Server, connected, eventually};

use super::{
    super::{MS, Monitor, SOON, plain},
    acquired, conform, conform_with, released, state, try_it,
};

#[test]
fn killed_and_restarted_empty() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.kill();
            eventually("it is down", SOON, || state(redlock) == "down");
            seen.push(acquired(&try_it(redlock, "r")));
            node.restart();
            eventually("it is back", SOON, || state(redlock) == "Ready");
            seen.push(format!("{:?}", node.keys()));
            seen.push(released(lease).to_owned());
            seen.push(acquired(&try_it(redlock, "r")));
        },
        &["not connected", "[]", "already ended", "granted"],
    );
}

#[test]
fn released_while_killed() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.kill();
            eventually("it is down", SOON, || state(redlock) == "down");
            seen.push(released(lease).to_owned());
        },
        &["unconfirmed"],
    );
}

#[test]
fn paused_and_resumed() {
    conform_with(
        200 * MS,
        |node, redlock, seen| {
            let lease = try_it(redlock, "held").unwrap();
            node.pause();
            seen.push(state(redlock));
            seen.push(acquired(&try_it(redlock, "late")));
            node.resume();
            eventually("the late key is released", SOON, || node.get(b"late").is_none());
            eventually("it answers again", SOON, || {
                try_it(redlock, "again").is_ok() && state(redlock) == "Ready"
            });
            seen.push(format!("still held: {}", node.get(b"held").is_some()));
            seen.push(released(lease).to_owned());
            eventually("nothing is left", SOON, || node.keys().is_empty());
        },
        &["Ready", "timed out", "still held: true", "released"],
    );
}

/// The late SET itself can only be seen where the server tells of it, or where its release is held up.
#[test]
fn a_late_set_is_executed_and_then_released() {
    let server = Server::start();
    let redlock = connected(plain().classic().node(server.url()).node_timeout(200 * MS));
    let mut monitor = Monitor::start(&server);
    server.pause();
    assert_eq!(acquired(&try_it(&redlock, "late")), "timed out");
    server.resume();
    let set = monitor.next("late");
    assert!(set.contains("\"SET\""), "{set}");
    assert!(monitor.next("late").contains("EVAL"));
    eventually("nothing is left", SOON, || server.locks().is_empty());
}

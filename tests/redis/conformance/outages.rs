//! Nodes that are killed, restarted empty, or stopped for a while.

use quorlock_harness::{Server, connected, eventually};

use super::{
    super::{MS, Monitor, SOON, plain},
    acquired, conform, conform_with, extended, holder, released, state, try_it,
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

#[test]
fn an_extension_that_nobody_answers_takes_nothing_away() {
    conform(
        |node, redlock, seen| {
            let lease = try_it(redlock, "r").unwrap();
            node.pause();
            seen.push(extended(&lease));
            node.resume();
            eventually("it answers again", SOON, || state(redlock) == "Ready");
            seen.push(format!("it stands: {}", node.get(b"r").is_some()));
            eventually("it is extended", SOON, || extended(&lease).starts_with("extended"));
            seen.push(released(lease).to_owned());
        },
        &["in doubt, still valid: true", "it stands: true", "released"],
    );
}

#[test]
fn a_node_that_is_down_says_nothing_and_one_that_is_back_what_it_has() {
    conform(
        |node, redlock, seen| {
            node.kill();
            eventually("it is seen to be down", SOON, || state(redlock) == "down");
            seen.push(holder(redlock));
            node.restart();
            eventually("it is back", 2 * SOON, || state(redlock) == "Ready");
            seen.push(holder(redlock));
            node.set(b"r", b"thief", None);
            seen.push(holder(redlock));
            drop(redlock.blocking_close());
            seen.push(format!("closed: {}", holder(redlock)));
        },
        &[
            "unclear, sent: false",
            "Free",
            "thief for ever, owner: false",
            "closed: thief for ever, owner: false",
        ],
    );
}

/// The late SET itself can only be seen where the server tells of it, or where its release is held up.
#[test]
fn a_late_set_is_executed_and_then_released() {
    let server = Server::start();
    let redlock = connected(plain().classic().node(server.url()).node_timeout(200 * MS));
    let mut monitor = Monitor::start(&server);
    server.pause();
    assert_eq!(acquired(&redlock.try_acquire("late").blocking()), "timed out");
    server.resume();
    let set = monitor.next("late");
    assert!(set.contains("\"SET\""), "{set}");
    assert!(monitor.next("late").contains("EVAL"));
    eventually("nothing is left", SOON, || server.locks().is_empty());
}

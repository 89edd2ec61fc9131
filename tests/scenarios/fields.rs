//! Goal: whatever others have written to one field of a node's own keys, the node votes again soon, or is shown as one
//! that does not, and tokens do not fall.
//!
//! Method: single nodes, each with one field changed under a connected client.

use std::time::{Duration, Instant};

use quorlock::node::NodeState;

use super::{MS, SECOND, admitted, ready, settings, token};

const VALUES: [&str; 8] = ["", "abc", "-1", "0", "5", "1e400", "nan", "99999999999999999999999"];

fn look_at(key: &str, field: &str, value: Option<&str>) -> Option<String> {
    let ttl = 2 * SECOND;
    let cluster = admitted(1, ttl);
    let client = ready(settings(&cluster, ttl));
    let lease = client.try_acquire("r").without_renewal().blocking().unwrap();
    let before = token(&lease);
    lease.blocking_release().unwrap();
    match value {
        Some(value) => cluster[0].run(&["HSET", key, field, value]),
        None => cluster[0].run(&["HDEL", key, field]),
    };
    let began = Instant::now();
    let mut last = String::new();
    let mut after = None;
    while began.elapsed() < Duration::from_secs(30) && after.is_none() {
        match client.try_acquire("r").without_renewal().blocking() {
            Ok(lease) => {
                after = Some(token(&lease));
                drop(lease.blocking_release());
            }
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(50 * MS);
    }
    let state = client.nodes()[0].state.clone();
    let what = format!("{key} {field} {value:?}");
    match after {
        Some(after) if after > before => None,
        Some(after) => Some(format!("{what}: token {after} after {before}")),
        None if state == NodeState::Ready => Some(format!("{what}: shown ready, but {last}")),
        None => {
            println!("told: {what}: {state:?}");
            None
        }
    }
}

#[test]
fn a_field_that_others_wrote_is_mended_or_told() {
    let fields = [
        ("quorlock:counters", ""),
        ("quorlock:node", "high_water"),
        ("quorlock:node", "next_floor"),
        ("quorlock:node", "rotated_at"),
    ];
    let values = || VALUES.into_iter().map(Some).chain([None]);
    let cases: Vec<_> = fields
        .into_iter()
        .flat_map(|(key, field)| values().map(move |value| (key, field, value)))
        .collect();
    let mut found = Vec::new();
    for some in cases.chunks(12) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = some
                .iter()
                .map(|(key, field, value)| scope.spawn(move || look_at(key, field, *value)))
                .collect();
            found.extend(
                threads
                    .into_iter()
                    .filter_map(|thread| thread.join().unwrap_or_else(|_| Some("panic".into()))),
            );
        });
    }
    println!("{}", found.join("\n"));
    assert!(found.is_empty(), "{} cases", found.len());
}

#[test]
fn a_node_whose_own_key_others_overwrote_is_not_shown_ready() {
    let cluster = admitted(3, 300 * MS);
    let client = ready(settings(&cluster, 300 * MS));
    cluster[1].set("quorlock:counters", "of another program", None);
    cluster[2].run(&["ACL", "SETUSER", "default", "resetkeys", "~r*"]);
    std::thread::sleep(Duration::from_secs(13));
    let error = client.try_acquire("r").without_renewal().blocking().map(|lease| token(&lease));
    let states: Vec<_> = client.nodes().into_iter().map(|node| node.state).collect();
    println!("{error:?} {states:?}");
    assert!(states[1] != NodeState::Ready && states[2] != NodeState::Ready, "{states:?}");
}

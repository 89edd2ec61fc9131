//! `list` names what is held, each once, by whom.

use quorlock::Redlock;
use quorlock_harness::{Cluster, connected};
use serde_json::Value;

use super::{admitted, code, on, patient, quorlock, text};

fn listed(cluster: &Cluster, more: &[&str]) -> Vec<Value> {
    let mut list = quorlock("list");
    let output = list.arg("--json").args(more).args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(listed: &[Value]) -> Vec<String> {
    let mut names: Vec<String> =
        listed.iter().map(|one| one["resource"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn connect(cluster: &Cluster) -> Redlock {
    connected(patient().nodes(cluster.urls()))
}

#[test]
fn each_lease_is_listed_once_and_nothing_else_is() {
    let cluster = admitted(3);
    let redlock = connect(&cluster);
    let hold = |name: &str| redlock.acquire(name).blocking().unwrap();
    let leases: Vec<_> = (0..600).map(|number| hold(&format!("job:{number}"))).collect();
    let strange = hold("a b\n\u{1b}[31m");
    let reader = redlock.read("read").blocking().unwrap();
    let permit = redlock.semaphore("api", 2).unwrap().acquire().blocking().unwrap();
    // Another program's; what is left of a lease on one node, which is nobody's; and what is of several.
    cluster[0].set("cache:1", "value", None);
    cluster[0].set("left", leases[0].owner().to_string(), Some(60_000));
    cluster[1].set("split", leases[0].owner().to_string(), Some(60_000));
    cluster[2].set("split", leases[1].owner().to_string(), Some(60_000));
    let all = listed(&cluster, &[]);
    let mut expected: Vec<String> = (0..600).map(|number| format!("job:{number}")).collect();
    let permit = String::from_utf8_lossy(permit.resource().as_bytes()).into_owned();
    expected.extend(["a b\n\u{1b}[31m".to_owned(), permit, "read".into(), "split".into()]);
    expected.sort();
    assert_eq!(names(&all), expected);
    let of = |name: &str| all.iter().find(|one| one["resource"] == name).unwrap();
    assert_eq!(of("job:7")["token"], leases[7].token().unwrap().to_string());
    assert_eq!(of("split")["state"], "unclear");
    assert_eq!(of("read")["shared"], true);
    assert_eq!(names(&listed(&cluster, &["job:59?"])).len(), 10);
    assert_eq!(names(&listed(&cluster, &["nothing*"])), Vec::<String>::new());
    drop((strange, reader));
}

#[test]
fn with_a_node_down_what_a_quorum_holds_is_listed_and_that_is_said() {
    let cluster = admitted(3);
    let redlock = connect(&cluster);
    let lease = redlock.acquire("r").blocking().unwrap();
    quorlock_harness::eventually("all have it", super::SOON, || cluster.locks_left().len() == 3);
    cluster[0].kill();
    let output = quorlock("list").args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(said.starts_with("r  held by") && said.contains(&lease.owner().to_string()), "{said}");
    let warned = text(&output.stderr);
    assert!(warned.contains("node 0") && warned.contains("names may be missing"), "{warned}");
    for (node, names) in [(1, true), (2, false)] {
        cluster[node].kill();
        let output = quorlock("list").args(on(&cluster.urls())).output().unwrap();
        assert_eq!(code(&output), 69, "a majority is away: {output:?}");
        assert_eq!(text(&output.stdout).starts_with("r  "), names, "what is known: {output:?}");
        assert!(text(&output.stderr).contains("nodes 0, 1"), "{output:?}");
    }
}

/// What a quorum holds cannot be said where none votes, though all tell their keys.
#[test]
fn with_a_majority_in_quarantine_it_is_no_list_of_what_is_held() {
    let cluster = admitted(3);
    cluster.iter().take(2).for_each(|server| drop(server.run(&["DEL", "quorlock:node"])));
    let output = quorlock("list").args(on(&cluster.urls())).output().unwrap();
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(text(&output.stderr).contains("1 of 3 nodes vote"), "{output:?}");
}

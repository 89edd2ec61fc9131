//! What is listed: each name that a node has, once, page by page.

use futures::executor::block_on;
use quorlock::{
    Holder, Redlock,
    inspect::{FleetError, Listed, Resources},
    node::MemoryNode,
};

use super::{SECOND, connect, nodes};

fn all(mut resources: Resources) -> Vec<Listed> {
    let mut all = Vec::new();
    while let Some(page) = block_on(resources.next_page()).unwrap() {
        all.extend(page);
    }
    all
}

fn names(redlock: &Redlock, pattern: &str) -> Vec<String> {
    let listed = all(redlock.resources(pattern)).into_iter();
    let mut names: Vec<String> =
        listed.map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect();
    names.sort();
    names
}

#[test]
fn more_names_than_a_page_has_are_each_told_once() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let hold = |number: usize| redlock.acquire(format!("r{number:03}")).blocking().unwrap();
    let leases: Vec<_> = (0..700).map(hold).collect();
    let expected: Vec<String> = (0..700).map(|number| format!("r{number:03}")).collect();
    assert_eq!(names(&redlock, "*"), expected);
    assert_eq!(names(&redlock, "r69?"), expected[690..]);
    drop(leases);
}

#[test]
fn names_are_those_behind_the_prefix_and_the_prefix_is_no_pattern() {
    let nodes = nodes(3);
    let with = |prefix: &str| {
        block_on(Redlock::builder().nodes(&nodes).key_prefix(prefix).connect()).unwrap()
    };
    let (own, other) = (with("a*:"), with("ab:"));
    let _leases = [&own, &other].map(|redlock| redlock.acquire("x").blocking().unwrap());
    assert_eq!(names(&own, "*"), ["x"]);
    assert_eq!(names(&other, "*"), ["x"]);
    assert_eq!(names(&connect(&nodes), "*"), ["a*:x", "ab:x"]);
}

#[test]
fn each_has_its_holder_and_other_programs_keys_are_left_out() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let lease = redlock.acquire("r").blocking().unwrap();
    let _reader = redlock.read("read").blocking().unwrap();
    nodes.iter().for_each(|node| node.set("cache", "value", None));
    let listed = all(redlock.resources("*"));
    let of = |name: &str| {
        let found = listed.iter().find(|one| *one.name == *name.as_bytes());
        match &found.unwrap_or_else(|| panic!("{name}: {listed:?}")).holder {
            Holder::Held(by) => by.clone(),
            other => panic!("{other}"),
        }
    };
    assert_eq!(listed.len(), 2);
    assert_eq!((of("r").owner, of("r").token), (Some(lease.owner()), lease.token().ok()));
    assert!(of("read").is_shared() && !of("r").is_shared());
}

/// The next node lists the names that the first node would have listed.
#[test]
fn a_node_that_is_down_hides_nothing_that_a_quorum_holds() {
    let nodes = nodes(3);
    let redlock = connect(&nodes);
    let _lease = redlock.acquire("r").blocking().unwrap();
    nodes[0].kill();
    let mut resources = redlock.resources("*");
    let mut found = 0;
    while let Some(page) = block_on(resources.next_page()).unwrap() {
        found += page.len();
    }
    assert_eq!(found, 1);
    let untold = resources.untold();
    assert_eq!(untold.iter().count(), 1, "{untold}");
    nodes[1].kill();
    nodes[2].kill();
    let error = block_on(redlock.resources("*").next_page()).unwrap_err();
    let FleetError::NotTold { nodes } = error else { panic!("{error}") };
    assert_eq!(nodes.failures().count(), 3);
}

/// A page that was dropped on the way is told by the next call.
#[test]
fn a_page_that_is_dropped_is_asked_for_again() {
    let nodes = [MemoryNode::new()];
    let redlock = connect(&nodes);
    let _lease = redlock.acquire("r").ttl(5 * SECOND).blocking().unwrap();
    let mut resources = redlock.resources("*");
    for _ in 0..3 {
        let page = resources.next_page();
        drop(futures::FutureExt::now_or_never(page));
    }
    let page = block_on(resources.next_page()).unwrap().unwrap();
    assert_eq!(page.len(), 1);
    assert!(block_on(resources.next_page()).unwrap().is_none());
}

/// A pattern that a node in memory reads otherwise than a server would find other names in a test than in production.
#[cfg(feature = "redis")]
#[test]
fn patterns_mean_the_same_in_memory_and_on_a_server() {
    let cluster = quorlock_harness::Cluster::start(1);
    let builder = || Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
    quorlock_harness::admit(builder().nodes(cluster.urls()));
    let server = block_on(builder().nodes(cluster.urls()).connect()).unwrap();
    let memory = connect(&nodes(1));
    let names_held =
        ["a", "ab", "abc", "a*c", "a?c", "a[b]c", r"a\c", "b-c", "job:1", "job:10", "-", "^"];
    let hold = |redlock: &Redlock| -> Vec<_> {
        names_held.iter().map(|name| redlock.acquire(name).blocking().unwrap()).collect()
    };
    let _leases = [hold(&server), hold(&memory)];
    let patterns = [
        "*", "", "a", "a*", "*c", "a?c", r"a\*c", r"a\\c", "a[b]c", r"a\[b\]c", "[ab]*", "[^a]*",
        "[a-c]", "[c-a]b", "job:?", "job:*", "**", "*b*", "[a", "[]", "[^]", "[a-]", "[-a]",
        r"[\-]", "?", "??", r"\", "[^-]",
    ];
    let mut matched = 0;
    for pattern in patterns {
        let [on_server, in_memory] = [&server, &memory].map(|redlock| names(redlock, pattern));
        assert_eq!(on_server, in_memory, "{pattern}");
        matched += on_server.len();
    }
    assert!(matched > 60, "only {matched}, which proves little");
}

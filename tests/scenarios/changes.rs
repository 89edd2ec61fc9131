//! Goal: a fleet changes its list of nodes while clients run. Those with the old list, with both and with the new one
//! exclude each other, tokens rise over the change, and whoever is left with the old list is told so by name.
//!
//! Method: servers of both lists, a client of each kind, and the change from its beginning to its end; the new client
//! alone asks for the end. The scripts are also run by hand.

use quorlock::{AcquireError, LossReason, node::Refusal};

use super::{
    scripts::{Ask, Node},
    *,
};

const TTL: Duration = SECOND;

/// Nodes of the cluster, in this order.
fn urls(cluster: &Cluster, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|node| cluster[*node].url()).collect()
}

fn of(cluster: &Cluster, nodes: &[usize]) -> Builder {
    Redlock::builder()
        .nodes(urls(cluster, nodes))
        .connect_timeout(10 * SECOND)
        .node_timeout(NODE_TIMEOUT)
        .close_timeout(20 * SECOND)
        .ttl(TTL)
        .max_ttl(TTL)
}

fn both(cluster: &Cluster, before: &[usize], after: &[usize]) -> Builder {
    of(cluster, after).nodes_before(urls(cluster, before))
}

/// The changes that operators make.
const CHANGES: [(&[usize], &[usize]); 6] = [
    (&[0, 1, 2], &[0, 1, 3]),
    (&[0, 1, 2], &[3, 4, 5]),
    (&[0, 1, 2], &[0, 1, 2, 3, 4]),
    (&[0, 1, 2, 3, 4], &[0, 1, 2]),
    (&[0], &[0, 1, 2]),
    (&[0, 1, 2], &[2]),
];

fn names_the_change(error: &AcquireError) -> bool {
    error.to_string().contains("has other nodes by now")
}

#[test]
fn every_change_of_the_list_ends_while_clients_run_and_nobody_is_in_twice() {
    std::thread::scope(|scope| {
        for (before, after) in CHANGES {
            scope.spawn(move || change(before, after));
        }
    });
}

fn change(before: &[usize], after: &[usize]) {
    let cluster = Cluster::start(6);
    let old = ready(of(&cluster, before));
    let held = old.acquire("held").wait(SOON).blocking().unwrap();
    let first = old.acquire("passed on").wait(SOON).blocking().unwrap();
    let last_token = token(&first);
    first.blocking_release().unwrap();

    // Processes with both lists: they exclude those with the old one, and are excluded by them.
    let joint = both(&cluster, before, after).blocking_connect().unwrap();
    let during = joint.acquire("passed on").wait(SOON).blocking().unwrap();
    assert!(token(&during) > last_token, "{before:?} {after:?}");
    assert!(old.try_acquire("passed on").blocking().is_err());
    assert!(joint.try_acquire("held").blocking().is_err());
    assert!(joint.is_changing());
    let kept = joint.acquire("kept").wait(SOON).blocking().unwrap();
    let during_token = token(&during);
    during.blocking_release().unwrap();
    let again = old.acquire("passed on").wait(SOON).blocking().unwrap();
    assert!(token(&again) > during_token, "{before:?} {after:?}");
    let again_token = token(&again);
    again.blocking_release().unwrap();
    assert!(held.is_valid() && kept.is_valid(), "nothing has been changed yet");

    // The first process with the new list alone asks for the end.
    let new = of(&cluster, after).build().unwrap();
    let after_it = new
        .acquire("passed on")
        .wait(SOON)
        .blocking()
        .unwrap_or_else(|error| panic!("{before:?} {after:?}: {error}"));
    assert!(token(&after_it) > again_token, "{before:?} {after:?}");
    // What was held by the old list is over before anybody gets in, and says so.
    assert!(!held.is_valid(), "{before:?} {after:?}");
    assert!(
        matches!(held.check().unwrap_err().reason, LossReason::RenewalFailed),
        "{before:?} {after:?}"
    );
    assert!(kept.is_valid(), "{before:?} {after:?}: both lists renew it");
    assert!(new.try_acquire("kept").blocking().is_err());
    assert!(joint.try_acquire("passed on").blocking().is_err());
    let error = old.try_acquire("passed on").blocking().unwrap_err();
    assert!(names_the_change(&error), "{before:?} {after:?}: {error}");
    let refused = of(&cluster, before).blocking_connect().unwrap_err().to_string();
    assert!(refused.contains("has other nodes by now"), "{refused}");

    eventually("all nodes of the new list are open", SOON, || !joint.is_changing());
    let held_again = new.acquire("held").wait(SOON).blocking().unwrap();
    kept.blocking_release().unwrap();
    let freed = new.acquire("kept").wait(SOON).blocking().unwrap();
    drop((joint, freed, held_again, after_it));
    all_ready(&new);
}

/// As `quorlock fleet change` does it.
#[test]
fn a_change_ends_also_where_an_operator_asks_for_that() {
    let cluster = Cluster::start(4);
    let old = ready(of(&cluster, &[0, 1, 2]));
    let held = old.acquire("r").wait(SOON).blocking().unwrap();
    let joint = both(&cluster, &[0, 1, 2], &[1, 2, 3]).blocking_connect().unwrap();
    joint.blocking_ready(SOON).unwrap();
    assert!(joint.is_changing() && held.is_valid());
    joint.end_change();
    eventually("it has ended", SOON, || !joint.is_changing());
    assert!(!held.is_valid());
    let new = of(&cluster, &[1, 2, 3]).blocking_connect().unwrap();
    assert!(new.try_acquire("r").blocking().is_ok());
}

/// A node of both lists is away while the change ends, before or behind the first look of a process with both lists: it has
/// missed the seal, and is taken in again when it is back. By then no process with both lists may be left.
#[test]
fn a_node_that_was_stopped_during_the_change_comes_back_to_the_new_list() {
    std::thread::scope(|scope| {
        for (is_announced, stays) in [(false, true), (true, true), (true, false)] {
            scope.spawn(move || comes_back(is_announced, stays));
        }
    });
}

fn comes_back(is_announced: bool, stays: bool) {
    let cluster = Cluster::start(4);
    let old = ready(of(&cluster, &[0, 1, 2]));
    let first = old.acquire("r").wait(SOON).blocking().unwrap();
    let first_token = token(&first);
    drop(first);
    let joint = || both(&cluster, &[0, 1, 2], &[0, 1, 3]).blocking_connect().unwrap();
    if is_announced {
        let before = joint();
        before.blocking_ready(SOON).unwrap();
        eventually("it is announced", SOON, || {
            cluster[0].run(&["HEXISTS", MARKER, "next"]) == redis::Value::Int(1)
        });
    }
    cluster[0].pause();
    let joint = joint();
    joint.blocking_ready(SOON).unwrap();
    let new = of(&cluster, &[0, 1, 3]).build().unwrap();
    let second = new.acquire("r").wait(SOON).blocking().unwrap();
    assert!(token(&second) > first_token);
    second.blocking_release().unwrap();
    drop(old);
    let joint = Some(joint).filter(|_| stays);
    cluster[0].resume();
    all_ready(&new);
    drop(joint);
    let third = new.acquire("r").wait(SOON).blocking().unwrap();
    assert!(token(&third) > first_token);
}

/// Where the new list cannot vote, the old one goes on, though a process asks for the end.
#[test]
fn a_change_to_nodes_that_are_down_does_not_begin() {
    let cluster = Cluster::start(5);
    let old = ready(of(&cluster, &[0, 1, 2]));
    let held = old.acquire("r").wait(SOON).blocking().unwrap();
    cluster[3].kill();
    cluster[4].kill();
    let joint = both(&cluster, &[0, 1, 2], &[0, 3, 4]).build().unwrap();
    let early = of(&cluster, &[0, 3, 4]).build().unwrap();
    joint.end_change();
    assert!(early.acquire("r").wait(4 * SECOND).blocking().is_err());
    assert!(held.is_valid(), "{:?}", held.check());
    assert!(old.try_acquire("other").blocking().is_ok());
    for node in 0..3 {
        let record = cluster[node].run(&["HGET", MARKER, "members"]);
        let record: String = redis::from_redis_value(record).expect("a record");
        assert!(record.starts_with("1 ") && !record.contains('>'), "{record}");
    }
}

/// Nodes that keep no list cannot tell whether the old one is done with.
#[test]
fn nodes_that_keep_no_list_change_nothing_while_clients_run() {
    let cluster = Cluster::start(1);
    let memory = quorlock::node::MemoryNode::new;
    let after = of(&cluster, &[0]).node(memory()).node(memory());
    let error = after.nodes_before(urls(&cluster, &[0])).build().unwrap_err();
    assert!(error.to_string().starts_with("nodes_before needs"), "{error}");
}

/// A neighbour of the same name, which has never changed, is not taken for nodes that have missed a change.
#[test]
fn a_neighbour_of_the_same_name_and_an_earlier_generation_is_left_alone() {
    let cluster = Cluster::start(6);
    change_with(&cluster, &[0, 1], &[0]);
    let neighbour = ready(of(&cluster, &[3, 4, 5]));
    let held = neighbour.acquire("r").wait(SOON).blocking().unwrap();
    let wrong = both(&cluster, &[0], &[3, 4, 5]).build().unwrap();
    wrong.end_change();
    assert!(wrong.acquire("r").wait(3 * SECOND).blocking().is_err());
    assert!(held.is_valid(), "{:?}", held.check());
}

/// A change from one list to another, by an operator.
fn change_with(cluster: &Cluster, before: &[usize], after: &[usize]) {
    drop(ready(of(cluster, before).danger_allow_two_nodes()));
    let joint = both(cluster, before, after).danger_allow_two_nodes().blocking_connect().unwrap();
    joint.blocking_ready(SOON).unwrap();
    joint.end_change();
    eventually("it has ended", SOON, || !joint.is_changing());
}

/// A fleet goes back. Those who are left from the way there do not turn it round again.
#[test]
fn a_change_that_is_taken_back_is_over() {
    let cluster = Cluster::start(4);
    let (a, b) = ([0, 1, 2], [0, 1, 3]);
    let old = ready(of(&cluster, &a));
    let there = both(&cluster, &a, &b).blocking_connect().unwrap();
    there.blocking_ready(SOON).unwrap();
    let new = of(&cluster, &b).build().unwrap();
    drop(new.acquire("r").wait(SOON).blocking().unwrap());
    let back = both(&cluster, &b, &a).blocking_connect().unwrap();
    back.blocking_ready(SOON).unwrap();
    back.end_change();
    eventually("it has gone back", SOON, || !back.is_changing());
    let again = of(&cluster, &a).blocking_connect().unwrap();
    for _ in 0..20 {
        drop(again.acquire("r").wait(SOON).blocking().unwrap());
        for left in [&old, &there, &new] {
            let _ = left.try_acquire("r").blocking();
        }
        std::thread::sleep(200 * MS);
    }
    let record = cluster[0].run(&["HGET", MARKER, "members"]);
    let record: String = redis::from_redis_value(record).expect("a record");
    assert!(record.starts_with("3 ") && !record.contains('>'), "{record}");
    assert!(new.try_acquire("r").blocking().is_err(), "its list was left");
}

/// Nobody has both lists: a process with another list is refused, and leaves nothing.
#[test]
fn without_a_process_with_both_lists_another_list_is_refused() {
    let cluster = Cluster::start(4);
    let old = ready(of(&cluster, &[0, 1, 2]));
    let error = of(&cluster, &[0, 1, 3]).blocking_connect().unwrap_err();
    assert!(error.to_string().contains("give every process the same nodes"), "{error}");
    let asked = cluster[0].run(&["HGET", MARKER, "asked"]);
    let asked: Option<String> = redis::from_redis_value(asked).expect("a text");
    assert_eq!(asked.unwrap_or_default(), "", "a refused call leaves no trace");
    assert!(old.try_acquire("r").blocking().is_ok());
}

const COUNTERS: &str = "quorlock:counters";
const OLD: &str = "1 a,b,c test";
const BOTH: &str = "1 a,b,c>a,b,d test";
const NEW: &str = "2 a,b,d test";

#[test]
fn a_sealed_node_serves_both_lists_alone_until_it_is_opened_and_then_the_new_one() {
    let node = Node::empty();
    assert_eq!(node.look_as(OLD, "", "60000", 0), (0, "m".to_owned()));
    assert!(node.admit_as(OLD));
    let identity = node.text_of("identity");
    assert_eq!(node.look_as(NEW, "", "60000", 0).0, -5);
    assert_eq!(node.text_of("asked"), "", "nobody has both lists");
    assert_eq!(node.look_as(BOTH, "", "60000", 0), (1, "b".to_owned()));
    assert_eq!(node.look_as(OLD, "", "60000", 0), (1, String::new()));
    // A client with the new list is told of the change, and asks for its end.
    let (code, told) = node.look_as(NEW, "", "60000", 0);
    assert_eq!((code, told.starts_with(BOTH)), (-5, true), "{told}");
    assert_eq!(node.look_as(BOTH, "", "60000", 0), (1, "ba".to_owned()));
    // It may not open a node that was not sealed.
    assert_eq!(node.look_as(NEW, "p77", "60000", 0).0, -5);
    assert_eq!(node.look_as(BOTH, "c", "60000", 0), (1, "sa".to_owned()));
    assert_ne!(node.text_of("identity"), identity, "nobody extends who has not read it since");
    assert_eq!(node.text_of("seal"), "1");
    assert_eq!(node.look_as(BOTH, "c", "60000", 0), (1, "sa".to_owned()));
    assert_eq!(node.text_of("seal"), "1", "once");
    assert_eq!(node.look_as(OLD, "", "60000", 0), (-5, format!("{BOTH} 0")));
    assert_eq!(node.look_as("2 a,b,e test", "p77", "60000", 0).0, -5, "another list opens nothing");
    assert_eq!(node.look_as("3 a,b,d test", "p77", "60000", 0).0, -5, "nor another generation");
    let sealed = (node.text_of("identity"), node.text_of("epoch"));
    assert_eq!(node.look_as(BOTH, "p900", "60000", 0), (1, String::new()));
    assert_ne!((node.text_of("identity"), node.text_of("epoch")), sealed);
    assert_eq!(
        (node.text_of("members"), node.text_of("floor")),
        (NEW.to_owned(), "0000000000000900".to_owned())
    );
    assert_eq!(node.look_as(NEW, "", "60000", 0), (1, String::new()));
    assert_eq!(node.look_as(OLD, "", "60000", 0).0, -5);
    // What comes late changes nothing.
    assert_eq!(node.look_as(BOTH, "c", "60000", 0), (1, String::new()));
    assert_eq!(node.look_as(BOTH, "p950", "60000", 0), (1, String::new()));
    assert_eq!(node.text_of("floor"), "0000000000000900");
    // It has missed a later change.
    assert_eq!(node.look_as("3 a,b,e test", "", "60000", 0).0, -5);
    assert_eq!(node.look_as("3 a,b,e test", "y", "60000", 0).0, -5, "of others, perhaps");
    assert_eq!(node.look_as("3 a,b,d test", "y", "60000", 0), (0, "h".to_owned()));
    assert_eq!(node.look_as("2 a,b,d test", "y", "60000", 0).0, -5, "an earlier one takes nothing");
}

/// A sealed node that has to join again is let in by a client with the new list only where that knows that the change is over.
#[test]
fn a_sealed_node_that_joins_again_is_not_let_in_by_a_client_that_knows_no_end_of_the_change() {
    let node = Node::empty();
    assert_eq!(node.look_as(BOTH, "", "60000", 0), (0, "m".to_owned()));
    assert!(node.admit_as(BOTH));
    node.set_state("joining");
    for (list, letters) in [("1 a,b,d test", "e"), (NEW, ""), ("3 a,b,d test", "e")] {
        assert_eq!(node.look_as(list, letters, "60000", 0).0, -5, "{list} {letters}");
    }
    assert!(!node.admit_as("1 a,b,d test") && !node.admit_as("3 a,b,d test"));
    assert_eq!(node.look_as(NEW, "e", "60000", 0).0, 0);
    assert!(node.admit_as(NEW));
    assert_eq!(node.text_of("members"), NEW);
}

/// What was granted before is counted above.
#[test]
fn the_counters_of_a_node_that_is_opened_go_on_above_its_floor() {
    let node = Node::empty();
    assert_eq!(node.look_as(BOTH, "", "60000", 0), (0, "m".to_owned()));
    assert!(node.admit_as(BOTH));
    assert_eq!(node.look_as(BOTH, "", "60000", 0), (1, "s".to_owned()));
    let grants = |owner: &str| {
        let head = node.server.run(&["HGET", COUNTERS, ""]);
        let head: String = redis::from_redis_value(head).expect("a head");
        let etag = head.split(' ').next().expect("an etag");
        let granted = node.granted(Ask { etag, ..Ask::of(owner) });
        node.expire();
        granted
    };
    let first = grants("a");
    assert_eq!(grants("b"), first + 1);
    assert_eq!(node.look_as(BOTH, "p90000000", "60000", 0), (1, String::new()));
    assert_eq!(grants("c"), 90_000_001, "of the older generation, and below the floor");
    assert_eq!(grants("d"), 90_000_002);
}

#[test]
fn a_refusal_says_which_nodes_the_fleet_has_by_now() {
    let cluster = Cluster::start(3);
    let old = ready(of(&cluster, &[0, 1, 2]));
    for node in 0..3 {
        cluster[node].run(&["HSET", MARKER, "members", "2 x:1,y:2,z:3 default"]);
    }
    eventually("the nodes say so", SOON, || {
        let _ = old.try_acquire("r").blocking();
        old.nodes()
            .iter()
            .any(|node| matches!(&node.state, NodeState::Refused(Refusal::MembersChanged { .. })))
    });
    let text = old.try_acquire("r").blocking().unwrap_err().to_string();
    assert!(text.contains("has other nodes by now, x:1, y:2, z:3"), "{text}");
}

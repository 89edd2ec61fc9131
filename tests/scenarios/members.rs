//! Goal: of two lists of nodes that share one, at most one is used, whichever comes first and whatever is late; and a
//! list that was refused leaves nothing by which another one would be.
//!
//! Method: servers that no client has used, and some that are in use; clients one after the other, and at the same
//! moment. The scripts are also run by hand; each that could undo later changes is run too late.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, Ordering},
};

use quorlock::{
    ConnectError,
    node::{NodeSpec, Refusal},
};

use super::{scripts::Node, *};

const TTL: &str = "60000";
const A: &str = "1 a,x test";
const B: &str = "1 b,x test";

/// Nodes of the cluster, in this order.
fn of(cluster: &Cluster, nodes: &[usize]) -> Builder {
    let urls = nodes.iter().map(|node| cluster[*node].url());
    Redlock::builder()
        .nodes(urls)
        .connect_timeout(10 * SECOND)
        .node_timeout(100 * MS)
        .ttl(SECOND)
        .max_ttl(SECOND)
}

/// Why the first node that belongs to others refuses, in full.
#[track_caller]
fn refused(builder: Builder) -> String {
    match builder.blocking_connect() {
        Err(ConnectError::Refused { nodes }) => {
            let of_others =
                |(_, refusal): &(_, &Refusal)| matches!(refusal, Refusal::OtherMembers { .. });
            nodes.refused().find(of_others).expect("one of others").1.to_string()
        }
        other => panic!("it is not refused: {other:?}"),
    }
}

fn works(redlock: &Redlock) -> bool {
    redlock
        .acquire("same")
        .wait(10 * SECOND)
        .blocking()
        .map(|lease| lease.blocking_release().expect("it is released"))
        .is_ok()
}

#[test]
fn a_node_that_is_meant_for_one_list_is_refused_to_another_until_that_is_over() {
    let node = Node::empty();
    assert_eq!(node.look_as(A, "", TTL, 0), (0, "m".to_owned()));
    assert_eq!(node.look_as(B, "s", TTL, 0), (-5, format!("{A} -1")));
    assert!(!node.admit_as(B));
    // Its client gives it up. A client that only looks gives up nothing, and means nothing.
    assert_eq!(node.look_as(A, "n", TTL, 0), (0, "m".to_owned()));
    assert_eq!(node.look_as(B, "n", TTL, 0).0, -5);
    assert_eq!(node.look_as(A, "w", TTL, 0).0, 0);
    assert_eq!(node.look_as(A, "n", TTL, 0), (0, "m".to_owned()));
    assert_eq!(node.look_as(B, "", TTL, 0), (0, "m".to_owned()));
    // Or is gone for a while.
    node.mark(&[("meant_until", &(node.now_us() - 1).to_string())]);
    assert_eq!(node.look_as(A, "", TTL, 0), (0, "m".to_owned()));
    // An end that is further ahead than any is from before the clock went back.
    node.mark(&[("meant_until", &(node.now_us() + 20_000_000).to_string())]);
    assert_eq!(node.look_as(B, "", TTL, 0), (0, "m".to_owned()));
    // What is held does not end.
    assert_eq!(node.look_as(B, "s", TTL, 0), (0, "h".to_owned()));
    assert_eq!(node.look_as(B, "w", TTL, 0), (0, "h".to_owned()));
    assert_eq!(node.look_as(A, "s", TTL, 0), (-5, format!("{B} -1")));
    assert!(node.admit_as(B) && !node.admit_as(A));
    assert_eq!(node.look_as(A, "", TTL, 0).1.split(' ').next_back(), Some("0"), "for no second");
    assert_eq!(node.look_as(B, "", TTL, 0), (1, String::new()));
}

/// However large the value that another program has written, no client is sent it in full, again and again.
#[test]
fn a_huge_value_in_the_place_of_the_members_is_cut_in_the_answer() {
    let node = Node::empty();
    let huge = "x".repeat(1 << 20);
    node.mark(&[("members", &huge)]);
    let (code, owner) = node.look_as(A, "", TTL, 0);
    assert_eq!(code, -5);
    assert!(owner.len() < 70_000, "{} bytes", owner.len());
    // An operator takes it.
    assert_eq!(node.look_as(A, "t", TTL, 0), (0, "h".to_owned()));
    // In a form that has to be searched to its end, and in the place of a claim.
    let huge = format!("1 {}", "x".repeat(1 << 20));
    for fields in [[("members", ""), ("meant", &*huge)], [("members", &*huge), ("next", &*huge)]] {
        node.mark(&fields);
        for letters in ["", "y", "e"] {
            assert_eq!(node.look_as("2 a,x test", letters, TTL, 0).0, -5, "{letters}");
        }
    }
}

/// Each letter that could undo later changes is executed a moment after its time, and a moment before.
#[test]
fn what_is_late_takes_holds_gives_up_and_lowers_nothing() {
    let node = Node::empty();
    let late = || node.now_us() - 1;
    let soon = || node.now_us() + 10_000_000;
    assert_eq!(node.look_as(A, "", TTL, 0), (0, "m".to_owned()));
    assert_eq!(node.look_as(A, "s", TTL, late()), (0, "m".to_owned()), "it holds nothing");
    assert_eq!(node.look_as(A, "w", TTL, late()), (0, "m".to_owned()));
    assert_eq!(node.look_as(B, "", TTL, 0).0, -5, "nothing was given up");
    assert_eq!(node.look_as(A, "s", TTL, soon()), (0, "h".to_owned()));
    assert!(node.admit_as(A));
    assert_eq!(node.look_as(B, "t", TTL, late()).0, -5, "it takes nothing");
    assert_eq!(node.look_as(A, "x1", "5000", late()).0, 1);
    assert_eq!(node.look_as(A, "d1", "5000", late()).0, 1);
    assert_eq!(node.text_of("max_ttl"), TTL);
    // It notes what was told since, and no less.
    let seal = node.text_of("seal");
    assert_eq!(node.look_as(A, "x1", "5000", soon()).0, 1);
    // Each client tells its own ttl before it gets a vote again, also one that has slept.
    assert_ne!(node.text_of("seal"), seal);
    assert_eq!(node.look_as(A, "", "7000", 0).0, 1);
    assert_eq!(node.look_as(A, "d1", "5000", late()).0, 1);
    assert_eq!(node.text_of("max_ttl"), TTL);
    // It comes twice.
    assert_eq!(node.look_as(A, "x1", "5000", soon()).0, 1);
    // Another watch begins, and the first one lowers nothing: it has not seen what the second was told.
    assert_eq!(node.look_as(A, "x2", "5000", soon()).0, 1);
    assert_eq!(node.look_as(A, "d1", "5000", soon()).0, 1);
    assert_eq!(node.text_of("max_ttl"), TTL);
    assert_eq!(node.look_as(A, "", "7000", 0).0, 1);
    assert_eq!(node.look_as(A, "d2", "5000", soon()).0, 1);
    assert_eq!(node.text_of("max_ttl"), "7000");
    assert_eq!(node.look_as(A, "d2", "5000", soon()).0, 1, "without a watch it lowers nothing");
    assert_eq!(node.look_as(A, "", "5000", 0).0, 1, "a shorter one lowers nothing");
    assert_eq!(node.text_of("max_ttl"), "7000");
    // In time it is taken, forgets its counters but for how high they were, and votes for nobody until it is admitted again.
    let epoch = node.text_of("epoch");
    assert_eq!(node.look_as(B, "t", TTL, soon()), (0, "h".to_owned()));
    assert_ne!(node.text_of("epoch"), epoch);
    assert_eq!(node.look_as(A, "", TTL, 0), (-5, format!("{B} -1")));
    assert!(!node.admit_as(A) && node.admit_as(B));
}

#[test]
fn two_lists_one_after_the_other() {
    let cluster = Cluster::start(5);
    let first = ready(of(&cluster, &[0, 1, 2]));
    // The same in another order, case and by another name of a server.
    let port = cluster[1].port();
    let localhost = format!("redis://LOCALHOST:{port}");
    let same = Redlock::builder()
        .nodes([cluster[2].url(), cluster[0].url()])
        .node(NodeSpec::from(&localhost).named(format!("127.0.0.1:{port}")))
        .connect_timeout(10 * SECOND)
        .ttl(SECOND)
        .max_ttl(SECOND);
    assert!(works(&ready(same)));
    let unnamed = Redlock::builder().nodes([cluster[2].url(), cluster[0].url(), localhost]);
    let text = refused(unnamed.connect_timeout(10 * SECOND).ttl(SECOND).max_ttl(SECOND));
    assert!(
        text.contains(&format!("you have localhost:{port}, they have 127.0.0.1:{port}")),
        "{text}"
    );
    // One of three is the same, and two of three; one node alone; and five.
    for nodes in [&[2, 3, 4][..], &[1, 2, 3], &[0], &[0, 1, 2, 3, 4]] {
        let text = refused(of(&cluster, nodes));
        assert!(text.contains("have used it for"), "{text}");
        // The error names the nodes that differ.
        let name = |node: &usize| format!("127.0.0.1:{}", cluster[*node].port());
        let ours = nodes.iter().filter(|node| ![0, 1, 2].contains(*node)).map(name);
        assert!(ours.into_iter().all(|name| text.contains(&name)), "{text}");
        assert!(works(&first));
    }
    // Those that were refused have left nothing on the nodes that nobody uses.
    assert!(works(&ready(of(&cluster, &[3, 4]).node(Server::start().url()))));
}

#[test]
fn two_lists_at_the_same_moment() {
    for (left, right) in
        [(&[0, 1, 2][..], &[2, 3, 4][..]), (&[0, 1, 2], &[1, 2, 3]), (&[0], &[0, 1, 2])]
    {
        let cluster = Cluster::start(5);
        let (begin, both) = (Barrier::new(2), [AtomicBool::new(false), AtomicBool::new(false)]);
        std::thread::scope(|scope| {
            for (place, nodes) in [left, right].into_iter().enumerate() {
                let (cluster, begin, both) = (&cluster, &begin, &both);
                scope.spawn(move || {
                    begin.wait();
                    // Not by `connect`, so that the client goes on if it is refused at first.
                    let redlock = of(cluster, nodes).build().expect("a handle");
                    let lease = redlock.acquire("same").wait(8 * SECOND).blocking();
                    both[place].store(lease.is_ok(), Ordering::SeqCst);
                    // Both would be seen to hold it.
                    begin.wait();
                    drop(lease);
                });
            }
        });
        let held = both.iter().filter(|held| held.load(Ordering::SeqCst)).count();
        assert_eq!(held, 1, "{left:?} {right:?}: one of them has it");
    }
}

/// A typo in the list that nothing can notice: a server too many. Its process is told to end, and the right list follows.
#[test]
fn a_handle_that_is_closed_in_its_quarantine_leaves_the_servers_to_the_right_list() {
    let cluster = Cluster::start(4);
    let typo = of(&cluster, &[0, 1, 3]).blocking_connect().expect("it waits for its quarantine");
    assert!(refused(of(&cluster, &[0, 1, 2])).contains("are about to use it"));
    typo.blocking_close().expect("nothing is under way");
    assert!(works(&ready(of(&cluster, &[0, 1, 2]))));
}

/// A typo in the list: four nodes, of which two are one server.
#[test]
fn a_list_that_was_refused_leaves_the_servers_to_the_right_one() {
    let cluster = Cluster::start(3);
    let again = format!("redis://localhost:{}", cluster[2].port());
    let error = of(&cluster, &[0, 1, 2]).node(again).blocking_connect().unwrap_err();
    let ConnectError::Refused { nodes } = &error else { panic!("{error}") };
    assert!(nodes.refused().all(|(_, refusal)| matches!(refusal, Refusal::SameServer { .. })));
    assert!(works(&ready(of(&cluster, &[0, 1, 2]))));
}

/// A node of a fleet that is in use is lost, and turns up in another one: the first goes on, and says so.
#[test]
fn a_fleet_that_is_in_use_goes_on_without_a_node_that_belongs_to_others() {
    let cluster = Cluster::start(5);
    let first = ready(of(&cluster, &[0, 1, 2]));
    assert!(works(&first));
    cluster[2].run(&["FLUSHALL"]);
    let marker = ["HSET", MARKER, "members", "1 127.0.0.1:1,127.0.0.1:2 default", "since", "1"];
    cluster[2].run(&marker);
    let is_refused = |redlock: &Redlock| {
        matches!(
            &redlock.nodes()[2].state,
            NodeState::Refused(Refusal::OtherMembers { age: Some(_), .. })
        )
    };
    eventually("the node says whose it is", SOON, || {
        // A client that acquires finds out.
        works(&first) && is_refused(&first)
    });
    assert!(works(&first));
    let second = of(&cluster, &[0, 1, 2]).blocking_connect().expect("two of three are a quorum");
    assert!(is_refused(&second) && works(&second));
}

//! Goal: a node that lost the key of a held lease gets it back, whichever clients have asked there since, and not later
//! than the lease is known to hold.
//!
//! Method: the real script on a real server, and a lease in classic mode whose key is deleted on one node.

use quorlock_harness::{Cluster, eventually, redis::from_redis_value};

use super::{
    SECOND, SOON, has_key, ready,
    scripts::{Ask, Node, RESOURCE},
    settings,
};

#[test]
fn a_counter_above_the_token_is_no_obstacle_and_stays() {
    let node = Node::admitted();
    let token = node.granted(Ask::of("holder"));
    node.expire();
    let waiter = node.granted(Ask::of("waiter"));
    assert!(waiter > token);
    let latest = node.now_us() + 1_000_000;
    assert_eq!(node.restored("holder", latest), 0, "the waiter's key stands there");
    node.expire();
    assert_eq!(node.restored("holder", latest), 1);
    assert_eq!(node.counter(), Some(waiter));
    assert_eq!(node.restored("holder", latest), 0, "it is there already");
}

/// Whatever it is: the key of another holder, of another program, or of another type.
#[test]
fn a_key_that_somebody_else_has_by_now_stays_as_it_is() {
    let node = Node::admitted();
    node.granted(Ask::of("holder"));
    let latest = node.now_us() + 3_600_000_000;
    for set in [&["SET", RESOURCE, "other"][..], &["SET", RESOURCE, ""], &["SADD", RESOURCE, "x"]] {
        node.server.run(&["DEL", RESOURCE]);
        node.server.run(set);
        let dump = || node.server.run(&["DUMP", RESOURCE]);
        let before = dump();
        assert_eq!(node.restored("holder", latest), 0, "{set:?}");
        assert_eq!(dump(), before, "{set:?}");
    }
    node.expire();
    assert_eq!(node.restored("holder", latest), 1);
    let lives: i64 = from_redis_value(node.server.run(&["PTTL", RESOURCE])).unwrap();
    assert!((1..=10_000).contains(&lives), "for as long as was asked for: {lives}");
    // A restore does not prolong a key that stands: only an extension does.
    node.server.run(&["PEXPIRE", RESOURCE, "500000"]);
    assert_eq!(node.restored("holder", latest), 0);
    let lives: i64 = from_redis_value(node.server.run(&["PTTL", RESOURCE])).unwrap();
    assert!(lives > 10_000, "{lives}");
}

#[test]
fn a_restore_that_comes_late_or_whose_end_is_not_known_does_nothing() {
    let node = Node::admitted();
    for latest in [node.now_us() - 1, 0] {
        assert_eq!(node.restored("holder", latest), -3);
    }
    node.set_state("joining");
    assert_eq!(node.restored("holder", node.now_us() + 1_000_000), -1);
    assert_eq!(node.code(Ask::of("other")), -1);
    node.set_state("ready");
    assert_eq!(node.granted(Ask::of("other")), 1, "nothing has been set");
}

#[test]
fn a_lease_in_classic_mode_gets_its_key_back() {
    let cluster = Cluster::start(3);
    let redlock = ready(settings(&cluster, 20 * SECOND).classic());
    let lease = redlock.acquire("r").blocking().unwrap();
    eventually("all have the key", SOON, || cluster.iter().all(|server| has_key(server, &lease)));
    assert!(cluster[1].del("r"));
    let in_full = cluster[1].command_calls("eval");
    futures::executor::block_on(lease.extend()).unwrap();
    eventually("the key is back", SOON, || has_key(&cluster[1], &lease));
    lease.blocking_release().unwrap();
    eventually("and gone", SOON, || cluster.keys_left().is_empty());
    assert_eq!(
        cluster[1].command_calls("eval"),
        in_full,
        "it has known all scripts from the start"
    );
}

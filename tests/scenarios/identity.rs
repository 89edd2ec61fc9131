//! Goal: a node whose data is exchanged under a living process, and connections that stay, may have forgotten like one
//! that was restarted.
//!
//! Method: replication from older copies, exchanged databases, and older data written back, on real servers, while a
//! holder has a lease on a quorum of which that node is a part; a second client with live connections asks.

use std::time::Duration;

use quorlock::{
    Lease, Redlock,
    node::{NodeState, Refusal},
};
use quorlock_harness::{Cluster, Server, eventually, redis};

use super::{
    MARKER, SECOND, SOON, acquire_without, admitted, all_ready, has_heard, ready, scripts, settings,
};

const TTL: Duration = Duration::from_secs(3);

fn follow(server: &Server, master: &Server) {
    server.run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("it has the master's data", SOON, || {
        let info: String = redis::from_redis_value(server.run(&["INFO", "replication"])).unwrap();
        info.contains("master_link_status:up")
    });
}

/// A server that replicates without delay.
fn start() -> Server {
    Server::builder().arg("repl-diskless-sync-delay", "0").start()
}

fn cluster() -> Cluster {
    let cluster = Cluster::start_with(3, |_, builder| builder.arg("repl-diskless-sync-delay", "0"));
    super::admit(&cluster, TTL);
    cluster
}

/// Two clients that know the nodes. The first holds `r` by its keys on nodes 0 and 1.
fn held(cluster: &Cluster) -> (Redlock, Lease) {
    let (first, second) = (ready(settings(cluster, TTL)), ready(settings(cluster, TTL)));
    has_heard(cluster, &second);
    (second, acquire_without(cluster, &first, "r", 2))
}

/// The other client must not be granted what `held` has, as long as it has it.
#[track_caller]
fn excluded(other: &Redlock, held: &Lease) {
    while held.check().is_ok_and(|left| left > TTL / 10) {
        let granted = other.try_acquire("r").blocking();
        assert!(granted.is_err() || held.check().is_err(), "two holders at once");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An older copy of a node becomes its master for a while. The process, its marker and all connections stay; only the
/// lease is gone.
#[test]
fn a_node_that_took_over_an_older_copy_of_itself_does_not_vote() {
    let (cluster, copy) = (cluster(), start());
    follow(&copy, &cluster[1]);
    copy.run(&["REPLICAOF", "NO", "ONE"]);
    let (other, held) = held(&cluster);
    follow(&cluster[1], &copy);
    // A client asks for a resource while the node is a replica.
    eventually("it is refused", SOON, || {
        drop(other.try_acquire("another").blocking());
        other.nodes()[1].state == NodeState::Refused(Refusal::Replica)
    });
    cluster[1].run(&["REPLICAOF", "NO", "ONE"]);
    excluded(&other, &held);
    all_ready(&other);
}

/// The same, while no client asks the node in between: nothing that the node keeps shows what it has lost.
#[test]
fn a_node_that_took_over_an_older_copy_while_nobody_spoke_to_it_does_not_vote() {
    let (cluster, copy) = (cluster(), start());
    let (first, other) = (ready(settings(&cluster, TTL)), ready(settings(&cluster, TTL)));
    // The high-water mark is ahead by then, and does not rise any more while this runs.
    other.acquire("warm").blocking().unwrap().blocking_release().unwrap();
    follow(&copy, &cluster[1]);
    copy.run(&["REPLICAOF", "NO", "ONE"]);
    let held = acquire_without(&cluster, &first, "r", 2);
    follow(&cluster[1], &copy);
    cluster[1].run(&["REPLICAOF", "NO", "ONE"]);
    excluded(&other, &held);
    all_ready(&other);
}

/// A node takes over the data of another one, marker and counters included, and nobody notices that it was a replica.
#[test]
fn a_node_that_took_over_the_data_of_another_one_does_not_vote() {
    let cluster = cluster();
    let epoch =
        redis::from_redis_value::<String>(cluster[2].run(&["HGET", MARKER, "epoch"])).unwrap();
    for server in &cluster {
        server.run(&["HSET", MARKER, "epoch", &epoch]);
    }
    let (other, held) = held(&cluster);
    follow(&cluster[1], &cluster[2]);
    cluster[1].run(&["REPLICAOF", "NO", "ONE"]);
    excluded(&other, &held);
    all_ready(&other);
}

/// Both databases have been admitted, each as a node of its own.
#[test]
fn databases_that_are_exchanged_do_not_vote() {
    let cluster = admitted(3, TTL);
    let urls = cluster.urls().into_iter().map(|url| format!("{url}/1"));
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND);
    drop(ready(builder.ttl(TTL).max_ttl(TTL).danger_skip_quarantine()));
    let (other, held) = held(&cluster);
    cluster[1].run(&["SWAPDB", "0", "1"]);
    excluded(&other, &held);
}

/// The node has been admitted with the database that came in, has voted, and has its earlier database again.
#[test]
fn databases_that_are_exchanged_and_exchanged_back_do_not_vote() {
    let cluster = admitted(3, TTL);
    let (first, second) = (ready(settings(&cluster, TTL)), ready(settings(&cluster, TTL)));
    cluster[1].run(&["SWAPDB", "0", "1"]);
    for client in [&first, &second] {
        eventually("it is seen", SOON, || {
            drop(client.try_acquire("another").blocking());
            client.nodes()[1].state != NodeState::Ready
        });
    }
    all_ready(&first);
    all_ready(&second);
    let held = acquire_without(&cluster, &first, "r", 2);
    cluster[1].run(&["SWAPDB", "0", "1"]);
    excluded(&second, &held);
}

/// A marker and counters of before are written back by hand, as a restore of single keys would.
#[test]
fn older_data_that_is_written_back_is_noticed_by_whoever_has_seen_newer() {
    let cluster = admitted(3, TTL);
    let keys = [MARKER, "quorlock:counters"];
    let dumps = keys
        .map(|key| -> Vec<u8> { redis::from_redis_value(cluster[1].run(&["DUMP", key])).unwrap() });
    let (other, held) = held(&cluster);
    let mut connection = cluster[1].control();
    for (key, dump) in keys.iter().zip(&dumps) {
        redis::cmd("RESTORE")
            .arg(key)
            .arg(0)
            .arg(dump)
            .arg("REPLACE")
            .exec(&mut connection)
            .unwrap();
    }
    assert!(cluster[1].del("r"));
    excluded(&other, &held);
}

/// The same for a marker that says that the node is joining, and has waited long enough. It has been admitted since,
/// and has voted: a client that knows that must not believe it.
#[test]
fn a_wait_of_before_the_node_was_admitted_is_not_believed_by_whoever_has_seen_it_admitted() {
    let cluster = admitted(3, TTL);
    cluster[1].flush();
    let build = || settings(&cluster, TTL).build().unwrap();
    let (first, second) = (build(), build());
    let marker = || -> std::collections::HashMap<String, String> {
        redis::from_redis_value(cluster[1].run(&["HGETALL", MARKER])).unwrap()
    };
    eventually("it is joining", SOON, || {
        marker().get("state").is_some_and(|state| state == "joining")
    });
    let mut joining = marker();
    let waited = format!("{} 3600000 1", joining["epoch"]);
    joining.insert("waited".to_owned(), waited);
    for client in [&first, &second] {
        all_ready(client);
    }
    has_heard(&cluster, &second);
    let held = acquire_without(&cluster, &first, "r", 2);
    cluster[1].run(&["DEL", MARKER, "quorlock:counters", "quorlock:older", "r"]);
    for (field, value) in &joining {
        cluster[1].run(&["HSET", MARKER, field, value]);
    }
    excluded(&second, &held);
    all_ready(&second);
}

/// Nothing is written to it, so that nothing fails.
#[test]
fn a_node_that_became_a_replica_is_shown_so_although_nobody_writes_to_it() {
    let (cluster, master) = (cluster(), start());
    let redlock = ready(settings(&cluster, TTL));
    cluster[1].run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("it is refused", 2 * SOON, || {
        redlock.nodes()[1].state == NodeState::Refused(Refusal::Replica)
    });
    cluster[1].run(&["REPLICAOF", "NO", "ONE"]);
    all_ready(&redlock);
}

/// A look that writes nothing, which a replica would refuse by itself.
#[test]
fn a_replica_says_so_when_it_is_looked_at() {
    let (node, master) = (scripts::Node::admitted(), start());
    let look = ["this", "0", "test/1", "60000", "0", "", "0"];
    assert_eq!(node.look_code(&look), 1);
    // It keeps its data as long as it does not reach its master.
    master.pause();
    node.server.run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    assert_eq!(node.look_code(&look), -6);
    node.server.run(&["REPLICAOF", "NO", "ONE"]);
    eventually("it is a master again", SOON, || node.look_code(&look) != -6);
    master.resume();
}

/// Nothing that is written to it fails.
#[test]
fn a_node_that_became_a_replica_that_takes_writes_is_shown_so() {
    let cluster = Cluster::start_with(3, |_, builder| builder.arg("replica-read-only", "no"));
    super::admit(&cluster, TTL);
    let master = start();
    let redlock = ready(settings(&cluster, TTL));
    cluster[1].run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("it is refused", 2 * SOON, || {
        drop(redlock.try_acquire("r").blocking());
        redlock.nodes()[1].state == NodeState::Refused(Refusal::Replica)
    });
    cluster[1].run(&["REPLICAOF", "NO", "ONE"]);
    all_ready(&redlock);
}

/// In classic mode nobody looks at nodes that are connected.
#[test]
fn a_node_that_became_a_replica_is_shown_so_by_what_it_refuses_in_classic_mode() {
    let (cluster, master) = (Cluster::start(3), start());
    let redlock = ready(settings(&cluster, TTL).classic());
    cluster[1].run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("it is refused", SOON, || {
        drop(redlock.try_acquire("r").blocking());
        redlock.nodes()[1].state == NodeState::Refused(Refusal::Replica)
    });
    cluster[1].run(&["REPLICAOF", "NO", "ONE"]);
    all_ready(&redlock);
}

#[test]
fn a_server_in_cluster_mode_is_refused() {
    let server = Server::builder().arg("cluster-enabled", "yes").start();
    for classic in [false, true] {
        let builder = Redlock::builder().node(server.url());
        let redlock = if classic { builder.classic() } else { builder }.build().unwrap();
        eventually("it is refused", SOON, || {
            redlock.nodes()[0].state == NodeState::Refused(Refusal::Cluster)
        });
    }
}

/// A server that was a replica forgets whose, when nobody has replicated from it for `repl-backlog-ttl` (an hour).
#[test]
fn a_node_that_was_a_replica_long_ago_is_not_made_to_join_again() {
    let (cluster, copy) = (cluster(), start());
    let client = ready(settings(&cluster, TTL));
    for index in [0, 1] {
        follow(&cluster[index], &copy);
        cluster[index].run(&["REPLICAOF", "NO", "ONE"]);
        eventually("that is seen", SOON, || client.nodes()[index].state != NodeState::Ready);
        all_ready(&client);
    }
    for index in [0, 1] {
        cluster[index].run(&["CONFIG", "SET", "repl-backlog-ttl", "1"]);
    }
    // Longer than from one look to the next.
    let began = std::time::Instant::now();
    while began.elapsed() < 15 * SECOND {
        let states: Vec<_> = client.nodes().into_iter().map(|node| node.state).collect();
        assert!(states.iter().all(|state| *state == NodeState::Ready), "{states:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// It remembers that for an hour, if no replica is left. What it had copied stands there still.
#[test]
fn a_process_that_has_forgotten_whose_replica_it_was_is_the_same_node() {
    let node = scripts::Node::admitted();
    for (identity, ready) in [("this/0/abcdef01", true), ("that/0/abcdef01", false)] {
        let epoch = node.text_of("epoch");
        let etag = format!("{epoch}.0/{identity}");
        node.mark(&[("identity", identity)]);
        node.server.run(&["HSET", "quorlock:counters", "", &format!("{etag} {0:016} {0:016}", 0)]);
        let seen = node.join("0");
        assert_eq!((seen.ready, seen.etag == etag), (ready, ready), "{identity}");
    }
}

//! Goal: a lock outlives the server that granted it.
//!
//! Method: a master with a replica behind a proxy that stops forwarding; then the master is killed.

use quorlock::{AcquireError, ConnectError};
use quorlock_harness::{Cluster, Proxy, Server, eventually, redis::from_redis_value};

use super::{MS, SECOND, SOON, client, set_nx_px, throwaway};

#[tokio::test]
async fn a_promoted_replica_has_missed_the_lock() {
    let master = Server::builder().arg("repl-diskless-sync-delay", "0").start();
    let replica = Server::start();
    let link = Proxy::start(master.port());
    replica.run(&["REPLICAOF", "127.0.0.1", &link.port().to_string()]);
    master.set("replicated", "yes", None);
    eventually("the replica follows", SOON, || replica.get("replicated").is_some());

    // A replica is no node of a quorum lock in the first place.
    let refused = throwaway().node(replica.url()).connect().await.unwrap_err();
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");

    link.blackhole(true);
    assert!(set_nx_px(&master, "r", "a", "60000"), "A has it, and may act");
    master.kill();
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    let role: String = from_redis_value(replica.run(&["INFO", "replication"])).unwrap();
    assert!(role.contains("role:master"), "{role}");
    assert!(set_nx_px(&replica, "r", "b", "60000"), "and B has it too");

    // Here a quorum of independent masters has it, and another quorum meets it in at least one.
    let cluster = Cluster::start(3);
    let (a, b) = (client(&cluster), client(&cluster));
    let lease = a.acquire("r").ttl(60 * SECOND).await.unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    cluster[0].kill();
    let busy = b.acquire("r").wait(200 * MS).await.unwrap_err();
    assert!(matches!(busy, AcquireError::Contended { .. }), "{busy}");
    lease.check().expect("the holder does not feel the loss of one");
    lease.extend().await.expect("and goes on");
    lease.release().await.unwrap();
    b.acquire("r").await.expect("released, with one of three dead").release().await.unwrap();
}

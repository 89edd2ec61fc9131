//! Goal: a client that dies in the middle of an acquire does not keep the resource for ever.
//!
//! Method: a client is gone after its first command; the key's ttl is read from the servers.

use quorlock_harness::{Cluster, Server, redis};

use super::{SECOND, SOON, client, number};

#[tokio::test]
async fn a_crash_between_setnx_and_expire_locks_for_ever() {
    // SETNX, a crash, and no EXPIRE.
    let server = Server::start();
    let mut crashing = server.control();
    let set: bool = redis::cmd("SETNX").arg("r").arg("a").query(&mut crashing).unwrap();
    assert!(set);
    drop(crashing);
    assert_eq!(server.pttl("r"), -1, "nothing will ever expire it");
    assert_eq!(number(&server, &["SETNX", "r", "b"]), 0, "and nobody else gets it");

    // Here the value and the ttl are one command. A holder that is gone is waited for, once.
    let cluster = Cluster::start(3);
    let (a, b) = (client(&cluster), client(&cluster));
    let lease = a.acquire("r").ttl(SECOND).without_renewal().await.unwrap();
    std::mem::forget(lease);
    for server in &cluster {
        assert_ne!(server.pttl("r"), -1, "a key without a ttl");
    }
    let lease = b.acquire("r").wait(SOON).await.expect("it is free after the ttl");
    lease.release().await.unwrap();
}

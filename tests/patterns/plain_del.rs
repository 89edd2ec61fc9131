//! Goal: a holder that comes too late does not release the next holder's lock.
//!
//! Method: the first holder's lock expires, a second one takes it, and then the first releases.

use quorlock::ReleaseError;
use quorlock_harness::{Cluster, Server};

use super::{SECOND, SOON, client, expired, set_nx_px};

#[tokio::test]
async fn a_plain_del_releases_the_lock_of_the_next_holder() {
    let server = Server::start();
    assert!(set_nx_px(&server, "r", "a", "50"));
    expired(&server, "r");
    assert!(set_nx_px(&server, "r", "b", "60000"));
    assert!(server.del("r"), "A, late, deletes the lock of B");
    assert!(set_nx_px(&server, "r", "c", "60000"), "so that C has it together with B");

    // Here a release compares, and says that it came too late.
    let cluster = Cluster::start(3);
    let (a, b, c) = (client(&cluster), client(&cluster), client(&cluster));
    let late = a.acquire("r").ttl(SECOND).without_renewal().await.unwrap();
    late.lost().await;
    let lease = b.acquire("r").ttl(60 * SECOND).wait(SOON).await.unwrap();
    let error = late.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::AlreadyEnded { .. }), "{error}");
    assert!(c.try_acquire("r").await.unwrap_err().is_contended(), "B still holds it");
    lease.release().await.expect("and can release it");
}

#[test]
fn comparing_in_the_client_and_then_deleting_is_no_better() {
    let server = Server::start();
    assert!(set_nx_px(&server, "r", "a", "60000"));
    assert_eq!(server.get("r").as_deref(), Some(&b"a"[..]), "A has compared");
    server.run(&["PEXPIRE", "r", "1"]);
    expired(&server, "r");
    assert!(set_nx_px(&server, "r", "b", "60000"));
    assert!(server.del("r"), "and A deletes the lock of B");

    // Comparing and deleting is one script here.
    let cluster = Cluster::start(1);
    let (a, b) = (client(&cluster), client(&cluster));
    let late = a.acquire("r").ttl(60 * SECOND).without_renewal().blocking().unwrap();
    cluster[0].run(&["PEXPIRE", "r", "1"]);
    expired(&cluster[0], "r");
    let lease = b.acquire("r").ttl(60 * SECOND).wait(SOON).blocking().unwrap();
    let error = late.blocking_release().unwrap_err();
    assert!(matches!(error, ReleaseError::AlreadyEnded { .. }), "{error}");
    let owner = lease.owner().to_string();
    assert_eq!(cluster[0].get("r").as_deref(), Some(owner.as_bytes()));
    lease.blocking_release().unwrap();
}

//! Goal: a holder that was paused for too long writes nothing over the work of the next one.
//!
//! Method: a store on a server of its own, once without and once with a check of the token.

use quorlock::Lease;
use quorlock_harness::{Cluster, Server, redis::Value};

use super::{SECOND, SOON, client, expired, number, set_nx_px};

/// Writes if nobody with a larger token has written before.
const WRITE: &str = "
    if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then return 0 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
    return 1";

fn write(store: &Server, lease: &Lease, value: &str) -> bool {
    let token = lease.token().expect("a token").to_string();
    number(store, &["EVAL", WRITE, "1", "object", &token, value]) == 1
}

#[tokio::test]
async fn a_paused_holder_overwrites_the_next_one_unless_the_store_checks() {
    let (locks, store) = (Server::start(), Server::start());
    assert!(set_nx_px(&locks, "r", "a", "50"));
    // A has looked at its lock, and pauses right after that.
    expired(&locks, "r");
    assert!(set_nx_px(&locks, "r", "b", "60000"));
    store.set("object", "b", None);
    store.set("object", "a", None);
    assert_eq!(store.get("object").as_deref(), Some(&b"a"[..]), "the work of B is gone");

    let (cluster, store) = (Cluster::start(3), Server::start());
    let (a, b) = (client(&cluster), client(&cluster));
    let paused = a.acquire("r").ttl(SECOND).without_renewal().await.unwrap();
    assert!(write(&store, &paused, "a, in time"));
    paused.lost().await;
    let current = b.acquire("r").ttl(60 * SECOND).wait(SOON).await.unwrap();
    assert!(write(&store, &current, "b"));
    assert!(!write(&store, &paused, "a, late"), "the store refuses");
    assert!(write(&store, &current, "b again"), "and takes the repeat of its holder");
    let value = store.run(&["HGET", "object", "value"]);
    assert_eq!(value, Value::BulkString(b"b again".to_vec()));
    current.release().await.unwrap();
}

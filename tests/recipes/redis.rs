//! Goal: a script refuses a stale holder in the same step in which it would write.
//!
//! Method: a real server as the store, asked past this crate; the script of `docs/fencing.md`.

use quorlock::Lease;
use quorlock_harness::{Server, redis::from_redis_value};

use super::{next_lease, short_lease, token, two_clients};

/// KEYS the value and its fence; ARGV the token and the new value. 1 written, 0 refused.
const WRITE: &str = "
local fence = tonumber(redis.call('GET', KEYS[2]) or 0)
if fence > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1";

fn write(store: &Server, lease: &Lease, value: &str) -> bool {
    let token = token(lease).to_string();
    let answer =
        store.run(&["EVAL", WRITE, "2", "{invoice:42}", "{invoice:42}:fence", &token, value]);
    from_redis_value::<i64>(answer).unwrap() == 1
}

#[tokio::test]
async fn a_stale_writer_changes_nothing_in_redis() {
    let store = Server::start();
    let (a, b) = two_clients().await;
    let stale = short_lease(&a).await;
    assert!(write(&store, &stale, "of the first"));
    assert!(write(&store, &stale, "of the first again"), "an equal token is its holder's repeat");
    let current = next_lease(&b, &stale).await;
    assert!(write(&store, &current, "of the second"));
    assert!(!write(&store, &stale, "late"), "the first one is refused");
    assert_eq!(store.get("{invoice:42}").as_deref(), Some(&b"of the second"[..]));
    let fence = token(&current).to_string();
    assert_eq!(store.get("{invoice:42}:fence").as_deref(), Some(fence.as_bytes()), "in full");
    current.release().await.unwrap();
}

//! Goal: a script refuses a stale holder in the same step in which it would write.
//!
//! Method: a real server as the store, asked past this crate; the script of `docs/fencing.md`.

use quorlock::Lease;
use quorlock_harness::{
    Server,
    redis::{Value, from_redis_value},
};

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

/// KEYS the value and its fence; ARGV the token. The value, or 0 where a later holder has been here.
const READ: &str = "
local fence = tonumber(redis.call('GET', KEYS[2]) or 0)
if fence > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[1])
return redis.call('GET', KEYS[1])";

fn read(store: &Server, lease: &Lease) -> Option<String> {
    let token = token(lease).to_string();
    let answer = store.run(&["EVAL", READ, "2", "{invoice:42}", "{invoice:42}:fence", &token]);
    if answer == Value::Int(0) { None } else { from_redis_value(answer).unwrap() }
}

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

/// The first holder has read, and is late with its write; the second has read too, and not written yet.
#[tokio::test]
async fn an_accepted_write_is_not_lost_in_redis_where_reads_move_the_fence() {
    let store = Server::start();
    let (a, b) = two_clients().await;
    let mut seen = Vec::new();
    for moves in [false, true] {
        store.run(&["SET", "{invoice:42}", "begun"]);
        let look = |lease: &Lease| {
            let read = || read(&store, lease);
            let look = || String::from_utf8(store.get("{invoice:42}").unwrap()).ok();
            if moves { read() } else { look() }.expect("nobody later has been here")
        };
        let stale = short_lease(&a).await;
        let of_a = look(&stale);
        let current = next_lease(&b, &stale).await;
        let of_b = look(&current);
        let accepted = write(&store, &stale, &format!("{of_a}, a"));
        assert!(write(&store, &current, &format!("{of_b}, b")));
        seen.push((accepted, String::from_utf8(store.get("{invoice:42}").unwrap()).unwrap()));
        assert_eq!(read(&store, &stale), None, "nor does it read any more");
        current.release().await.unwrap();
    }
    let lost = (true, "begun, b".to_owned());
    assert_eq!(seen, [lost, (false, "begun, b".to_owned())], "accepted and lost, or refused");
}

//! Goal: a name that a user has no right to costs a refusal, and nothing after it.
//!
//! Method: real servers with a user that may touch some keys and no others.

use quorlock::Redlock;

use super::{SECOND, admitted, ready};

/// Nothing was set, so that there is nothing to be released.
#[test]
fn an_acquire_that_was_not_allowed_leaves_nothing_to_wait_for() {
    let cluster = admitted(3, SECOND);
    for server in &cluster {
        server.run(&["ACL", "SETUSER", "app", "on", ">sesame", "~lock:*", "~quorlock:*", "+@all"]);
    }
    let urls =
        cluster.iter().map(|server| format!("redis://app:sesame@127.0.0.1:{}", server.port()));
    let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND);
    let client = ready(builder.ttl(SECOND).max_ttl(SECOND));
    for _ in 0..10 {
        assert!(client.try_acquire("other").blocking().is_err());
    }
    client.blocking_close().unwrap();
}

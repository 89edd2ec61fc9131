//! Goal: of several who find a lock expired, one gets it, whatever their clocks show.
//!
//! Method: the clients' clocks are numbers of the test, so that every interleaving can be written down.

use std::pin::pin;

use quorlock_harness::{Cluster, Server, redis::from_redis_value};

use super::{SECOND, SOON, client, number};

/// The end of the lock as its value says it, in seconds.
fn end_of(server: &Server) -> u64 {
    let value = server.get("r").expect("a value");
    String::from_utf8(value).unwrap().parse().unwrap()
}

#[test]
fn two_who_delete_the_expired_timestamp_both_win() {
    let server = Server::start();
    server.set("r", "100", None);
    let now = 101;
    // Both find it expired before either acts.
    assert!(end_of(&server) < now, "A has looked");
    assert!(end_of(&server) < now, "B has looked");
    server.del("r");
    assert_eq!(number(&server, &["SETNX", "r", "111"]), 1, "A has it");
    server.del("r");
    assert_eq!(number(&server, &["SETNX", "r", "111"]), 1, "and B has it");
}

#[tokio::test]
async fn getset_trusts_the_clocks_of_the_clients() {
    let server = Server::start();
    let getset = |now: u64| -> bool {
        let end = (now + 10).to_string();
        let before: String = from_redis_value(server.run(&["GETSET", "r", &end])).unwrap();
        before.parse::<u64>().unwrap() < now
    };
    server.set("r", "100", None);
    assert!(getset(101), "A has it until 111");
    let before = end_of(&server);
    assert!(!getset(103), "B is told that it has lost");
    assert_ne!(end_of(&server), before, "and has written over the holder's value all the same");
    assert!(getset(120), "C, whose clock is ahead, has it together with A");
    // The holder cannot release it either, by comparing with what it had written.
    assert_ne!(end_of(&server), before);

    // Here no client's clock is compared with a value, and the loser changes nothing.
    let cluster = Cluster::start(3);
    let (a, b, c) = (client(&cluster), client(&cluster), client(&cluster));
    let gone = a.acquire("r").ttl(SECOND).without_renewal().await.unwrap();
    std::mem::forget(gone);
    let winner = {
        let (b, c) = (b.acquire("r").wait(SOON), c.acquire("r").wait(SOON));
        let (b, c) = (pin!(b.into_future()), pin!(c.into_future()));
        tokio::select! { lease = b => lease, lease = c => lease }
    };
    let winner = winner.expect("one of the two has it");
    let owner = winner.owner().to_string();
    for other in [&b, &c] {
        let busy = other.try_acquire("r").await.unwrap_err();
        assert!(busy.is_contended(), "{busy}");
    }
    let holds = |server: &&Server| server.get("r").as_deref() == Some(owner.as_bytes());
    assert!(cluster.iter().filter(holds).count() >= 2, "the holder's value stands on a quorum");
    winner.release().await.unwrap();
}

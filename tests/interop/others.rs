//! Goal: libraries of other languages and this crate exclude each other on the same nodes.
//!
//! Method: each library in a process of its own, on real servers. In turns: the holder keeps the other out, and a
//! release lets it in. All at once: a counter that all increment under the lock loses nothing; beside a client that
//! does not take the lock it does, so that a loss would be seen.

use std::time::Duration;

use quorlock::Redlock;
use quorlock_harness::{Cluster, Server, eventually};
use rand::Rng as _;

use super::{
    SECOND, SOON,
    foreign::{Foreign, LIBRARIES},
    quorlock,
};

/// What all of them have at the nodes. pottery puts `redlock:` before each name, so we do too.
const KEY: &str = "redlock:counter";
const PREFIX: &str = "redlock:";

async fn take_turns(library: &'static str) {
    let (cluster, counter) = (Cluster::start(3), Server::start());
    let Some(mut foreign) = Foreign::start(library, &counter, KEY, &cluster) else { return };
    let redlock = quorlock(&cluster).key_prefix(PREFIX).connect().await.unwrap();
    let request = || redlock.acquire("counter").ttl(20 * SECOND).wait(SOON);

    // We hold.
    let lease = request().await.unwrap();
    eventually("all have it", SOON, || cluster.locks_left().len() == 3);
    assert_eq!(foreign.ask("try 20000"), "busy");
    // Its attempt has left our keys alone.
    let owner = lease.owner().to_string();
    assert!(cluster.iter().all(|s| s.get(KEY).as_deref() == Some(owner.as_bytes())));
    lease.release().await.unwrap();

    // It holds, after our release.
    eventually("it gets it", SOON, || foreign.ask("try 20000") == "got");
    let busy = redlock.try_acquire("counter").await.unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    assert_eq!(foreign.ask("release"), "released");

    // We hold again, after its release; and it, when ours has expired.
    let lease = redlock.acquire("counter").ttl(SECOND / 2).without_renewal().wait(SOON);
    let lease = lease.await.unwrap();
    assert_eq!(foreign.ask("try 20000"), "busy");
    eventually("ours expires", SOON, || foreign.ask("try 500") == "got");
    // And we, when its own has; its release is of nothing then, and leaves ours alone.
    let lease = {
        drop(lease);
        request().await.unwrap()
    };
    foreign.ask("release");
    lease.extend().await.expect("still ours");
    lease.release().await.unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

#[tokio::test]
async fn node_redlock_and_quorlock_keep_each_other_out() {
    take_turns("node-redlock").await;
}

#[tokio::test]
async fn pottery_and_quorlock_keep_each_other_out() {
    take_turns("pottery").await;
}

#[tokio::test]
async fn redlock_rb_and_quorlock_keep_each_other_out() {
    take_turns("redlock-rb").await;
}

#[tokio::test]
async fn redsync_and_quorlock_keep_each_other_out() {
    take_turns("redsync").await;
}

/// A read, a pause, and a write.
async fn increment(counter: &Server) {
    let number = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().parse::<usize>().unwrap();
    let seen = counter.get("counter").map(number).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    counter.set("counter", (seen + 1).to_string(), None);
}

/// So many increments under the lock of this crate.
async fn work(redlock: &Redlock, counter: &Server, times: usize) {
    for _ in 0..times {
        let lease = redlock.acquire("counter").ttl(20 * SECOND).wait(60 * SECOND).await.unwrap();
        increment(counter).await;
        lease.release().await.unwrap();
        let pause = rand::rng().random_range(1_000..5_000);
        tokio::time::sleep(Duration::from_micros(pause)).await;
    }
}

/// Each client increments `each` times under the lock, and one more `careless` times without it: how many increments
/// there were, and what the counter says.
async fn mixed(each: usize, careless: usize) -> (usize, usize) {
    let (cluster, counter) = (Cluster::start(3), Server::start());
    counter.set("counter", "0", None);
    let start = |library: &&'static str| Foreign::start(library, &counter, KEY, &cluster);
    let mut foreign: Vec<_> = LIBRARIES.iter().filter_map(start).collect();
    let mut ours = Vec::new();
    for _ in 0..2 {
        ours.push(quorlock(&cluster).key_prefix(PREFIX).connect().await.unwrap());
    }
    let order = format!("work {each}");
    foreign.iter_mut().for_each(|worker| worker.order(&order));
    let unguarded = async {
        for _ in 0..careless {
            increment(&counter).await;
        }
    };
    let (first, second) = (work(&ours[0], &counter, each), work(&ours[1], &counter, each));
    tokio::join!(first, second, unguarded);
    for worker in &mut foreign {
        assert_eq!(worker.answer(), "done", "{}", worker.library);
    }
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
    let names: Vec<_> = foreign.iter().map(|worker| worker.library).collect();
    let done = each * (foreign.len() + ours.len()) + careless;
    let says = String::from_utf8(counter.get("counter").unwrap()).unwrap().parse().unwrap();
    println!(
        "{done} increments by two clients of ours and {names:?}, {careless} of them without the lock: {says}"
    );
    (done, says)
}

#[tokio::test]
async fn no_update_is_lost_among_clients_of_all_libraries() {
    let (done, says) = mixed(100, 0).await;
    assert_eq!(says, done);
}

/// The control.
#[tokio::test]
async fn updates_are_lost_beside_a_client_without_the_lock() {
    let (done, says) = mixed(50, 200).await;
    assert!(says < done, "{says} of {done}");
}

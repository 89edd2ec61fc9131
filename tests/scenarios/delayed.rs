//! Goal: replies that come too late give no lease and leave no key.
//!
//! Method: a proxy in front of each node that holds everything back, for longer than the ttl or until the node
//! timeout has passed.

use std::time::{Duration, Instant};

use quorlock::{AcquireError, Builder, Redlock};
use quorlock_harness::{Cluster, Proxy, eventually, redis};

use super::{MS, SECOND, SOON, admitted, all_ready};

const TTL: Duration = Duration::from_millis(500);

fn behind_proxies(cluster: &Cluster, change: fn(Builder) -> Builder) -> (Vec<Proxy>, Redlock) {
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let builder = Redlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .connect_timeout(10 * SECOND)
        .ttl(TTL)
        .max_ttl(TTL);
    let redlock = super::ready(change(builder));
    (proxies, redlock)
}

fn no_key(cluster: &Cluster) {
    eventually("the key is released everywhere", SOON, || {
        cluster.iter().all(|server| server.get("r").is_none())
    });
}

#[test]
fn replies_held_back_past_the_ttl_are_no_grant_and_the_key_is_released() {
    let cluster = admitted(3, TTL);
    for change in
        [(|builder| builder.node_timeout(5 * SECOND)) as fn(Builder) -> Builder, |builder| {
            builder.node_timeout(5 * SECOND).classic()
        }]
    {
        let (proxies, redlock) = behind_proxies(&cluster, change);
        let released = |cluster: &Cluster| -> u64 {
            cluster.iter().map(|server| server.command_calls("evalsha")).sum()
        };
        let before = released(&cluster);
        proxies.iter().for_each(|proxy| proxy.delay(TTL / 2 + 50 * MS));
        let start = Instant::now();
        let error = redlock.try_acquire("r").blocking().unwrap_err();
        assert!(start.elapsed() >= TTL, "the replies came after the ttl");
        assert!(matches!(error, AcquireError::TooLate { .. }), "{error}");
        proxies.iter().for_each(Proxy::heal);
        eventually("a release was sent to each", SOON, || released(&cluster) >= before + 3);
        no_key(&cluster);
        drop(redlock.acquire("r").wait(SOON).blocking().unwrap());
        no_key(&cluster);
    }
}

#[test]
fn a_slow_minority_delays_nothing() {
    // A test that waited for the nodes would have waited longer than that.
    const DELAY: Duration = Duration::from_secs(30);
    const LONG: Duration = Duration::from_secs(60);
    let cluster = admitted(5, LONG);
    let (proxies, redlock) =
        behind_proxies(&cluster, |builder| builder.ttl(LONG).max_ttl(LONG).node_timeout(2 * DELAY));
    proxies.iter().take(2).for_each(|proxy| proxy.delay(DELAY));
    let start = Instant::now();
    let lease = redlock.try_acquire("r").blocking().unwrap();
    assert!(lease.is_valid());
    lease.blocking_release().unwrap();
    assert!(start.elapsed() < DELAY, "{:?}", start.elapsed());
}

/// The servers execute the command when the network is back. By default the nodes refuse it then; in classic mode
/// the key is set, and deleted by the release behind it.
#[test]
fn an_acquire_that_was_held_back_is_not_carried_out_late() {
    let cluster = admitted(3, TTL);
    let (proxies, redlock) = behind_proxies(&cluster, |builder| builder.node_timeout(100 * MS));
    drop(redlock.acquire("warm").blocking().unwrap());
    proxies.iter().for_each(|proxy| proxy.blackhole(true));
    let start = Instant::now();
    let error = redlock.try_acquire("r").blocking().unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 0, .. }), "{error}");
    let scripts = |cluster: &Cluster| -> Vec<u64> {
        cluster.iter().map(|server| server.command_calls("evalsha")).collect()
    };
    let before = scripts(&cluster);
    eventually("it is late by now", SOON, || start.elapsed() > 400 * MS);
    proxies.iter().for_each(Proxy::heal);
    eventually("it has arrived, with the release behind it", SOON, || {
        scripts(&cluster).iter().zip(&before).all(|(now, before)| *now >= before + 2)
    });
    no_key(&cluster);
    for server in &cluster {
        let counter = server.run(&["HGET", "quorlock:counters", "r"]);
        assert_eq!(counter, redis::Value::Nil, "it was refused, and counted nothing");
    }
    all_ready(&redlock);
}

//! Goal: a node that is back counts again for what is held, long before the time of a lease is up: other nodes may be the next
//! to go.
//!
//! Method: proxies that are cut and healed while a lease is held, attempts as the node counts them, and the keys themselves.

use quorlock_harness::{Cluster, Proxy, connected, eventually};

use super::{MS, SECOND, SOON, is_down, patient};

/// Five servers, each behind a proxy, which the returned settings reach.
fn proxied() -> (Cluster, Vec<Proxy>, quorlock::Builder) {
    let cluster = Cluster::start(5);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let settings = patient().nodes(proxies.iter().map(Proxy::url));
    (cluster, proxies, settings)
}

/// The pause between two attempts grows to half a second, which is a third of the life of a short lease. While one is held it
/// grows to less.
#[test]
fn a_node_that_is_away_is_tried_often_while_a_short_lease_is_held() {
    let (_cluster, proxies, settings) = proxied();
    let redlock = connected(settings);
    let attempts_within = |time| {
        let failed = || redlock.nodes()[0].failed_attempts;
        eventually("the first pauses are over", SOON, || failed() >= 6);
        // The present pause may have begun before.
        let last = failed();
        eventually("and one more", SOON, || failed() > last);
        let before = failed();
        std::thread::sleep(time);
        failed() - before
    };
    proxies[0].cut();
    is_down(&redlock, 0);
    let idle = attempts_within(SECOND);
    assert!(idle <= 4, "nobody needs it, and it may be in trouble: {idle} attempts");
    let lease = redlock.acquire("r").ttl(1500 * MS).blocking().unwrap();
    let hurried = attempts_within(SECOND);
    assert!((6..=40).contains(&hurried), "soon, and not without a pause: {hurried} attempts");
    lease.blocking_release().unwrap();
}

/// Its keys may have ended there while it was away. Once, only the next renewal set them again, up to a third of the
/// ttl later.
#[test]
fn a_node_that_is_back_has_the_keys_of_held_leases_soon() {
    for classic in [false, true] {
        let (cluster, proxies, settings) = proxied();
        let redlock = connected(if classic { settings.classic() } else { settings });
        let ttl = 10 * SECOND;
        let lease = redlock.acquire("r").ttl(ttl).blocking().unwrap();
        eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
        proxies[..2].iter().for_each(Proxy::cut);
        (0..2).for_each(|node| is_down(&redlock, node));
        assert!(cluster[0].del("r") && cluster[1].del("r"));
        proxies.iter().for_each(Proxy::heal);
        eventually("it stands there again", ttl / 4, || cluster.locks_left().len() == 5);
        lease.check().unwrap();
        lease.blocking_release().unwrap();
    }
}

//! Goal: a minority behind broken, silent, slow or confused links does not matter, and nothing of ours stays behind.
//!
//! Method: faulty proxies in front of real servers, and servers that exchange their addresses behind them.

use quorlock::node::{NodeState, Refusal};
use quorlock_harness::{Cluster, Proxy, all_ready, connected, eventually};

use super::{MS, SECOND, SOON, is_down, no_key_within, patient, undisturbed};

/// Five servers, each behind a proxy.
fn proxied() -> (Cluster, Vec<Proxy>) {
    let cluster = Cluster::start(5);
    let proxies = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    (cluster, proxies)
}

fn urls(proxies: &[Proxy]) -> Vec<String> {
    proxies.iter().map(Proxy::url).collect()
}

#[test]
fn a_lost_reply_is_no_lost_key() {
    let (cluster, proxies) = proxied();
    let node_timeout = 2 * SECOND;
    let redlock = connected(patient().nodes(urls(&proxies)).node_timeout(node_timeout));
    // The servers have been given the release script at the connect, and the other one now: a lost NOSCRIPT
    // would keep it back.
    undisturbed(&redlock, node_timeout);
    eventually("all five have seen it", SOON, || {
        cluster.iter().all(|server| server.command_calls("set") >= 1)
    });
    no_key_within(&cluster, SOON);
    proxies[..2].iter().for_each(|proxy| proxy.drop_replies(true));
    let before = cluster[0].command_calls("set");
    undisturbed(&redlock, node_timeout);
    // The requests do arrive, so the key was there, and the replies to its release are lost as well.
    eventually("the SET arrived", SOON, || cluster[0].command_calls("set") > before);
    no_key_within(&cluster, SOON);
    proxies.iter().for_each(Proxy::heal);
    all_ready(&redlock);
    undisturbed(&redlock, node_timeout);
    no_key_within(&cluster, SOON);
}

#[test]
fn what_a_cut_has_left_is_released_once_it_is_healed() {
    let (cluster, proxies) = proxied();
    let redlock = connected(patient().nodes(urls(&proxies)));
    let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    eventually("all five have it", SOON, || cluster.locks_left().len() == 5);
    proxies[..2].iter().for_each(Proxy::cut);
    lease.blocking_release().unwrap();
    (0..2).for_each(|node| is_down(&redlock, node));
    eventually("three are released", SOON, || cluster.locks_left().len() == 2);
    proxies.iter().for_each(Proxy::heal);
    no_key_within(&cluster, 10 * SECOND);
    all_ready(&redlock);
    undisturbed(&redlock, 2 * SECOND);
}

#[test]
fn a_black_hole_costs_nothing_and_keeps_nothing() {
    let (cluster, proxies) = proxied();
    let node_timeout = 2 * SECOND;
    let redlock = connected(patient().nodes(urls(&proxies)).node_timeout(node_timeout));
    proxies[..2].iter().for_each(|proxy| proxy.blackhole(true));
    (0..3).for_each(|_| undisturbed(&redlock, node_timeout));
    // What was swallowed is delivered now, late, and must not stay.
    proxies.iter().for_each(Proxy::heal);
    no_key_within(&cluster, 10 * SECOND);
    all_ready(&redlock);
    undisturbed(&redlock, node_timeout);
}

#[test]
fn slow_replies_take_validity_and_nothing_else() {
    let (cluster, proxies) = proxied();
    let redlock = connected(patient().nodes(urls(&proxies)));
    proxies.iter().for_each(|proxy| proxy.delay(50 * MS));
    let lease = redlock.try_acquire("r").ttl(10 * SECOND).blocking().unwrap();
    // One round trip is two delays; the drift is 102 ms.
    assert!(lease.validity() <= 10 * SECOND - 202 * MS, "{:?}", lease.validity());
    proxies.iter().for_each(Proxy::heal);
    lease.blocking_release().unwrap();
    no_key_within(&cluster, SOON);
}

#[test]
fn servers_that_exchange_their_addresses_are_ready_behind_the_other_one() {
    let cluster = Cluster::start(3);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let redlock = connected(patient().nodes(urls(&proxies)));
    let identities = || redlock.nodes().into_iter().map(|node| node.identity).collect::<Vec<_>>();
    let mut exchanged = identities();
    exchanged.swap(0, 1);
    proxies[..2].iter().for_each(Proxy::cut);
    proxies[0].retarget(cluster[1].port());
    proxies[1].retarget(cluster[0].port());
    proxies[..2].iter().for_each(Proxy::heal);
    eventually("both are behind the other address", SOON, || identities() == exchanged);
    all_ready(&redlock);
    redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
}

/// While the one keeps its connection, the other must not vote for the same server.
#[test]
fn a_server_that_is_reached_by_a_second_address_votes_once_it_has_left_the_first() {
    let cluster = Cluster::start(3);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let redlock = connected(patient().nodes(urls(&proxies)));
    let state = |node: usize| redlock.nodes()[node].state.clone();
    proxies[0].cut();
    proxies[0].retarget(cluster[1].port());
    proxies[0].heal();
    eventually("it is the same server as the other node", SOON, || {
        matches!(state(0), NodeState::Refused(Refusal::SameServer { .. }))
    });
    assert_eq!(state(1), NodeState::Ready);
    proxies[1].cut();
    eventually("it takes the other's place", SOON, || state(0) == NodeState::Ready);
    proxies[1].retarget(cluster[0].port());
    proxies[1].heal();
    all_ready(&redlock);
}

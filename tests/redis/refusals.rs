//! Goal: a configuration that cannot work, and a server that must not vote, are named clearly, with what
//! to change, and no text ever shows a password.
//!
//! Method: real servers, each set up wrongly in one way; the errors are matched by variant and by words.

use std::sync::Arc;

use quorlock::{
    AcquireError, Builder, ConfigError, ConnectError, NodeStates, Redlock,
    node::{NodeSpec, NodeState, Refusal},
    protocol::{Members, ResourceError},
};
use quorlock_harness::{
    Cluster, Proxy, RIGHTS, Server, decided, eventually, ipv6_available, undecided,
};

use super::{MS, SECOND, SOON, all_ready, chain, connect, connected, patient, plain, undisturbed};

/// The least rights of plain Redlock.
const CLASSIC: [&str; 8] =
    ["+set", "+getrange", "+del", "+pttl", "+pexpire", "+eval", "+evalsha", "+info"];

/// Both modes, each with its rights.
fn modes() -> [(Builder, &'static [&'static str]); 2] {
    [(plain().classic(), &CLASSIC), (patient(), &RIGHTS)]
}

/// The only refusal of a connect that must fail, and the whole text.
#[track_caller]
fn refusal(builder: Builder) -> (Refusal, String) {
    let error = builder.blocking_connect().expect_err("a node that must not vote");
    let text = chain(&error);
    let ConnectError::Refused { nodes } = error else { panic!("{text}") };
    let mut refusals = nodes.iter().filter_map(|(_, state)| match state {
        NodeState::Refused(refusal) => Some(refusal.clone()),
        _ => None,
    });
    let first = refusals.next().expect("a refused node");
    assert_eq!(refusals.next(), None, "{text}");
    (first, text)
}

#[track_caller]
fn works(redlock: &Redlock, resource: &str) {
    let lease = redlock.try_acquire(resource).ttl(60 * SECOND).blocking().unwrap();
    assert!(redlock.try_acquire(resource).blocking().unwrap_err().is_contended());
    lease.blocking_release().unwrap();
}

/// A user with these rights on `lock:*` and what stands beside it, and the URL with its password.
fn acl_user(server: &Server, rights: &[&str]) -> String {
    server.user(["~lock:*", "~quorlock:*"].iter().chain(rights).copied())
}

#[test]
fn one_server_behind_two_names_is_refused() {
    let cluster = Cluster::start(2);
    let port = cluster[0].port();
    let names = [cluster[0].url(), format!("redis://localhost:{port}"), cluster[1].url()];
    let (refusal, text) = refusal(patient().nodes(names));
    assert!(matches!(refusal, Refusal::SameServer { .. }), "{text}");
    assert!(text.contains(&format!("localhost:{port}")), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains("configure each server once"), "{text}");
}

#[test]
fn one_address_twice_is_refused_before_connecting() {
    let (a, b) = ("redis://127.0.0.1:7001", "redis://127.0.0.1:7002");
    for twin in [a.to_owned(), format!("{a}/1"), a.replace("//", "//:secret@")] {
        let error = Redlock::builder().nodes([a, b]).node(&twin).build().unwrap_err();
        let text = chain(&error);
        let ConfigError::SameAddress { first: 0, second: 2, .. } = error else { panic!("{text}") };
        assert!(text.contains("127.0.0.1:7001") && !text.contains("secret"), "{text}");
    }
}

#[test]
fn a_replica_is_refused() {
    let cluster = Cluster::start(3);
    let master = cluster[0].port().to_string();
    cluster[2].run(&["REPLICAOF", "127.0.0.1", &master]);
    let (refusal, text) = refusal(patient().nodes(cluster.urls()).require_all_nodes());
    assert_eq!(refusal, Refusal::Replica);
    assert!(text.contains("configure an independent master"), "{text}");
    assert!(text.contains(&cluster[2].port().to_string()), "{text}");
}

/// Its connection is given up, so that it is judged as a new one would be, now and when it is a master again.
#[test]
fn a_node_that_becomes_a_replica_is_refused_and_votes_when_it_is_a_master_again() {
    let cluster = Cluster::start(3);
    let redlock = connect(&cluster);
    let state = || redlock.nodes()[2].state.clone();
    let greeted = || cluster[2].command_calls("hello");
    let before = greeted();
    let master = cluster[0].port().to_string();
    cluster[2].run(&["REPLICAOF", "127.0.0.1", &master]);
    eventually("it is refused", SOON, || state() == NodeState::Refused(Refusal::Replica));
    eventually("it is asked on new connections", SOON, || greeted() >= before + 2);
    undisturbed(&redlock, 2 * SECOND);
    cluster[2].run(&["REPLICAOF", "NO", "ONE"]);
    all_ready(&redlock);
}

/// One of three is refused for its own sake: the others are a quorum, and the service starts.
#[test]
fn a_minority_that_is_refused_for_itself_fails_only_those_who_ask_for_all_nodes() {
    let cluster = Cluster::start_with(3, |i, builder| match i {
        2 => builder.password("open sesame"),
        _ => builder,
    });
    let wrong = format!("redis://:hunter2@127.0.0.1:{}", cluster[2].port());
    let two = [cluster[0].url(), cluster[1].url()];
    let builder = || patient().nodes(&two).node(&wrong);
    let redlock = builder().blocking_connect().expect("two of three are a quorum");
    let refused = |redlock: &Redlock| match &redlock.nodes()[2].state {
        NodeState::Refused(refusal) => matches!(refusal, Refusal::WrongCredentials { .. }),
        _ => false,
    };
    assert!(refused(&redlock), "{:?}", redlock.nodes()[2]);
    works(&redlock, "r");
    let (refusal, text) = refusal(builder().require_all_nodes());
    assert!(matches!(refusal, Refusal::WrongCredentials { .. }), "{text}");
    assert!(text.starts_with("1 of 3 nodes cannot vote as configured"), "{text}");
    // A client that waits through outages waits for the others, which may come back.
    cluster[1].kill();
    let error = builder().blocking_connect().unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    let waiting = builder().wait_through_outages().wait(SOON);
    let waiting = std::thread::spawn(move || waiting.blocking_connect());
    let began = std::time::Instant::now();
    eventually("it still waits", SOON, || began.elapsed() > SECOND);
    assert!(!waiting.is_finished());
    cluster[1].restart();
    let redlock = waiting.join().unwrap().expect("two of three again");
    redlock.blocking_ready(SOON).unwrap();
    works(&redlock, "r");
}

/// Nothing that comes back makes a quorum of the rest: waiting is of no use.
#[test]
fn a_majority_that_is_refused_ends_every_wait_at_once() {
    let cluster = Cluster::start_with(3, |i, builder| match i {
        0 => builder,
        _ => builder.password("open sesame"),
    });
    let urls = cluster.iter().map(|server| format!("redis://127.0.0.1:{}", server.port()));
    let builder = patient().nodes(urls).wait_through_outages().wait(100 * SOON);
    let error = builder.blocking_connect().unwrap_err();
    let ConnectError::Refused { nodes } = &error else { panic!("{error}") };
    assert_eq!(nodes.refused().count(), 2, "{error}");
    assert!(nodes.is_refused());
}

/// What is wrong with the list is wrong with the handle, however many nodes are left.
#[test]
fn a_list_that_is_wrong_is_refused_though_a_quorum_is_left() {
    let states = |refusals: [Option<Refusal>; 5]| -> NodeStates {
        let state = |refusal: Option<Refusal>| refusal.map_or(NodeState::Ready, NodeState::Refused);
        refusals.map(|refusal| (Arc::from("10.0.0.1:6379"), state(refusal))).into_iter().collect()
    };
    let of = |refusal: Refusal| states([Some(refusal), None, None, None, None]).is_refused();
    let other = || Arc::from("default/3");
    let list = |nodes: &[&str]| Members::new("default", nodes);
    assert!(of(Refusal::SameServer { other: other() }));
    let of_others = Refusal::OtherMembers {
        other: list(&["a", "b"]),
        configured: list(&["b", "c"]),
        age: None,
        belongs: quorlock::protocol::Belongs::Record,
    };
    assert!(!of(of_others.clone()), "a majority of this list votes, and goes on without it");
    let waits = || Some(Refusal::Replica);
    assert!(states([Some(of_others), waits(), waits(), None, None]).is_refused());
    assert!(of(Refusal::NotThrowaway), "a setting that gives up the promise");
    assert!(!of(Refusal::Replica) && !of(Refusal::Cluster) && !of(Refusal::Sentinel));
    assert!(!of(Refusal::WrongCredentials { message: other() }));
    let some = |count: usize| {
        let mut number = 0;
        states([(); 5].map(|()| {
            number += 1;
            (number <= count).then_some(Refusal::Replica)
        }))
    };
    let refused: Vec<bool> = (0..=5).map(|count| some(count).is_refused()).collect();
    assert_eq!(refused, [false, false, false, true, true, true]);
    assert!(!NodeStates::default().is_refused());
}

#[test]
fn a_server_that_may_evict_locks_is_refused_unless_that_is_accepted() {
    let evicting = |i, builder: quorlock_harness::ServerBuilder| match i {
        1 => builder.arg("maxmemory", "100mb").arg("maxmemory-policy", "volatile-ttl"),
        _ => builder,
    };
    let cluster = Cluster::start_with(3, evicting);
    let (refusal, text) = refusal(patient().nodes(cluster.urls()).require_all_nodes());
    assert_eq!(refusal, Refusal::MayEvict { policy: "volatile-ttl".into() });
    assert!(text.contains("maxmemory-policy noeviction"), "{text}");
    works(&connected(patient().nodes(cluster.urls()).danger_allow_eviction()), "r");
}

#[test]
fn credentials_that_are_wrong_or_missing_are_refused_and_never_shown() {
    let server = Server::builder().password("open sesame/@:%").start();
    let port = server.port();
    for (url, given) in [
        (format!("redis://:hunter2@127.0.0.1:{port}"), true),
        (format!("redis://nobody:hunter2@127.0.0.1:{port}"), true),
        (format!("redis://127.0.0.1:{port}"), false),
    ] {
        let (refusal, text) = refusal(patient().node(&url));
        if given {
            assert!(matches!(refusal, Refusal::WrongCredentials { .. }), "{url}: {text}");
            assert!(text.contains("correct them in the URL"), "{text}");
        } else {
            assert!(matches!(refusal, Refusal::PasswordMissing { .. }), "{url}: {text}");
            assert!(text.contains("needs a password, and the URL has none"), "{text}");
        }
        let shown = format!("{text} {refusal:?} {:?}", patient().node(&url));
        assert!(!shown.contains("hunter2") && !shown.contains("sesame"), "{shown}");
    }
    // The right one, percent-encoded by the harness, works and is shown nowhere.
    let redlock = connected(patient().node(server.url()));
    works(&redlock, "r");
    assert!(!format!("{redlock:?} {:?}", redlock.nodes()).contains("sesame"));
}

#[test]
fn each_missing_right_is_named() {
    let server = Server::start();
    for (builder, rights) in modes() {
        for missing in rights {
            let others: Vec<_> = rights.iter().filter(|right| *right != missing).copied().collect();
            let (refusal, text) = refusal(builder.clone().node(acl_user(&server, &others)));
            let Refusal::MissingRight { command, .. } = &refusal else {
                panic!("{missing}: {text}")
            };
            assert_eq!(format!("+{command}"), *missing);
            assert!(text.contains(&format!("grant {missing}")), "{text}");
            assert!(!text.contains("sesame"), "{text}");
        }
    }
}

#[test]
fn the_least_rights_are_enough() {
    for (builder, rights) in modes() {
        let server = Server::start();
        let url = acl_user(&server, rights);
        if !rights.contains(&"+hmget") {
            // Classic mode touches nothing beside the lock.
            server.run(&["ACL", "SETUSER", "app", "resetkeys", "~lock:*"]);
        }
        let redlock = connected(builder.node(url));
        works(&redlock, "lock:invoice");
        let lease = redlock.try_acquire("lock:long").ttl(10 * SECOND).blocking().unwrap();
        futures::executor::block_on(lease.extend()).unwrap();
        lease.blocking_release().unwrap();
        eventually("nothing is left", SOON, || server.locks().is_empty());
        // A name beyond the user's keys is an error that names the right, and nobody's lock.
        let error = redlock.try_acquire("other").blocking().unwrap_err();
        assert!(!error.is_contended() && error.to_string().contains("NOPERM"), "{error}");
    }
}

/// The counters and the marker need a right of their own; without it nothing is granted.
#[test]
fn a_missing_right_to_the_keys_beside_the_lock_is_named() {
    let server = Server::start();
    let url = acl_user(&server, &RIGHTS);
    server.run(&["ACL", "SETUSER", "app", "resetkeys", "~lock:*"]);
    let redlock = patient().node(&url).connect_timeout(SECOND).build().unwrap();
    let error = redlock.acquire("lock:invoice").wait(SECOND).blocking().unwrap_err();
    assert!(!error.is_contended() && error.to_string().contains("NOPERM"), "{error}");
    assert_eq!(server.locks(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_database_number_needs_the_right_to_select_it() {
    // The lock, and in the default mode its counter and the node's marker.
    for ((builder, rights), keys) in modes().into_iter().zip([1, 3]) {
        let server = Server::start();
        let url = format!("{}/3", acl_user(&server, rights));
        let (refusal, text) = refusal(builder.clone().node(&url));
        assert!(matches!(refusal, Refusal::MissingRight { .. }), "{text}");
        assert!(text.contains("+select"), "{text}");

        acl_user(&server, &[rights, &["+select"]].concat());
        let redlock = connected(builder.node(&url));
        works(&redlock, "lock:invoice");
        let _lease = redlock.try_acquire("lock:invoice").blocking().unwrap();
        assert_eq!(server.keys(), Vec::<Vec<u8>>::new(), "database 0 is not touched");
        let keyspace = format!("{:?}", server.run(&["INFO", "keyspace"]));
        assert!(keyspace.contains(&format!("db3:keys={keys}")), "{keyspace}");
    }
}

/// Those that are refused at once, those that are refused late, and those that are ready late: all are named.
#[test]
fn connect_tries_every_node_before_it_names_those_that_must_not_vote() {
    let cluster = Cluster::start(5);
    let master = cluster[0].port().to_string();
    cluster[1].run(&["REPLICAOF", "127.0.0.1", &master]);
    cluster[3].run(&["CONFIG", "SET", "maxmemory", "100mb"]);
    cluster[3].run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let slow = proxies.iter().enumerate().filter(|(node, _)| *node != 1);
    slow.for_each(|(_, proxy)| proxy.delay(100 * MS));
    let builder = patient().nodes(proxies.iter().map(Proxy::url)).require_all_nodes();
    let error = builder.blocking_connect().unwrap_err();
    let text = error.to_string();
    let ConnectError::Refused { nodes } = error else { panic!("{text}") };
    let states: Vec<NodeState> = nodes.iter().map(|(_, state)| state.clone()).collect();
    let evicts = Refusal::MayEvict { policy: "allkeys-lru".into() };
    let refused = |refusal: &Refusal| NodeState::Refused(refusal.clone());
    let ready = || NodeState::Ready;
    let expected = [ready(), refused(&Refusal::Replica), ready(), refused(&evicts), ready()];
    assert_eq!(states, expected, "{text}");
    let named = [(Arc::from(format!("127.0.0.1:{}", proxies[1].port())), Refusal::Replica)]
        .into_iter()
        .chain([(Arc::from(format!("127.0.0.1:{}", proxies[3].port())), evicts)]);
    let refusals: Vec<(Arc<str>, Refusal)> =
        nodes.refused().map(|(address, refusal)| (Arc::clone(address), refusal.clone())).collect();
    assert_eq!(refusals, named.collect::<Vec<_>>());
    assert!(text.starts_with("2 of 5 nodes cannot vote as configured"), "{text}");
}

/// A node that does not answer at all is waited for until the time is up, and then the refusal is told.
#[test]
fn connect_fails_by_a_refusal_when_its_time_is_up() {
    let cluster = Cluster::start(3);
    cluster[0].run(&["REPLICAOF", "127.0.0.1", &cluster[1].port().to_string()]);
    cluster[2].pause();
    let builder = patient().nodes(cluster.urls()).connect_timeout(SECOND);
    let error = builder.blocking_connect().unwrap_err();
    let text = error.to_string();
    let ConnectError::Refused { nodes } = error else { panic!("{text}") };
    let states: Vec<&NodeState> = nodes.iter().map(|(_, state)| state).collect();
    assert_eq!(states[..2], [&NodeState::Refused(Refusal::Replica), &NodeState::Ready], "{text}");
    let unanswered = matches!(states[2], NodeState::Connecting | NodeState::Down { .. });
    assert!(unanswered, "{text}");
}

#[test]
fn lists_that_cannot_work_are_refused() {
    let none = Redlock::blocking_connect(Vec::<String>::new()).unwrap_err();
    assert!(matches!(none, ConnectError::Config(ConfigError::NoNodes)), "{none:?}");
    let two = Redlock::builder().nodes(["redis://127.0.0.1:1", "redis://127.0.0.1:2"]);
    assert!(matches!(two.clone().build().unwrap_err(), ConfigError::TwoNodes));
    two.danger_allow_two_nodes().build().expect("two are accepted by those who ask for it");
    let many = (1..=33).map(|port| format!("redis://127.0.0.1:{port}"));
    let error = Redlock::builder().nodes(many).build().unwrap_err();
    assert!(matches!(error, ConfigError::TooManyNodes { nodes: 33 }), "{error}");
}

#[test]
fn bad_urls_are_refused_with_their_place_and_without_their_password() {
    let urls = [
        "",
        "localhost",
        "127.0.0.1:6379",
        "redis:/",
        "redis://",
        "redis://[::1",
        "redis://127.0.0.1:port",
        "redis://127.0.0.1:99999",
        "redis://127.0.0.1/database",
        "http://127.0.0.1",
        "rediss+unix:///tmp/socket",
        "redis://app:hunter2@127.0.0.1:port",
        "redis://app:hunter2@127.0.0.1/database",
        "http://app:hunter2@127.0.0.1",
    ];
    for url in urls {
        let builder = Redlock::builder().node("redis://127.0.0.1:1").node("redis://127.0.0.1:2");
        let error = match builder.node(url).build() {
            Err(error) => error,
            Ok(redlock) => panic!("`{url}` is accepted as {:?}", redlock.nodes()),
        };
        let text = chain(&error);
        let ConfigError::Address { wrong } = &error else { panic!("`{url}`: {text}") };
        assert_eq!(
            wrong.iter().map(|wrong| wrong.index).collect::<Vec<_>>(),
            [2],
            "`{url}`: {text}"
        );
        assert!(text.contains("node 2") && text.contains("redis://"), "`{url}`: {text}");
        assert!(!format!("{text}{error:?}").contains("hunter2"), "`{url}`: {text}");
    }
}

#[test]
fn build_lets_a_service_start_with_a_minority_refused_and_admits_it_later() {
    let cluster = Cluster::start(3);
    let master = cluster[0].port().to_string();
    cluster[2].run(&["REPLICAOF", "127.0.0.1", &master]);
    let redlock = patient().nodes(cluster.urls()).build().unwrap();
    eventually("two are ready and one is refused", SOON, || {
        let states: Vec<_> = redlock.nodes().into_iter().map(|node| node.state).collect();
        states == [NodeState::Ready, NodeState::Ready, NodeState::Refused(Refusal::Replica)]
    });
    works(&redlock, "r");
    cluster[2].run(&["REPLICAOF", "NO", "ONE"]);
    all_ready(&redlock);
    assert!(redlock.nodes()[2].version.as_deref().is_some_and(|version| version.contains('.')));
}

#[test]
fn too_few_nodes_are_no_connection() {
    let cluster = Cluster::start(3);
    cluster[0].kill();
    works(&patient().nodes(cluster.urls()).blocking_connect().unwrap(), "r");
    cluster[1].kill();
    let error = patient().nodes(cluster.urls()).blocking_connect().unwrap_err();
    let ConnectError::NoQuorum { ready: 1, needed: 2, nodes } = &error else { panic!("{error}") };
    let down = nodes.iter().filter(|(_, state)| matches!(state, NodeState::Down { .. }));
    assert_eq!(down.count(), 2, "{error}");
}

#[test]
fn a_prefix_stands_before_every_resource() {
    let cluster = Cluster::start(3);
    let redlock = connected(patient().nodes(cluster.urls()).key_prefix("redlock:"));
    let plain = connected(patient().nodes(cluster.urls()));
    let lease = redlock.try_acquire("r").ttl(60 * SECOND).blocking().unwrap();
    assert_eq!(lease.resource().as_bytes(), b"redlock:r");
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    assert_eq!(cluster[0].locks(), [b"redlock:r"]);
    plain.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
    assert!(plain.try_acquire("redlock:r").blocking().unwrap_err().is_contended());
    lease.blocking_release().unwrap();
    super::no_key_within(&cluster, SOON);
}

/// What is kept for the nodes is judged by the whole key.
#[test]
fn a_key_of_the_nodes_own_is_no_resource_whatever_part_of_it_is_the_prefix() {
    let cluster = Cluster::start(1);
    for (prefix, name) in
        [("", "quorlock:node"), ("", "quorlock:x"), ("quor", "lock:x"), ("quorlock", ":x")]
    {
        let redlock = connected(patient().nodes(cluster.urls()).key_prefix(prefix));
        let error = redlock.try_acquire(name).blocking().unwrap_err();
        let reserved = matches!(error, AcquireError::Resource(ResourceError::Reserved));
        assert!(reserved, "{prefix} {name}: {error}");
        assert!(error.to_string().contains("reserved for the nodes"), "{error}");
        assert!(cluster.locks_left().is_empty());
    }
    for (prefix, name) in [("app:", "quorlock:x"), ("", "quorlock"), ("", "fence:{x"), ("q", "x")] {
        let redlock = connected(patient().nodes(cluster.urls()).key_prefix(prefix));
        works(&redlock, name);
    }
}

#[test]
fn a_prefix_with_which_every_name_would_be_refused_is_refused_at_once() {
    for prefix in ["quorlock:", "quorlock:app:"] {
        let builder = Redlock::builder().node("redis://127.0.0.1:1").key_prefix(prefix);
        let error = builder.build().unwrap_err();
        let text = chain(&error);
        assert!(matches!(error, ConfigError::ReservedPrefix { .. }), "{text}");
        assert!(text.contains(prefix) && text.contains("choose another"), "{text}");
    }
}

#[test]
fn every_kind_of_address_works() {
    let ipv6 = ipv6_available();
    let server = Server::builder().unix_socket(true).ipv6(ipv6).password("p@ss/w:rd").start();
    let unix = server.unix_url();
    let mut urls = vec![server.url(), format!("{}/7", server.url()), unix.clone()];
    urls.push(unix.replacen("redis+unix", "unix", 1));
    urls.push(server.url().replacen("redis", "valkey", 1));
    if ipv6 {
        urls.push(server.ipv6_url());
        decided!();
    } else {
        undecided!("there is no ::1 on this machine");
    }
    for url in urls {
        // It is one server by all of these addresses.
        let redlock = connected(patient().node(NodeSpec::from(&url).named("it")));
        works(&redlock, "r");
        let address = redlock.nodes()[0].address.to_string();
        assert!(!address.contains("p@ss") && !address.contains("p%40ss"), "{address}");
        redlock.blocking_close().unwrap();
    }
}

//! The mistakes, each made as a user makes it.

use std::{net::TcpListener, time::Duration};

use quorlock::{
    Builder, Once, Redlock,
    node::{NodeSpec, NodeState},
};
use quorlock_harness::{Cluster, Proxy, Server, connected, eventually};

use super::normal::Found;

/// A mistake and what it says; `None` where this build cannot make it.
pub(crate) type Case = fn() -> Option<Found>;

/// In the order of the file.
pub(crate) const ALL: [(&str, Case); 54] = [
    ("wrong password", wrong_password),
    ("no password", no_password),
    ("wrong port", wrong_port),
    ("unknown host", unknown_host),
    ("database 99", database_99),
    ("replica", replica),
    ("cluster mode", cluster_mode),
    ("eviction", eviction),
    ("the same address twice", same_address_twice),
    ("the same server by two addresses", same_server_twice),
    ("another list of nodes", other_list),
    ("another list of nodes, with one more", longer_list),
    ("another name of the fleet", other_fleet),
    ("a list that another process is about to use", list_about_to_be_used),
    ("a right is missing", right_missing),
    ("several nodes are bad", several_bad),
    ("one node is down and all are required", one_down_of_all),
    ("two nodes", two_nodes),
    ("no scheme", no_scheme),
    ("a typo in the scheme", typo_in_the_scheme),
    ("a port of 74011", port_too_large),
    ("no port after the colon", no_port),
    ("a database that is no number", database_abc),
    ("two wrong URLs", two_wrong_urls),
    ("TLS without the feature", tls_without_the_feature),
    ("ttl too long, in the builder", ttl_of_the_builder),
    ("ttl too long, of a request", ttl_of_a_request),
    ("hold_at_least too long", hold_too_long),
    ("a period of nothing", period_of_nothing),
    ("several resources once in a period", several_once),
    ("work that is done in an outage", done_in_an_outage),
    ("lock_delay too long, of a request", lock_delay_too_long),
    ("empty resource", empty_resource),
    ("quarantine", quarantine),
    ("outage", outage),
    ("contention", contention),
    ("contention with a holder that has a label", contention_with_a_label),
    ("contention with a key that never expires", contention_for_ever),
    ("contention with those who wait", contention_with_a_line),
    ("several resources, one of them held", contention_of_several),
    ("several resources, held by the same process", contention_of_several_here),
    ("several resources in classic mode", several_in_classic_mode),
    ("too many resources", too_many_resources),
    ("an extension in an outage", extension_in_an_outage),
    ("a lease lost in an outage", lost_in_an_outage),
    ("a lease lost by its keys", lost_by_its_keys),
    ("released too late", released_too_late),
    ("release in an outage", release_in_an_outage),
    ("released by a shutdown", released_by_a_shutdown),
    ("closed", closed),
    ("the holder of an empty resource", holder_of_nothing),
    ("kept for longer than max_ttl allows", held_too_long),
    ("a token in classic mode", classic_token),
    ("a shutdown in an outage", shutdown_in_an_outage),
];

const SOON: Duration = Duration::from_secs(60);

/// As a first try, but that a busy machine gets more time.
fn patient() -> Builder {
    Redlock::builder()
        .node_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(10))
        .danger_skip_quarantine()
}

fn refused(builder: Builder, cluster: &Cluster) -> Option<Found> {
    Some(Found::on(builder.blocking_connect().expect_err("a mistake"), cluster))
}

fn not_built(builder: Builder) -> Option<Found> {
    let error = builder.clone().build().expect_err("a mistake").to_string();
    // The same comes out of `connect`, behind what it says itself.
    let connecting = builder.blocking_connect().expect_err("a mistake").to_string();
    assert!(connecting.ends_with(&error), "{connecting}\n{error}");
    Some(Found::plain(connecting))
}

fn wrong_password() -> Option<Found> {
    let cluster = Cluster::start_with(3, |_, builder| builder.password("open sesame"));
    let urls = cluster.iter().map(|server| format!("redis://:hunter2@127.0.0.1:{}", server.port()));
    refused(patient().nodes(urls), &cluster)
}

fn no_password() -> Option<Found> {
    let cluster = Cluster::start_with(3, |_, builder| builder.password("open sesame"));
    let urls = cluster.iter().map(|server| format!("redis://127.0.0.1:{}", server.port()));
    refused(patient().nodes(urls), &cluster)
}

/// All of them, as where the ports of another environment were copied.
fn wrong_port() -> Option<Found> {
    let cluster = Cluster::start(3);
    cluster.iter().for_each(Server::kill);
    refused(patient().connect_timeout(Duration::from_secs(1)).nodes(cluster.urls()), &cluster)
}

fn unknown_host() -> Option<Found> {
    let cluster = Cluster::start(1);
    let urls = [cluster[0].url(), "redis://lock-b.invalid".into(), "redis://lock-c.invalid".into()];
    refused(patient().nodes(urls), &cluster)
}

fn database_99() -> Option<Found> {
    let cluster = Cluster::start(3);
    let urls = cluster.urls().into_iter().map(|url| format!("{url}/99"));
    refused(patient().connect_timeout(Duration::from_secs(1)).nodes(urls), &cluster)
}

fn replica() -> Option<Found> {
    let cluster = Cluster::start(3);
    let master = cluster[0].port().to_string();
    cluster
        .iter()
        .skip(1)
        .for_each(|server| drop(server.run(&["REPLICAOF", "127.0.0.1", &master])));
    refused(patient().nodes(cluster.urls()), &cluster)
}

fn cluster_mode() -> Option<Found> {
    let cluster = Cluster::start_with(3, |_, builder| {
        // The one that it would choose itself may be above all ports that there are.
        let bus = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        builder.arg("cluster-enabled", "yes").arg("cluster-port", &bus.to_string())
    });
    refused(patient().nodes(cluster.urls()), &cluster)
}

fn eviction() -> Option<Found> {
    let cluster = Cluster::start_with(3, |_, builder| {
        builder.arg("maxmemory", "100mb").arg("maxmemory-policy", "allkeys-lru")
    });
    refused(patient().nodes(cluster.urls()), &cluster)
}

fn same_address_twice() -> Option<Found> {
    not_built(patient().nodes([
        "redis://10.0.0.1",
        "redis://10.0.0.2:6379",
        "redis://10.0.0.1:6379/1",
    ]))
}

fn same_server_twice() -> Option<Found> {
    let cluster = Cluster::start(2);
    // Its second address is always the later one.
    let proxy = Proxy::start(cluster[0].port());
    proxy.delay(Duration::from_millis(100));
    let again = NodeSpec::from(proxy.url()).named("another");
    let found = refused(patient().nodes(cluster.urls()).node(again), &cluster)?;
    Some(found.and_port(proxy.port()))
}

/// Servers by the names that they have in production.
fn named(cluster: &Cluster, nodes: &[usize]) -> Builder {
    let url = |node: &usize| format!("{}#redis-{}:6379", cluster[*node].url(), node + 1);
    patient().nodes(nodes.iter().map(url))
}

/// The first three of these have been used for two hours.
fn used(n: usize) -> Cluster {
    let cluster = Cluster::start(n);
    connected(named(&cluster, &[0, 1, 2])).blocking_close().expect("nothing is under way");
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    let since = (since.as_secs() - 7_200).to_string();
    (0..3).for_each(|node| drop(cluster[node].run(&["HSET", "quorlock:node", "since", &since])));
    cluster
}

fn other_list() -> Option<Found> {
    let cluster = used(4);
    refused(named(&cluster, &[0, 1, 3]).require_all_nodes(), &cluster)
}

fn longer_list() -> Option<Found> {
    let cluster = used(5);
    refused(named(&cluster, &[0, 1, 2, 3, 4]).require_all_nodes(), &cluster)
}

fn other_fleet() -> Option<Found> {
    let cluster = used(3);
    refused(named(&cluster, &[0, 1, 2]).fleet("billing"), &cluster)
}

fn list_about_to_be_used() -> Option<Found> {
    let cluster = Cluster::start(4);
    // It waits for an operator, and lets no node in.
    let url = |node: usize| format!("{}#redis-{}:6379", cluster[node].url(), node + 1);
    let waits = Redlock::builder().nodes([0, 1, 2].map(url)).strict_admission();
    let waits =
        waits.connect_timeout(Duration::from_secs(10)).blocking_connect().expect("it waits");
    let found = refused(named(&cluster, &[0, 1, 3]), &cluster);
    drop(waits);
    found
}

fn right_missing() -> Option<Found> {
    let cluster = Cluster::start(3);
    let allow = ["ACL", "SETUSER", "app", "on", ">hunter2", "~*", "+@all", "-hget"];
    cluster.iter().for_each(|server| drop(server.run(&allow)));
    let url = |server: &Server| format!("redis://app:hunter2@127.0.0.1:{}", server.port());
    refused(patient().nodes(cluster.iter().map(url)), &cluster)
}

fn one_down_of_all() -> Option<Found> {
    let cluster = Cluster::start(3);
    cluster[1].kill();
    let builder = patient().connect_timeout(Duration::from_secs(3)).require_all_nodes();
    refused(builder.nodes(cluster.urls()), &cluster)
}

fn several_bad() -> Option<Found> {
    let cluster = Cluster::start_with(5, |i, builder| match i {
        1 => builder.password("open sesame"),
        3 => builder.arg("maxmemory", "100mb").arg("maxmemory-policy", "volatile-ttl"),
        _ => builder,
    });
    cluster[2].run(&["REPLICAOF", "127.0.0.1", &cluster[0].port().to_string()]);
    let url = |server: &Server| format!("redis://127.0.0.1:{}", server.port());
    refused(patient().nodes(cluster.iter().map(url)), &cluster)
}

fn two_nodes() -> Option<Found> {
    not_built(patient().nodes(["redis://10.0.0.1", "redis://10.0.0.2"]))
}

fn three(first: &str) -> Builder {
    patient().nodes([first, "redis://10.0.0.2", "redis://10.0.0.3"])
}

fn no_scheme() -> Option<Found> {
    not_built(three("127.0.0.1:7401"))
}

fn typo_in_the_scheme() -> Option<Found> {
    not_built(three("reds://app:hunter2@10.0.0.1"))
}

fn port_too_large() -> Option<Found> {
    not_built(three("redis://10.0.0.1:74011"))
}

fn no_port() -> Option<Found> {
    not_built(three("redis://10.0.0.1:"))
}

fn database_abc() -> Option<Found> {
    not_built(three("redis://10.0.0.1/abc"))
}

fn two_wrong_urls() -> Option<Found> {
    not_built(patient().nodes(["redis://10.0.0.1", "10.0.0.2", "redsi://:hunter2@10.0.0.3:6379"]))
}

#[cfg(not(feature = "tls-rustls"))]
fn tls_without_the_feature() -> Option<Found> {
    not_built(three("rediss://app:hunter2@10.0.0.1"))
}

#[cfg(feature = "tls-rustls")]
fn tls_without_the_feature() -> Option<Found> {
    None
}

fn ttl_of_the_builder() -> Option<Found> {
    not_built(patient().node("redis://10.0.0.1").ttl(Duration::from_secs(60)))
}

fn one() -> (Cluster, Redlock) {
    let cluster = Cluster::start(1);
    let redlock = connected(patient().nodes(cluster.urls()));
    (cluster, redlock)
}

fn ttl_of_a_request() -> Option<Found> {
    let (cluster, redlock) = one();
    let error = redlock.acquire("r").ttl(Duration::from_secs(60)).blocking().unwrap_err();
    Some(Found::on(error, &cluster))
}

fn hold_too_long() -> Option<Found> {
    let (cluster, redlock) = one();
    let request = redlock.acquire("r").hold_at_least(Duration::from_secs(60));
    Some(Found::on(request.blocking().unwrap_err(), &cluster))
}

fn period_of_nothing() -> Option<Found> {
    let (cluster, redlock) = one();
    let request = redlock.acquire("r").once_per(Duration::ZERO);
    Some(Found::on(request.blocking().unwrap_err(), &cluster))
}

fn several_once() -> Option<Found> {
    let (cluster, redlock) = one();
    let request = redlock.acquire_all(["a", "b"]).once_per(Duration::from_secs(60));
    Some(Found::on(request.blocking().unwrap_err(), &cluster))
}

fn done_in_an_outage() -> Option<Found> {
    let (cluster, redlock) = one();
    let once = redlock.acquire("r").once_per(Duration::from_secs(60)).blocking().unwrap();
    let Once::Due(lease) = once else { panic!("{once}") };
    cluster[0].kill();
    Some(Found::on(lease.blocking_done().unwrap_err(), &cluster))
}

fn lock_delay_too_long() -> Option<Found> {
    let (cluster, redlock) = one();
    let request = redlock.acquire("r").lock_delay(Duration::from_secs(5));
    Some(Found::on(request.blocking().unwrap_err(), &cluster))
}

fn empty_resource() -> Option<Found> {
    let (cluster, redlock) = one();
    Some(Found::on(redlock.acquire("").blocking().unwrap_err(), &cluster))
}

fn quarantine() -> Option<Found> {
    let cluster = Cluster::start(3);
    let builder = Redlock::builder().connect_timeout(Duration::from_secs(10));
    let redlock = builder.nodes(cluster.urls()).blocking_connect().unwrap();
    let waits = |state| matches!(state, NodeState::Quarantined { .. });
    eventually("all are in quarantine", SOON, || {
        redlock.nodes().into_iter().all(|node| waits(node.state))
    });
    let error = redlock.acquire("r").wait(Duration::from_secs(5)).blocking().unwrap_err();
    Some(Found::on(error, &cluster))
}

/// Kills all but the first of three, and waits until that is known.
fn all_but_one_killed(cluster: &Cluster, redlock: &Redlock) {
    cluster.iter().skip(1).for_each(Server::kill);
    eventually("they are known to be down", SOON, || {
        let refuses = |state: &NodeState| matches!(state, NodeState::Down { reason } if reason.contains("refused"));
        redlock.nodes()[1..].iter().all(|node| refuses(&node.state))
    });
}

fn three_connected() -> (Cluster, Redlock) {
    let cluster = Cluster::start(3);
    let redlock = connected(patient().nodes(cluster.urls()));
    (cluster, redlock)
}

fn outage() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    all_but_one_killed(&cluster, &redlock);
    Some(Found::on(redlock.try_acquire("r").blocking().unwrap_err(), &cluster))
}

fn contention() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let other = connected(patient().nodes(cluster.urls()));
    let _lease = other.acquire("r").blocking().unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    // The third is never among the first two that answer.
    cluster[2].pause();
    Some(Found::on(redlock.try_acquire("r").blocking().unwrap_err(), &cluster))
}

fn contention_with_a_label() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let other = connected(patient().nodes(cluster.urls()).label("web-1/4711/billing"));
    let _lease = other.acquire("r").blocking().unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    cluster[2].pause();
    Some(Found::on(redlock.try_acquire("r").blocking().unwrap_err(), &cluster))
}

/// It is free, and the first in line has not come yet.
fn contention_with_a_line() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    for server in &cluster {
        server.run(&["ZADD", "quorlock:line:r", "100", "aaaaaaaaaaaaaaaa"]);
        server.run(&["PEXPIRE", "quorlock:line:r", "4000"]);
    }
    cluster[2].pause();
    Some(Found::on(redlock.try_acquire("r").blocking().unwrap_err(), &cluster))
}

fn contention_of_several() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let other = connected(patient().nodes(cluster.urls()));
    let _lease = other.acquire("b").blocking().unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    cluster[2].pause();
    Some(Found::on(redlock.try_acquire_all(["a", "b"]).blocking().unwrap_err(), &cluster))
}

fn contention_of_several_here() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let _lease = redlock.acquire_all(["a", "b"]).blocking().unwrap();
    Some(Found::on(redlock.try_acquire_all(["b", "a"]).blocking().unwrap_err(), &cluster))
}

fn several_in_classic_mode() -> Option<Found> {
    let cluster = Cluster::start(1);
    let redlock = connected(patient().classic().nodes(cluster.urls()));
    Some(Found::on(redlock.acquire_all(["a", "b"]).blocking().unwrap_err(), &cluster))
}

fn too_many_resources() -> Option<Found> {
    let (cluster, redlock) = one();
    let many = (0..40).map(|number| number.to_string());
    Some(Found::on(redlock.acquire_all(many).blocking().unwrap_err(), &cluster))
}

fn contention_for_ever() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    cluster.iter().take(2).for_each(|server| drop(server.run(&["SET", "r", "by hand"])));
    cluster[2].pause();
    Some(Found::on(redlock.try_acquire("r").blocking().unwrap_err(), &cluster))
}

fn extension_in_an_outage() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let lease = redlock.acquire("r").blocking().unwrap();
    all_but_one_killed(&cluster, &redlock);
    Some(Found::on(lease.blocking_extend().unwrap_err(), &cluster))
}

fn lost_in_an_outage() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let lease = redlock.acquire("r").ttl(Duration::from_secs(4)).blocking().unwrap();
    all_but_one_killed(&cluster, &redlock);
    Some(Found::on(lease.blocking_lost().unwrap(), &cluster))
}

fn lost_by_its_keys() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let lease = redlock.acquire("r").blocking().unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    cluster.iter().take(2).for_each(|server| drop(server.run(&["DEL", "r"])));
    cluster[2].pause();
    drop(lease.blocking_extend());
    Some(Found::on(lease.check().unwrap_err(), &cluster))
}

fn released_too_late() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let lease = redlock.acquire("r").blocking().unwrap();
    eventually("all three have it", SOON, || cluster.locks_left().len() == 3);
    cluster[0].run(&["DEL", "r"]);
    cluster[1].run(&["SET", "r", "by hand"]);
    cluster[2].pause();
    Some(Found::on(lease.blocking_release().unwrap_err(), &cluster))
}

fn release_in_an_outage() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let lease = redlock.acquire("r").blocking().unwrap();
    all_but_one_killed(&cluster, &redlock);
    Some(Found::on(lease.blocking_release().unwrap_err(), &cluster))
}

fn released_by_a_shutdown() -> Option<Found> {
    let (cluster, redlock) = one();
    let lease = redlock.acquire("r").blocking().unwrap();
    redlock.blocking_shutdown().unwrap();
    Some(Found::on(lease.blocking_release().unwrap_err(), &cluster))
}

fn closed() -> Option<Found> {
    let (cluster, redlock) = one();
    redlock.blocking_close().unwrap();
    Some(Found::on(redlock.acquire("r").blocking().unwrap_err(), &cluster))
}

fn holder_of_nothing() -> Option<Found> {
    let (cluster, redlock) = one();
    Some(Found::on(redlock.blocking_holder("").unwrap_err(), &cluster))
}

fn held_too_long() -> Option<Found> {
    let (cluster, redlock) = one();
    let request = redlock.acquire("r").hold_at_least(Duration::from_secs(60));
    Some(Found::on(request.blocking().unwrap_err(), &cluster))
}

fn classic_token() -> Option<Found> {
    let cluster = Cluster::start(1);
    let redlock = connected(patient().nodes(cluster.urls()).classic());
    let lease = redlock.acquire("r").blocking().unwrap();
    Some(Found::on(lease.token().unwrap_err(), &cluster))
}

fn shutdown_in_an_outage() -> Option<Found> {
    let (cluster, redlock) = three_connected();
    let _lease = redlock.acquire("r").blocking().unwrap();
    all_but_one_killed(&cluster, &redlock);
    Some(Found::on(redlock.blocking_shutdown().unwrap_err(), &cluster))
}

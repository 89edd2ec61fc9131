//! Goal: a resolver that hangs costs one thread for each name, and a name that may be several servers is refused.
//!
//! Method: the test runs itself again under a preload shim (`resolver.c`, built here with `cc`) that answers for some
//! names, hangs when it is told to, and counts what it is asked. Attempts to connect are counted by their events.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use quorlock::{
    ConnectError,
    node::{NodeState, Refusal},
};
use quorlock_harness::{Cluster, eventually};
use tracing_subscriber::{Layer, layer::SubscriberExt as _};

use super::{MS, SOON, all_ready, chain, patient};

/// The directory that the shim uses, for as long as it lives.
struct Resolver(PathBuf);

impl Resolver {
    fn hang(&self) {
        std::fs::write(self.0.join("hung"), "").unwrap();
    }

    fn go_on(&self) {
        std::fs::remove_file(self.0.join("hung")).unwrap();
    }

    /// How many names it has been asked for.
    fn calls(&self) -> usize {
        std::fs::read(self.0.join("calls")).unwrap_or_default().len()
    }
}

/// Runs `test`, which must be the body of the test of this name, in a process with the shim, beside some servers.
fn with_shim(name: &str, servers: usize, test: impl FnOnce(Resolver, Vec<u16>)) {
    if let Some(directory) = std::env::var_os("QUORLOCK_RESOLVER") {
        let ports = std::env::var("QUORLOCK_PORTS").unwrap();
        let ports = ports.split_whitespace().map(|port| port.parse().unwrap()).collect();
        return test(Resolver(PathBuf::from(directory)), ports);
    }
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/resolver.c");
    let shim = directory.path().join("resolver.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
        .args([&shim, &source])
        .arg("-ldl")
        .output()
        .unwrap_or_else(|error| panic!("this test needs a C compiler, `cc` on PATH: {error}"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // Without the shim, which would count what the servers look up.
    let cluster = Cluster::start(servers);
    let ports: Vec<String> = cluster.iter().map(|server| server.port().to_string()).collect();
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("resolver::{name}"), "--nocapture"])
        .env("LD_PRELOAD", &shim)
        .env("QUORLOCK_RESOLVER", directory.path())
        .env("QUORLOCK_PORTS", ports.join(" "))
        .output()
        .unwrap();
    let output =
        [again.stdout, again.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(again.status.success() && output[0].contains("1 passed"), "{}", output.join("\n"));
}

static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Counts the attempts to connect that have failed.
struct Attempts;

impl<S: tracing::Subscriber> Layer<S> for Attempts {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let attempt = *event.metadata().level() == tracing::Level::TRACE;
        if attempt && event.metadata().fields().field("reason").is_some() {
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn count_attempts() {
    let subscriber = tracing_subscriber::registry().with(Attempts);
    tracing::subscriber::set_global_default(subscriber).unwrap();
}

#[track_caller]
fn after_attempts(more: usize) {
    let enough = FAILED.load(Ordering::Relaxed) + more;
    eventually("nodes are tried again and again", SOON, || {
        FAILED.load(Ordering::Relaxed) >= enough
    });
}

#[test]
fn a_resolver_that_hangs_is_asked_once_for_each_name_and_keeps_no_other_node_down() {
    let name = "a_resolver_that_hangs_is_asked_once_for_each_name_and_keeps_no_other_node_down";
    with_shim(name, 3, |resolver, ports| {
        count_attempts();
        resolver.hang();
        let hosts = ["127.0.0.1", "b.test", "c.test"].into_iter().zip(&ports);
        let urls = hosts.map(|(host, port)| format!("redis://{host}:{port}"));
        let redlock = patient().nodes(urls).connect_timeout(50 * MS).build().unwrap();
        after_attempts(10);
        assert_eq!(resolver.calls(), 2, "one look-up of each name is under way");
        let states: Vec<_> = redlock.nodes().into_iter().map(|node| node.state).collect();
        assert!(!matches!(states[0], NodeState::Down { .. }), "{states:?}");
        resolver.go_on();
        all_ready(&redlock);
        redlock.try_acquire("r").blocking().unwrap().blocking_release().unwrap();
    });
}

#[test]
fn many_names_that_hang_take_no_more_threads_than_the_engine_has_for_them() {
    let name = "many_names_that_hang_take_no_more_threads_than_the_engine_has_for_them";
    with_shim(name, 1, |resolver, ports| {
        count_attempts();
        resolver.hang();
        let port = ports[0];
        let builder = || patient().connect_timeout(50 * MS);
        let fleet = |fleet| {
            let urls = (0..32).map(move |node| format!("redis://n{fleet}-{node}.test:{}", port));
            builder().nodes(urls).build().unwrap()
        };
        let fleets: Vec<_> = (0..3).map(fleet).collect();
        after_attempts(300);
        assert_eq!(resolver.calls(), 64, "two fleets of the largest size");
        resolver.go_on();
        eventually("the others are looked up too", SOON, || resolver.calls() >= 96);
        drop(fleets);
    });
}

#[test]
fn a_name_that_leads_to_several_addresses_is_refused() {
    with_shim("a_name_that_leads_to_several_addresses_is_refused", 1, |_, ports| {
        let node = |host: &str| patient().node(format!("redis://{host}:{}", ports[0]));
        node("one.test").blocking_connect().unwrap();
        let error = node("two.test").blocking_connect().unwrap_err();
        let text = chain(&error);
        let ConnectError::Refused { nodes } = &error else { panic!("{text}") };
        let (address, refusal) = nodes.refused().next().expect("a refused node");
        assert_eq!(&**address, format!("two.test:{}", ports[0]));
        assert_eq!(*refusal, Refusal::SeveralAddresses { addresses: 2 });
        assert!(text.contains("may be several servers"), "{text}");
    });
}

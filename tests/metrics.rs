//! Goal: the metrics of `docs/observing.md` are there with the values that they should have, name no resource, and a recorder
//! that panics costs nothing else.
//!
//! Method: real servers, of which some are killed, and the recorder of a Prometheus exporter for the whole process, which is
//! why this binary has one test.
#![cfg(all(feature = "redis", feature = "metrics"))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    future::IntoFuture,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::executor::block_on;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use quorlock::{Redlock, node::NodeState};
use quorlock_harness::{Cluster, Server, connected, eventually};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);
const RESOURCE: &str = "secret-of-a-customer";

/// The exporter's recorder, which can be made to panic.
struct Fragile {
    inner: PrometheusRecorder,
    panics: Arc<AtomicBool>,
}

impl Fragile {
    fn inner(&self) -> &PrometheusRecorder {
        if self.panics.load(Ordering::Relaxed) {
            // As a panic, but for the line in the output.
            std::panic::resume_unwind(Box::new("a recorder that panics"));
        }
        &self.inner
    }
}

impl Recorder for Fragile {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner().describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner().describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner().describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.inner().register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.inner().register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.inner().register_histogram(key, metadata)
    }
}

/// What Prometheus would read.
struct Exporter(PrometheusHandle);

impl Exporter {
    fn install(panics: &Arc<AtomicBool>) -> Self {
        let buckets = [0.001, 0.01, 0.1, 1.0, 10.0];
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &buckets)
            .unwrap();
        let inner = builder.build_recorder();
        let handle = inner.handle();
        metrics::set_global_recorder(Fragile { inner, panics: Arc::clone(panics) })
            .unwrap_or_else(|_| panic!("there is another recorder"));
        Self(handle)
    }

    /// The value of a series, with its labels in order of their names; `None` if there is none.
    fn value(&self, series: &str) -> Option<f64> {
        let text = self.0.render();
        let sorted = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let mut labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
            labels.sort_unstable();
            Some((format!("{name}{{{}}}", labels.join(",")), value.parse().ok()?))
        };
        text.lines().filter_map(sorted).find(|(found, _)| found == series).map(|(_, value)| value)
    }

    #[track_caller]
    fn is(&self, series: &str, value: f64) {
        let mut last = None;
        eventually(&format!("{series} is {value}"), SOON, || {
            last = self.value(series);
            last == Some(value)
        });
    }

    fn node(&self, node: &str, state: &str) -> Option<f64> {
        self.value(&format!(
            r#"quorlock_node_state{{fleet="default",node="{node}",state="{state}"}}"#
        ))
    }

    #[track_caller]
    fn node_is(&self, node: &str, state: &str) {
        eventually(&format!("{node} is {state}"), SOON, || self.node(node, state) == Some(1.0));
        let others = ["connecting", "ready", "quarantined", "down", "refused"];
        for other in others.into_iter().filter(|other| *other != state) {
            assert_eq!(self.node(node, other), Some(0.0), "{node} {other}");
        }
    }
}

#[test]
fn the_metrics_say_what_happens() {
    let panics = Arc::new(AtomicBool::new(false));
    let exporter = Exporter::install(&panics);
    let cluster = Cluster::start(5);
    let builder = Redlock::builder()
        .nodes(cluster.urls())
        .node_timeout(SECOND)
        .connect_timeout(10 * SECOND)
        .close_timeout(20 * SECOND)
        .danger_skip_quarantine();
    let redlock = connected(builder);
    let addresses: Vec<String> =
        redlock.nodes().iter().map(|node| node.address.to_string()).collect();

    // From zero on, so that the first one is an increase.
    exporter.is(r#"quorlock_leases_lost_total{reason="renewal_failed"}"#, 0.0);
    exporter.is(r#"quorlock_acquires_total{outcome="no_quorum"}"#, 0.0);

    // Nodes and the quorum.
    for address in &addresses {
        exporter.node_is(address, "ready");
        let offset =
            format!(r#"quorlock_node_clock_offset_seconds{{fleet="default",node="{address}"}}"#);
        eventually("the clock is compared", SOON, || exporter.value(&offset).is_some());
        assert!(exporter.value(&offset).unwrap().abs() < 1.0);
    }
    exporter.is(r#"quorlock_quorum{fleet="default"}"#, 1.0);
    exporter.is(r#"quorlock_nodes_voting{fleet="default"}"#, 5.0);

    // Acquires, and who holds.
    let lease = redlock.acquire(RESOURCE).blocking().unwrap();
    let other = redlock.acquire("other").blocking().unwrap();
    exporter.is("quorlock_leases_held{}", 2.0);
    assert!(redlock.try_acquire(RESOURCE).blocking().unwrap_err().is_contended());
    exporter.is(r#"quorlock_acquires_total{outcome="contended"}"#, 1.0);
    exporter.is(r#"quorlock_rounds_total{outcome="contended"}"#, 0.0);
    cluster.iter().for_each(|server| server.set("theirs", "another program's", None));
    assert!(redlock.try_acquire("theirs").blocking().unwrap_err().is_contended());
    {
        let mut abandoned = pin!(redlock.acquire(RESOURCE).into_future());
        let polled = abandoned.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }
    exporter.is(r#"quorlock_acquires_total{outcome="acquired"}"#, 2.0);
    exporter.is(r#"quorlock_acquires_total{outcome="contended"}"#, 2.0);
    exporter.is(r#"quorlock_acquires_total{outcome="abandoned"}"#, 1.0);
    exporter.is(r#"quorlock_acquire_wait_seconds_count{outcome="acquired"}"#, 2.0);
    exporter.is(r#"quorlock_rounds_total{outcome="won"}"#, 2.0);
    exporter.is("quorlock_round_seconds_count{}", 2.0);
    let lost_rounds = || exporter.value(r#"quorlock_rounds_total{outcome="contended"}"#);
    eventually("the lost round is counted", SOON, || lost_rounds() >= Some(1.0));
    let round_trips = r#"quorlock_node_round_trip_seconds_count{fleet="default",node="N"}"#;
    for address in &addresses {
        let series = round_trips.replace("N", address);
        eventually("it has answered", SOON, || exporter.value(&series) >= Some(2.0));
    }

    // Renewals, a loss and a release.
    block_on(lease.extend()).unwrap();
    exporter.is(r#"quorlock_renewals_total{result="extended"}"#, 1.0);
    cluster.iter().for_each(|server| assert!(server.del("other")));
    block_on(other.extend()).unwrap_err();
    exporter.is(r#"quorlock_renewals_total{result="lost"}"#, 1.0);
    exporter.is(r#"quorlock_leases_lost_total{reason="gone"}"#, 1.0);
    exporter.is("quorlock_leases_held{}", 1.0);
    drop(other);
    exporter.is(r#"quorlock_releases_total{result="already_ended"}"#, 1.0);
    exporter.is("quorlock_leases_held{}", 1.0);
    lease.blocking_release().unwrap();
    exporter.is(r#"quorlock_releases_total{result="confirmed"}"#, 1.0);
    exporter.is("quorlock_leases_held{}", 0.0);

    // By class: waits, one of them in vain, hand-overs in this process, and a loss.
    let of = |name: &str| redlock.acquire(name).class("invoice");
    let lease = of("classed").blocking().unwrap();
    assert!(redlock.try_acquire("classed").class("invoice").blocking().is_err());
    // Those that wait get the tokens of one round.
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(of("classed").into_future())).collect();
    for next in &mut waiting {
        let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }
    lease.blocking_release().unwrap();
    for next in waiting {
        block_on(next).unwrap().blocking_release().unwrap();
    }
    let lost = of("classed").blocking().unwrap();
    cluster.iter().for_each(|server| assert!(server.del("classed")));
    block_on(lost.extend()).unwrap_err();
    drop(lost);
    exporter.is(r#"quorlock_acquires_total{class="invoice",outcome="acquired"}"#, 5.0);
    exporter.is(r#"quorlock_acquires_total{class="invoice",outcome="contended"}"#, 1.0);
    exporter.is(r#"quorlock_acquire_wait_seconds_count{class="invoice",outcome="acquired"}"#, 5.0);
    let handed_on =
        exporter.value(r#"quorlock_releases_total{class="invoice",result="handed_on"}"#);
    assert!(handed_on > Some(0.0), "{handed_on:?}");
    exporter.is(r#"quorlock_leases_lost_total{class="invoice",reason="gone"}"#, 1.0);
    exporter.is(r#"quorlock_lease_held_seconds_count{class="invoice"}"#, 5.0);
    // Those without a class, which are counted as before.
    exporter.is("quorlock_lease_held_seconds_count{}", 2.0);
    exporter.is(r#"quorlock_acquires_total{outcome="acquired"}"#, 2.0);
    exporter.is("quorlock_leases_held{}", 0.0);

    // A node that is killed, and then a majority.
    cluster[2].kill();
    exporter.node_is(&addresses[2], "down");
    exporter.is(r#"quorlock_nodes_voting{fleet="default"}"#, 4.0);
    exporter.is(r#"quorlock_quorum{fleet="default"}"#, 1.0);
    redlock.acquire(RESOURCE).blocking().unwrap().blocking_release().unwrap();
    exporter.is(r#"quorlock_acquires_total{outcome="acquired"}"#, 3.0);
    {
        let mut granted = pin!(redlock.acquire(RESOURCE).into_future());
        // Two of the four that are left do not answer meanwhile: it cannot be granted within its first poll.
        cluster.iter().take(2).for_each(Server::pause);
        let polled = granted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        cluster.iter().take(2).for_each(Server::resume);
        assert!(matches!(polled, Poll::Pending));
        exporter.is(r#"quorlock_acquires_total{outcome="acquired"}"#, 4.0);
        // Until the answer is on its way, too.
        std::thread::sleep(100 * MS);
    }
    exporter.is(r#"quorlock_releases_total{result="confirmed"}"#, 3.0);
    let abandoned = exporter.value(r#"quorlock_acquires_total{outcome="abandoned"}"#);
    assert_eq!(abandoned, Some(1.0), "each is counted once");
    for killed in [0, 1] {
        cluster[killed].kill();
        exporter.node_is(&addresses[killed], "down");
    }
    exporter.is(r#"quorlock_quorum{fleet="default"}"#, 0.0);
    redlock.try_acquire(RESOURCE).blocking().unwrap_err();
    exporter.is(r#"quorlock_acquires_total{outcome="no_quorum"}"#, 1.0);
    exporter.node_is(&addresses[3], "ready");

    let text = exporter.0.render();
    println!("{text}");
    assert!(!text.contains(RESOURCE), "resources are no labels");
    assert!(text.contains("# HELP quorlock_quorum "), "what it means is told");
    let named = |line: &&str| line.starts_with("# TYPE quorlock_");
    let documented = include_str!("../docs/observing.md");
    for line in text.lines().filter(named) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(documented.contains(&format!("`{name}`")), "{name} is not in docs/observing.md");
    }

    // What the dashboard asks for is there, too.
    let dashboard = include_str!("../docs/grafana.json");
    for words in dashboard.split("quorlock_").skip(1) {
        let end = words.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap();
        let name = format!("quorlock_{}", words[..end].trim_end_matches("_bucket"));
        assert!(documented.contains(&format!("`{name}`")), "{name} is in the dashboard alone");
    }

    // A client that has gone away sees no node.
    drop(redlock);
    exporter.is(r#"quorlock_quorum{fleet="default"}"#, 0.0);
    eventually("nothing is shown", SOON, || exporter.node(&addresses[3], "ready") == Some(0.0));

    // A recorder that panics, whatever is recorded.
    panics.store(true, Ordering::Relaxed);
    let cluster = Cluster::start(3);
    let builder = Redlock::builder().nodes(cluster.urls()).node_timeout(SECOND);
    let redlock = connected(builder.ttl(600 * MS).danger_skip_quarantine());
    let lease = redlock.acquire(RESOURCE).blocking().unwrap();
    assert!(redlock.try_acquire(RESOURCE).blocking().unwrap_err().is_contended());
    let since = std::time::Instant::now();
    eventually("it is renewed", SOON, || since.elapsed() > SECOND);
    lease.check().unwrap();
    lease.blocking_release().unwrap();
    // A quorum has confirmed it. If the third were killed before it has, `close` would wait for that.
    eventually("it is released everywhere", SOON, || cluster.locks_left().is_empty());
    cluster[0].kill();
    eventually("it is seen", SOON, || matches!(redlock.nodes()[0].state, NodeState::Down { .. }));
    redlock.acquire(RESOURCE).blocking().unwrap().blocking_release().unwrap();
    redlock.blocking_close().unwrap();
}

//! Goal: of each kind of lease the log and the metrics say what there was: which resource, slot or set, once for each lease.
//!
//! Method: virtual time, in which the whole engine runs on the thread of the test, and so has its subscriber and its recorder.

use std::{
    future::IntoFuture,
    io,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusBuilder;
use quorlock::protocol::LossReason;
use quorlock_harness::every_thread_hears_for_itself;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{Fixture, MS, SECOND};

const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What was told of leases.
struct Told {
    /// The message of each event, and its resource.
    events: Vec<String>,
    /// What was counted, without what is zero, and the resources, of which there are none.
    counted: Vec<String>,
}

/// The number of leases that are held, as the metrics have it.
type HeldNow<'a> = &'a dyn Fn() -> f64;

/// The counters of leases.
const COUNTERS: [&str; 7] =
    ["acquires", "rounds", "renewals", "leases_lost", "releases", "terms", "leaders_wedged"];

fn told(of: impl FnOnce(&Fixture, HeldNow<'_>)) -> Told {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(log.clone())
        .finish();
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let held = || {
        let text = metrics.render();
        let value = text.lines().find_map(|line| line.strip_prefix("quorlock_leases_held "));
        value.map_or(0.0, |value| value.parse().unwrap())
    };
    every_thread_hears_for_itself();
    metrics::with_local_recorder(&recorder, || {
        tracing::subscriber::with_default(subscriber, || {
            let world = Fixture::new(TTL);
            of(&world, &held);
            world.pass(100 * MS);
            assert_eq!(held(), 0.0, "all of them are over");
        });
    });
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let event = |line: &str| {
        let (said, fields) = line.split_once("quorlock: ")?.1.split_once(" resource=")?;
        let end = fields.find(" owner=").or_else(|| fields.find(" outcome="))?;
        Some(format!("{said}: {}", &fields[..end]))
    };
    let events = text.lines().filter_map(event).collect();
    let text = metrics.render();
    assert!(!text.contains("secret"), "resources are no labels");
    let count = |line: &str| {
        let (series, value) = line.strip_prefix("quorlock_")?.split_once(' ')?;
        let (name, label) = series.split_once("_total")?;
        let label = label.split('"').nth(1).unwrap_or("all");
        let counts = COUNTERS.contains(&name) && value != "0";
        counts.then(|| format!("{name} {label} {value}"))
    };
    let mut counted: Vec<String> = text.lines().filter_map(count).collect();
    counted.sort();
    Told { events, counted }
}

/// What comes of it, in virtual time.
fn now<F: IntoFuture>(world: &Fixture, future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
        world.pass(MS);
    }
}

#[track_caller]
fn are(told: &Told, events: &[&str], counted: &[&str]) {
    assert_eq!(told.events, events);
    assert_eq!(told.counted, counted);
}

#[test]
fn a_set_is_one_lease_and_is_named_whole() {
    let told = told(|world, held| {
        let set = world.request(world.redlock.acquire_all(["secret:b", "secret:a"]));
        world.pass(TTL);
        assert_eq!(held(), 1.0);
        let other = world.other_process(|it| it);
        now(world, other.try_acquire_all(["secret:b", "secret:c"])).unwrap_err();
        drop(set);
    });
    are(
        &told,
        &[
            "acquired: secret:a, secret:b",
            "not acquired: secret:b, secret:c",
            "released: secret:a, secret:b",
        ],
        &[
            "acquires acquired 1",
            "acquires contended 1",
            "releases confirmed 1",
            "renewals extended 3",
            "rounds contended 1",
            "rounds won 1",
        ],
    );
}

/// A request without a slot has asked for any of them.
#[test]
fn a_permit_is_a_lease_on_its_slot() {
    let told = told(|world, held| {
        let semaphore = world.redlock.semaphore("secret", 1).unwrap();
        let permit = now(world, semaphore.acquire()).unwrap();
        assert_eq!(held(), 1.0);
        now(world, semaphore.try_acquire()).unwrap_err();
        world.pass(TTL);
        world.nodes[..2].iter().for_each(|node| node.delete("secret/0"));
        world.pass(TTL);
        assert_eq!(permit.check().unwrap_err().reason, LossReason::Gone);
        assert_eq!(held(), 0.0);
    });
    are(
        &told,
        &[
            "acquired: secret/0",
            "not acquired: secret/*",
            "lease lost: secret/0",
            "released: secret/0",
        ],
        &[
            "acquires acquired 1",
            "acquires contended 1",
            "leases_lost gone 1",
            "releases already_ended 1",
            "renewals extended 3",
            "renewals lost 1",
            "rounds contended 1",
            "rounds won 1",
        ],
    );
}

/// Clones of one are one.
#[test]
fn each_reader_is_a_lease() {
    let told = told(|world, held| {
        let read = || now(world, world.redlock.read("secret")).unwrap();
        let (one, other) = (read(), read());
        let clone = one.clone();
        assert_eq!(held(), 2.0);
        drop(one);
        world.pass(TTL);
        assert_eq!(held(), 2.0);
        drop(clone);
        now(world, other.release()).unwrap();
    });
    are(
        &told,
        &["acquired: secret", "acquired: secret", "released: secret", "released: secret"],
        &["acquires acquired 2", "releases confirmed 2", "renewals extended 6", "rounds won 2"],
    );
}

/// The extension by which the nodes follow is counted as any other.
#[test]
fn a_writer_that_reads_on_has_one_lease_and_ends_it_once() {
    let told = told(|world, held| {
        let lease = world.request(world.redlock.write("secret"));
        let reads = lease.downgrade().unwrap();
        assert_eq!(held(), 1.0);
        world.pass(TTL);
        assert_eq!(held(), 1.0);
        drop(reads);
    });
    are(
        &told,
        &["acquired: secret", "downgraded: secret", "released: secret"],
        &["acquires acquired 1", "releases confirmed 1", "renewals extended 4", "rounds won 1"],
    );
}

#[test]
fn the_loss_of_one_that_reads_on_is_told_once() {
    let told = told(|world, held| {
        let lease = world.request(world.redlock.write("secret"));
        let signal = lease.signal();
        let reads = lease.downgrade().unwrap();
        assert_eq!(signal.check().unwrap_err().reason, LossReason::Released);
        world.pass(100 * MS);
        world.nodes[..2].iter().for_each(|node| node.delete("secret"));
        world.pass(TTL);
        assert_eq!(reads.check().unwrap_err().reason, LossReason::Gone);
        assert_eq!(held(), 0.0);
    });
    are(
        &told,
        &["acquired: secret", "downgraded: secret", "lease lost: secret", "released: secret"],
        &[
            "acquires acquired 1",
            "leases_lost gone 1",
            "releases already_ended 1",
            "renewals extended 1",
            "renewals lost 1",
            "rounds won 1",
        ],
    );
}

#[test]
fn a_leader_is_a_lease_that_was_elected() {
    let told = told(|world, held| {
        let election = world.redlock.election("secret");
        let leads = now(world, election.campaign()).unwrap();
        assert_eq!(held(), 1.0);
        now(world, leads.resign()).unwrap();
    });
    are(
        &told,
        &["acquired: secret", "elected: secret", "released: secret"],
        &["acquires acquired 1", "releases confirmed 1", "rounds won 1", "terms all 1"],
    );
}

#[test]
fn keys_that_are_left_for_a_lock_delay_are_no_release() {
    let told = told(|world, held| {
        let request = world.redlock.acquire("secret").ttl(SECOND).lock_delay(2 * SECOND);
        let lease = world.request(request.without_renewal());
        world.pass(SECOND);
        assert_eq!(held(), 0.0);
        drop(lease);
    });
    are(
        &told,
        &[
            "acquired: secret",
            "lease ends soon: secret",
            "lease lost: secret",
            "left for the lock-delay: secret",
        ],
        &["acquires acquired 1", "leases_lost not_renewed 1", "releases left 1", "rounds won 1"],
    );
}

/// It is told once, and not of work that ends within the moment that the log allows for.
#[test]
fn of_an_election_work_that_goes_on_behind_its_term_is_told() {
    for goes_on in [false, true] {
        let told = told(|world, held| {
            let leads = now(world, world.redlock.election("secret").campaign()).unwrap();
            world.nodes[..2].iter().for_each(|node| node.delete("secret"));
            while leads.check().is_ok() {
                world.pass(10 * MS);
            }
            assert_eq!(held(), 0.0);
            if goes_on {
                world.pass(SECOND);
            }
            drop(leads);
            world.pass(SECOND);
        });
        let wedged = "the work of the leader goes on though its lease is over: secret";
        let events = told.events.iter().filter(|event| *event == wedged).count();
        assert_eq!(events, usize::from(goes_on));
        assert_eq!(told.counted.contains(&"leaders_wedged all 1".to_owned()), goes_on);
        assert!(told.events.contains(&"lease lost: secret".to_owned()), "{:?}", told.events);
    }
}

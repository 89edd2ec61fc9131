//! The timers of the leases behind a whole engine, on nodes in memory.

use std::time::Duration;

use futures::executor::block_on;

use super::*;
use crate::{
    config::Config,
    engine::{AcquireSpec, client::Kept},
    lease::Lease,
    node::{MemoryNode, Node},
    protocol::{
        Cohort, Drift, Footprint, Leases, Lifecycle, Members, NewGrant, Owner, RenewalPolicy,
        Resource, WaitPolicy,
    },
    runtime::TokioRuntime,
    telemetry::Caller,
};

const TTL: Duration = Duration::from_secs(3600);

fn engine() -> Arc<Engine> {
    let nodes = (0..3).map(|_| Arc::new(MemoryNode::new()) as Arc<dyn Node>).collect();
    let config = Config { ttl: TTL, max_ttl: TTL, ..Config::default() };
    let members = Members::new("test", ["a"]);
    let runtime = Arc::new(TokioRuntime::dedicated().unwrap());
    let engine = Engine::start(config, nodes, members, runtime);
    let deadline = engine.now().saturating_add(Duration::from_secs(10));
    block_on(engine.tried(deadline));
    engine
}

fn acquire(engine: &Arc<Engine>, resource: &str) -> Lease {
    let asked = AcquireSpec {
        target: Resource::new(resource.as_bytes()).unwrap().into(),
        ttl: TTL,
        min_validity: Duration::ZERO,
        wait_policy: WaitPolicy::For(Duration::from_secs(10)),
        through_outages: false,
        renewal: RenewalPolicy::default(),
        caller: Caller::default(),
        hold_at_least: None,
        linger: Duration::ZERO,
        lock_delay: Duration::ZERO,
        alone: false,
    };
    Lease::new(block_on(engine.acquire(asked)).unwrap())
}

#[test]
fn a_lease_that_was_let_go_leaves_nothing_in_the_queue() {
    let engine = engine();
    let kept = acquire(&engine, "kept");
    for n in 0..500 {
        let lease = acquire(&engine, &format!("r{n}"));
        assert_eq!(engine.client.lock().timers(), 2);
        drop(lease);
        assert_eq!(engine.client.lock().timers(), 1, "after {n} leases");
    }
    for _ in 0..50 {
        block_on(kept.extend()).unwrap();
        assert_eq!(
            engine.client.lock().timers(),
            1,
            "it has one entry, however often its time changes"
        );
    }
    block_on(kept.release()).unwrap();
    assert_eq!(engine.client.lock().timers(), 0);
}

/// A task that ends at the wrong moment must not be taken for one that still looks after the leases: nobody would.
#[test]
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "a thread that is none of the runtime's")]
fn whoever_ends_while_another_thread_has_the_timers_leaves_them_to_the_next() {
    let engine = engine();
    let hour = engine.now().saturating_add(TTL);
    let look = |at| {
        let mut client = engine.client.lock();
        let renewal = RenewalPolicy { renew: false, ..RenewalPolicy::default() };
        let lifecycle = Lifecycle::new(Timestamp::ORIGIN, at, TTL, Drift::default(), renewal);
        let (cohort, token) = Cohort::begin(None, Timestamp::ORIGIN);
        let asked = (Duration::ZERO, Duration::ZERO, false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let footprint = client.add_footprint(Footprint::new(3));
        let kept = Kept {
            grant: Weak::new(),
            kept: None,
            owner: Owner::from_random([1; 16]),
            caller: Caller::default(),
            report: None,
            note: None,
            doubt: None,
            hurries: None,
        };
        let id = client.begin(NewGrant { leases, footprint, station: None, data: kept });
        client.schedule(id)
    };
    // Nobody is started, and so nobody disturbs.
    assert_eq!(look(hour), Wakeup::Start);
    assert_eq!(look(hour), Wakeup::Silent);
    let shift = Shift { engine: Arc::downgrade(&engine), is_second: true, ended: false };
    let timers = engine.client.lock();
    let (dropped, is_dropped) = std::sync::mpsc::channel();
    let ends = std::thread::spawn(move || {
        dropped.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        drop(shift);
        dropped.send("it has given up".into()).unwrap();
    });
    let thread = std::path::Path::new("/proc").join(is_dropped.recv().unwrap());
    // It waits for the lock, and for nothing else. One that gives up says so instead.
    let waits = || {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    };
    while !waits() {
        assert_eq!(is_dropped.try_recv().ok(), None);
        std::thread::yield_now();
    }
    assert_eq!(is_dropped.try_recv().ok(), None);
    drop(timers);
    ends.join().unwrap();
    assert_eq!(look(hour), Wakeup::Start);
}

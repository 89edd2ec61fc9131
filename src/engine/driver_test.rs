//! The lease timers of a whole engine, on nodes in memory.

use std::time::Duration;

use futures::executor::block_on;

use super::*;
use crate::{
    config::Config,
    engine::AcquireSpec,
    engine::shift::Shift,
    lease::Lease,
    node::{MemoryNode, Node},
    protocol::{Members, Quorum, RenewalPolicy, Resource, RoundAsked, WaitPolicy},
    runtime::TokioRuntime,
    telemetry::Caller,
};

const TTL: Duration = Duration::from_secs(3600);

fn engine() -> Arc<Engine> {
    let nodes = (0..3).map(|_| Arc::new(MemoryNode::new()) as Arc<dyn Node>).collect();
    let config = Config { ttl: TTL, max_ttl: TTL, ..Config::default() };
    let members = Members::new("test", ["a"]);
    let runtime = Arc::new(TokioRuntime::dedicated().unwrap());
    let engine = Engine::start(config, nodes, (members, Quorum::of(1)), runtime);
    let deadline = engine.now().saturating_add(Duration::from_secs(10));
    block_on(engine.tried(deadline));
    engine
}

fn acquire(engine: &Arc<Engine>, resource: &str) -> Lease {
    let asked = AcquireSpec {
        round: RoundAsked {
            from: None,
            target: Resource::new(resource.as_bytes()).unwrap().into(),
            ttl: TTL,
            min_validity: Duration::ZERO,
            lock_delay: Duration::ZERO,
            renewal: RenewalPolicy::default(),
            hold_at_least: None,
            linger: Duration::ZERO,
            alone: false,
        },
        wait_policy: WaitPolicy::For(Duration::from_secs(10)),
        through_outages: false,
        caller: Caller::default(),
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

/// A task that ends at the wrong moment must not count as still running: no task would look after the leases.
#[test]
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "a thread that is none of the runtime's")]
fn whoever_ends_while_another_thread_has_the_timers_leaves_them_to_the_next() {
    let engine = engine();
    let look = || engine.client.lock().look();
    // No task is started, so none disturbs.
    assert_eq!(look(), Wakeup::Start);
    assert_eq!(look(), Wakeup::Silent);
    let shift = Shift {
        engine: Arc::downgrade(&engine),
        driver: Arc::clone(&engine.driver),
        process: engine.process,
        is_second: true,
        ended: false,
    };
    let timers = engine.client.lock();
    let (dropped, is_dropped) = std::sync::mpsc::channel();
    let ends = std::thread::spawn(move || {
        dropped.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        drop(shift);
        dropped.send("it has given up".into()).unwrap();
    });
    let thread = std::path::Path::new("/proc").join(is_dropped.recv().unwrap());
    // The thread waits for the lock, and for nothing else. If it gives up, it says so instead.
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
    assert_eq!(look(), Wakeup::Start);
}

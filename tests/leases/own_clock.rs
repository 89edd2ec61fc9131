//! Goal: the clock of the user's runtime may look at the locks that it serves.
//!
//! Method: a runtime that looks at the nodes and at a lease whenever it is asked for a time or for random bytes, on the thread that
//! asks. Where that has a lock, it hangs.

use std::{
    future::IntoFuture,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorlock::{LeaseSignal, Redlock};
use quorlock_harness::Asking;

use crate::{
    fixture::{Fixture, MS, Machine, SECOND, watched},
    line::{got, waiter},
};

/// What the runtime looks at.
#[derive(Default)]
struct Looks {
    redlock: OnceLock<Redlock>,
    signal: Mutex<Option<LeaseSignal>>,
    count: AtomicUsize,
}

impl Looks {
    fn look(&self) {
        let Some(redlock) = self.redlock.get() else { return };
        assert_eq!(redlock.nodes().len(), 3);
        let signal = self.signal.lock().unwrap().clone();
        drop(signal.map(|signal| signal.check()));
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_clock_may_look_at_its_redlock_whenever_it_is_asked() {
    watched(|| {
        let machine = Machine::new();
        let curious = Arc::new(Looks::default());
        let looks = Arc::clone(&curious);
        let runtime = Arc::new(Asking::new(machine.clone(), move || looks.look()));
        let linger = Duration::from_secs(2);
        let world = Fixture::on(machine, 10 * SECOND, |it| it.runtime(runtime).linger(linger));
        world.keep_lines();
        curious.redlock.set(world.redlock.clone()).unwrap();
        let lease = world.acquire("r");
        *curious.signal.lock().unwrap() = Some(lease.signal());
        world.pass(5 * SECOND);
        // Nodes that go and come back are probed, and those that are in quarantine are told of.
        for node in &world.nodes {
            node.restart();
            world.pass(SECOND);
            node.disconnect();
            world.pass(SECOND);
            node.reconnect();
        }
        world.pass(60 * SECOND);
        let lease = if lease.check().is_ok() { lease } else { world.acquire("r") };
        *curious.signal.lock().unwrap() = Some(lease.signal());
        let mut next = waiter(&world, 60 * SECOND);
        world.pass(10 * MS);
        drop(lease);
        drop(got(&mut next).unwrap());
        world.pass(SECOND);
        let reads = world.redlock.read("r").into_future();
        drop(world.machine.sim.block_on(reads).unwrap());
        let (redlock, waits) = (world.redlock.clone(), world.redlock.clone());
        let _ = world.machine.sim.block_on(waits.try_acquire("other").into_future());
        world.machine.sim.block_on(async move { redlock.shutdown().await }).unwrap();
        assert!(curious.count.load(Ordering::Relaxed) > 1_000);
    });
}

//! Goal: the clock of the user's runtime may look at the locks that it serves.
//!
//! Method: a runtime that looks at the nodes and at a lease whenever it is asked for a time or for random bytes, on the thread that
//! asks. Where that has a lock, it hangs.

use std::{
    cell::Cell,
    fmt,
    future::IntoFuture,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use quorlock::{
    LeaseSignal, Redlock,
    protocol::Timestamp,
    runtime::{Runtime, Task},
};

use crate::{
    fixture::{Fixture, MS, Machine, SECOND, watched},
    line::{got, waiter},
};

/// The simulation's runtime, with what it looks at.
#[derive(Clone)]
struct Curious {
    machine: Machine,
    redlock: Arc<OnceLock<Redlock>>,
    signal: Arc<Mutex<Option<LeaseSignal>>>,
    looks: Arc<Mutex<usize>>,
}

thread_local! {
    /// It asks for the time itself.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

impl Curious {
    fn look(&self) {
        let Some(redlock) = self.redlock.get() else { return };
        if LOOKS.replace(true) {
            return;
        }
        assert_eq!(redlock.nodes().len(), 3);
        let signal = self.signal.lock().unwrap().clone();
        drop(signal.map(|signal| signal.check()));
        *self.looks.lock().unwrap() += 1;
        LOOKS.set(false);
    }
}

impl Runtime for Curious {
    fn now(&self) -> Timestamp {
        self.look();
        self.machine.now()
    }

    fn steady(&self) -> Timestamp {
        self.look();
        self.machine.steady()
    }

    fn wall_us(&self) -> u64 {
        self.look();
        self.machine.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.look();
        self.machine.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.look();
        self.machine.spawn(task);
    }

    fn serves(&self) -> bool {
        self.look();
        true
    }

    fn random(&self) -> [u8; 16] {
        self.look();
        self.machine.random()
    }
}

impl fmt::Debug for Curious {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Curious").finish_non_exhaustive()
    }
}

#[test]
fn a_clock_may_look_at_its_redlock_whenever_it_is_asked() {
    watched(|| {
        let machine = Machine::new();
        let curious = Curious {
            machine: machine.clone(),
            redlock: Arc::default(),
            signal: Arc::default(),
            looks: Arc::default(),
        };
        let runtime = Arc::new(curious.clone());
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
        assert!(*curious.looks.lock().unwrap() > 1_000);
    });
}

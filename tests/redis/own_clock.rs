//! A user's clock that looks at the nodes whenever it is asked, on the thread that asks. Where that has a lock, it hangs.

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use quorlock::{
    Redlock,
    protocol::Timestamp,
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::{Cluster, all_ready, eventually};

use super::{MS, SOON, patient};

#[derive(Debug)]
struct Curious {
    inner: TokioRuntime,
    redlock: Arc<OnceLock<Redlock>>,
    looks: Arc<AtomicUsize>,
}

thread_local! {
    /// It asks for the time itself.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

impl Curious {
    fn look(&self) {
        let Some(redlock) = self.redlock.get() else { return };
        if !LOOKS.replace(true) {
            assert_eq!(redlock.nodes().len(), 3);
            self.looks.fetch_add(1, Ordering::Relaxed);
            LOOKS.set(false);
        }
    }
}

impl Runtime for Curious {
    fn now(&self) -> Timestamp {
        self.look();
        self.inner.now()
    }

    fn steady(&self) -> Timestamp {
        self.look();
        self.inner.steady()
    }

    fn wall_us(&self) -> u64 {
        self.look();
        self.inner.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.look();
        self.inner.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.look();
        self.inner.spawn(task);
    }

    fn random(&self) -> [u8; 16] {
        self.look();
        self.inner.random()
    }
}

#[test]
fn a_clock_may_look_at_the_nodes_whenever_it_is_asked() {
    let cluster = Cluster::start(3);
    let (known, looks) = (Arc::<OnceLock<Redlock>>::default(), Arc::<AtomicUsize>::default());
    let inner = TokioRuntime::dedicated().unwrap();
    let curious = Curious { inner, redlock: Arc::clone(&known), looks: Arc::clone(&looks) };
    let settings = patient().nodes(cluster.urls()).runtime(Arc::new(curious));
    let redlock = settings.blocking_connect().unwrap();
    known.set(redlock.clone()).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        for server in cluster.iter() {
            let lease = redlock.acquire("r").wait(SOON).blocking().unwrap();
            server.pause();
            redlock.acquire("other").wait(SOON).blocking().unwrap().blocking_release().unwrap();
            server.resume();
            server.restart();
            lease.check().unwrap();
            all_ready(&redlock);
            lease.blocking_release().unwrap();
        }
        eventually("looks", 100 * MS * 600, || looks.load(Ordering::Relaxed) > 1_000);
        done.send(()).unwrap();
    });
    match ended.recv_timeout(2 * SOON) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

//! A user's clock that looks at the nodes whenever it is asked, on the thread that asks. Where that has a lock, it hangs.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use quorlock::{Redlock, runtime::TokioRuntime};
use quorlock_harness::{Asking, Cluster, all_ready, eventually};

use super::{SOON, patient};

#[test]
fn a_clock_may_look_at_the_nodes_whenever_it_is_asked() {
    let cluster = Cluster::start(3);
    let (known, looks) = (Arc::<OnceLock<Redlock>>::default(), Arc::<AtomicUsize>::default());
    let (looked_at, counted) = (Arc::clone(&known), Arc::clone(&looks));
    let curious = Asking::new(TokioRuntime::dedicated().unwrap(), move || {
        if let Some(redlock) = looked_at.get() {
            assert_eq!(redlock.nodes().len(), 3);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let settings = patient().nodes(cluster.urls()).runtime(Arc::new(curious));
    let redlock = settings.blocking_connect().unwrap();
    known.set(redlock.clone()).unwrap();
    let (done, ended) = mpsc::channel();
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
        eventually("it is asked often", SOON, || looks.load(Ordering::Relaxed) > 1_000);
        done.send(()).unwrap();
    });
    match ended.recv_timeout(2 * SOON) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

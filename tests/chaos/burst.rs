//! Thousands of acquires at once beside leases that are held: none of these is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{AcquireError, Lease};
use quorlock_harness::{Cluster, all_ready};

use super::{Defer, SECOND, run_time, settings};

const HELD: usize = 50;
const BURST: usize = 5_000;
/// Long beside a burst, short beside a run: every lease is renewed in the middle of one.
const TTL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Figures {
    bursts: AtomicUsize,
    granted: AtomicUsize,
    contended: AtomicUsize,
    failed: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_acquires_cost_no_lease_that_is_held() {
    let cluster = Cluster::start(5);
    let builder = settings().nodes(cluster.urls()).ttl(TTL).max_ttl(TTL).danger_skip_quarantine();
    let redlock = builder.connect().await.unwrap();
    all_ready(&redlock);
    let mut held = Vec::new();
    for n in 0..HELD {
        held.push(redlock.acquire(format!("held:{n}")).await.unwrap());
    }
    let held: Arc<[Lease]> = held.into();
    let over = Arc::<AtomicBool>::default();
    let looker = {
        let (held, over) = (Arc::clone(&held), Arc::clone(&over));
        std::thread::spawn(move || look(&held, &over))
    };
    let figures = Arc::new(Figures::default());
    let (time, began) = (run_time(5), Instant::now());
    {
        let _over = Defer(&over);
        while began.elapsed() < time {
            let acquire = |n: usize| {
                let (redlock, figures) = (redlock.clone(), Arc::clone(&figures));
                // Some of them want the same.
                let name = format!("burst:{}", n % (BURST * 9 / 10));
                tokio::spawn(async move {
                    let outcome = redlock.acquire(name).wait(10 * SECOND).await;
                    let counter = match outcome {
                        Ok(lease) => {
                            drop(lease);
                            &figures.granted
                        }
                        Err(AcquireError::Contended { .. }) => &figures.contended,
                        Err(_) => &figures.failed,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                })
            };
            let tasks: Vec<_> = (0..BURST).map(acquire).collect();
            for task in tasks {
                task.await.unwrap();
            }
            figures.bursts.fetch_add(1, Ordering::Relaxed);
        }
    }
    let lost = looker.join().unwrap();
    println!(
        "{figures:?} in {:?}; {} of {HELD} held leases lost: {:?}",
        began.elapsed(),
        lost.len(),
        lost.first()
    );
    assert_eq!(lost.len(), 0, "of {HELD} held leases, the first: {:?}", lost.first());
    // The nodes had work to do.
    assert!(figures.granted.load(Ordering::Relaxed) >= BURST / 10, "{figures:?}");
}

/// Looks at every lease all the time, and says which were lost, after how long and why.
fn look(held: &[Lease], over: &AtomicBool) -> Vec<String> {
    let (began, mut lost) = (Instant::now(), vec![None; held.len()]);
    while !over.load(Ordering::Relaxed) {
        for (lease, lost) in held.iter().zip(&mut lost) {
            if let (None, Err(error)) = (&lost, lease.check()) {
                *lost = Some(format!("{} after {:?}: {error}", lease.resource(), began.elapsed()));
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    lost.into_iter().flatten().collect()
}

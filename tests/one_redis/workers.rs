//! Workers that take turns under one lock, and write down from when until when each had it.
//!
//! A lease counts from when its worker had it to the last instant at which its `check()` was well. So every instant that
//! is written down was within a lease that held, and two that overlap are two holders at once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{Lease, Redlock};
use tokio::task::JoinHandle;

use super::{MS, SOON, token};

/// One lease, as its holder saw it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The worker that a failure names.
    #[allow(dead_code, reason = "read by Debug")]
    worker: usize,
    pub(super) token: u64,
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// Looks at a lease until it is over, or for `long`.
pub(super) async fn hold(worker: usize, lease: &Lease, long: Duration) -> Held {
    let from = Instant::now();
    let mut held = Held { worker, token: token(lease), from, until: from };
    while from.elapsed() < long {
        let at = Instant::now();
        if lease.check().is_err() {
            break;
        }
        held.until = at;
        tokio::time::sleep(MS).await;
    }
    held
}

/// Tasks that acquire one resource again and again.
pub(super) struct Workers {
    stop: Arc<AtomicBool>,
    held: Arc<Mutex<Vec<Held>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Workers {
    /// One worker for each client.
    pub(super) fn start(clients: &[Redlock], resource: &'static str) -> Self {
        let (stop, held) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<Held>>>::default());
        let work = |(worker, redlock): (usize, &Redlock)| {
            let (stop, held, redlock) = (Arc::clone(&stop), Arc::clone(&held), redlock.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    // Too few nodes, or a quarantine: it is asked for again.
                    let Ok(lease) = redlock.acquire(resource).wait(SOON).await else {
                        tokio::time::sleep(10 * MS).await;
                        continue;
                    };
                    let had = hold(worker, &lease, 10 * MS).await;
                    held.lock().unwrap().push(had);
                    let _ = lease.release().await;
                }
            })
        };
        let tasks = clients.iter().enumerate().map(work).collect();
        Self { stop, held, tasks }
    }

    /// How many leases there were.
    pub(super) fn grants(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Ends the work, and says what there was, in the order in which it began.
    pub(super) async fn end(self) -> Vec<Held> {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        let mut held = std::mem::take(&mut *self.held.lock().unwrap());
        held.sort_by_key(|held| held.from);
        held
    }
}

/// No two of these held at once, and each has a larger token than those before it.
#[track_caller]
pub(super) fn one_at_a_time(held: &[Held]) {
    for pair in held.windows(2) {
        assert!(pair[0].until < pair[1].from, "two holders at once: {pair:#?}");
        assert!(pair[0].token < pair[1].token, "a token that does not rise: {pair:#?}");
    }
}

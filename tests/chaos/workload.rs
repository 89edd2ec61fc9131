//! Workers that take one lock over and over, in every way in which a lease can end, and write down when
//! they may have acted.
//!
//! It judges nothing. A worker never records more than what it was promised: the end is the earlier of
//! the moment before its release and the end of the validity.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use quorlock::{AcquireError, Lease, Redlock, protocol::FencingToken};

use super::{MS, RESOURCE, SECOND, checker::Held};

/// Workers at work.
pub(crate) struct Workload {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    began: Instant,
    /// Of every lease.
    ttl: Duration,
    stop: AtomicBool,
    history: Mutex<Vec<Held>>,
    granted: AtomicUsize,
    contended: AtomicUsize,
    broken: AtomicUsize,
    late: AtomicUsize,
    unconfirmed: AtomicUsize,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) history: Vec<Held>,
    contended: usize,
    broken: usize,
    late: usize,
    unconfirmed: usize,
}

impl Workload {
    /// Starts `workers` threads; the i-th uses the (i modulo n)-th of the n clients.
    pub(crate) fn start(clients: &[Redlock], workers: usize, ttl: Duration) -> Self {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            ttl,
            stop: AtomicBool::new(false),
            history: Mutex::default(),
            granted: AtomicUsize::new(0),
            contended: AtomicUsize::new(0),
            broken: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            unconfirmed: AtomicUsize::new(0),
        });
        let spawn = |worker: usize| {
            let client = clients[worker % clients.len()].clone();
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work(worker, &client))
        };
        let workers = (0..workers).map(spawn).collect();
        Self { shared, workers }
    }

    /// The leases granted so far.
    pub(crate) fn granted(&self) -> usize {
        self.shared.granted.load(Ordering::Relaxed)
    }

    /// The leases that have ended so far.
    pub(crate) fn history(&self) -> Vec<Held> {
        self.shared.history.lock().unwrap().clone()
    }

    /// Ends the work and returns what was recorded.
    pub(crate) fn stop(self) -> Outcome {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.workers.into_iter().for_each(|worker| worker.join().expect("a worker panicked"));
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Outcome {
            history: std::mem::take(&mut self.shared.history.lock().unwrap()),
            contended: count(&self.shared.contended),
            broken: count(&self.shared.broken),
            late: count(&self.shared.late),
            unconfirmed: count(&self.shared.unconfirmed),
        }
    }
}

impl Shared {
    fn work(&self, worker: usize, client: &Redlock) {
        while !self.stop.load(Ordering::Relaxed) {
            let asked = self.began.elapsed();
            // Half of the leases are renewed, where they are held for that long.
            let request = client.acquire(RESOURCE).wait(2 * SECOND);
            let request = if rand::random() {
                request.without_renewal()
            } else {
                request.max_hold(2 * self.ttl)
            };
            match request.blocking() {
                Ok(lease) => self.hold(worker, asked, lease),
                Err(AcquireError::Contended { .. }) => add(&self.contended),
                Err(AcquireError::NoQuorum { .. }) => add(&self.broken),
                Err(AcquireError::TooLate { .. }) => add(&self.late),
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Holds a lease for a while and ends it in one of several ways.
    fn hold(&self, worker: usize, asked: Duration, lease: Lease) {
        let start = self.began.elapsed();
        // Read after the start, so that the sum never lies beyond the true end.
        let mut until = start + lease.validity();
        add(&self.granted);
        let owner = lease.owner().to_string();
        let token = lease.fencing_token().map(FencingToken::get);
        let dice = rand::random::<u8>();
        let pause = match dice {
            // Now and then it outlives its ttl, as a holder that hangs would, or one that is renewed.
            0..4 => self.ttl + 50 * MS,
            4..32 => 30 * MS,
            _ => 2 * MS,
        };
        let pause = pause.mul_f64(f64::from(rand::random::<u8>()).mul_add(0.25 / 255.0, 0.75));
        let work_ends = self.began.elapsed() + pause;
        loop {
            let now = self.began.elapsed();
            if now >= work_ends {
                break;
            }
            // What is held is what was promised at the latest look, whatever happens to the renewals.
            std::thread::sleep((work_ends - now).min(20 * MS));
            let now = self.began.elapsed();
            match lease.check() {
                Ok(validity) => until = until.max(now + validity),
                Err(_) => break,
            }
        }
        let end = self.began.elapsed().min(until);
        match dice % 4 {
            0 => drop(lease),
            1 => drop(lease.release()),
            _ if lease.release_blocking().is_err() => add(&self.unconfirmed),
            _ => {}
        }
        self.history.lock().unwrap().push(Held { owner, worker, token, asked, start, end });
    }
}

fn add(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Outcome {
    /// How many workers got the lock at all.
    pub(crate) fn workers_served(&self) -> usize {
        let workers: std::collections::BTreeSet<_> =
            self.history.iter().map(|h| h.worker).collect();
        workers.len()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Duration = self.history.iter().map(|h| h.end.saturating_sub(h.start)).sum();
        write!(
            f,
            "{} leases of {} workers, held for {held:?} in all; contended {}, no quorum {}, too late {}, \
             release not confirmed {}",
            self.history.len(),
            self.workers_served(),
            self.contended,
            self.broken,
            self.late,
            self.unconfirmed,
        )
    }
}

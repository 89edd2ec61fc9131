//! Goal: what many threads do at the same moment keeps the promises: a shutdown waits for every release, and handles that share
//! their leases let nobody else in.
//!
//! Method: real threads; nodes in memory. Between two looks of a shutdown a lease may pass from one count to another, and between
//! two looks of a request its handle may win or lose its lease: with one thread, as in virtual time, nothing comes in between.

use std::{
    future::IntoFuture,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use quorlock::{FencingToken, LeaseSignal, Redlock, Reentrant, ReentrantLease, node::MemoryNode};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    fixture::{MS, SECOND},
    line::poll,
};

const FOR: Duration = Duration::from_secs(4);
const TTL: Duration = Duration::from_secs(60);
const KINDS: usize = 4;

/// Works under a lease of this kind until it is told, and then a little longer.
fn works(redlock: &Redlock, kind: usize, name: &str, begun: &mpsc::Sender<()>, more: Duration) {
    let until_told = |lost: &dyn Fn()| {
        begun.send(()).unwrap();
        lost();
        thread::sleep(more);
    };
    match kind {
        0 => {
            let work = |lease: &quorlock::Lease| until_told(&|| drop(lease.blocking_lost()));
            redlock.acquire(name).blocking_run(work).unwrap().lost.unwrap();
        }
        1 => {
            let work = |lease: &quorlock::ReadLease| until_told(&|| drop(lease.blocking_lost()));
            redlock.read(name).blocking_run(work).unwrap().lost.unwrap();
        }
        2 => {
            let work = |lease: &quorlock::Permit| until_told(&|| drop(lease.blocking_lost()));
            let semaphore = redlock.semaphore(name, 2).unwrap();
            semaphore.acquire().blocking_run(work).unwrap().lost.unwrap();
        }
        _ => {
            let work = |lease: &ReentrantLease| until_told(&|| drop(lease.blocking_lost()));
            let worker = redlock.reentrant();
            let _outer = worker.acquire(name).blocking().unwrap();
            worker.acquire(name).blocking_run(work).unwrap().lost.unwrap();
        }
    }
}

#[test]
fn a_shutdown_waits_for_the_release_of_the_last_work() {
    const LEASES: usize = 8;
    let until = Instant::now() + FOR;
    let mut round = 0_usize;
    while Instant::now() < until {
        round += 1;
        let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
        let builder = Redlock::builder().nodes(&nodes).danger_skip_quarantine();
        let redlock = builder.close_timeout(60 * SECOND).blocking_connect().unwrap();
        let (begun, has_begun) = mpsc::channel();
        let workers: Vec<_> = (0..LEASES)
            .map(|number| {
                let (redlock, begun) = (redlock.clone(), begun.clone());
                let more = Duration::from_micros((round * 37 + number * 53) as u64 % 300);
                let kind = if round.is_multiple_of(2) { 0 } else { number % KINDS };
                thread::spawn(move || {
                    works(&redlock, kind, &format!("r{number}"), &begun, more);
                })
            })
            .collect();
        (0..LEASES).for_each(|_| has_begun.recv().unwrap());
        let done = redlock.blocking_shutdown();
        let is_ours = |key: &Vec<u8>| !key.starts_with(b"quorlock:");
        let left: usize =
            nodes.iter().map(|node| node.keys().into_iter().filter(is_ours).count()).sum();
        let done = done.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!((done.released, left), (LEASES, 0), "round {round}");
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }
}

/// The leases under which somebody believes to work.
#[derive(Default)]
struct Working(Mutex<Vec<(usize, FencingToken, LeaseSignal)>>, AtomicUsize);

impl Working {
    /// Works under it for a while. Others that believe so too share its token.
    fn works(&self, lease: &ReentrantLease, random: &mut SmallRng) {
        let (token, id) = (lease.token().unwrap(), self.1.fetch_add(1, Ordering::Relaxed));
        {
            let mut all = self.0.lock().unwrap();
            for (_, other, signal) in &*all {
                // Both hold at one moment only if this one still does behind the look at the other.
                let both = *other != token && signal.check().is_ok() && lease.check().is_ok();
                assert!(!both, "{other} and {token} at once");
            }
            all.push((id, token, lease.signal()));
        }
        if random.random() {
            thread::sleep(Duration::from_micros(random.random_range(0..2_000)));
        }
        self.0.lock().unwrap().retain(|(other, ..)| *other != id);
    }
}

/// Requests of all forms, one after the other: awaited to the end, given up after some polls, with work.
fn asks(worker: &Reentrant, working: &Working, random: &mut SmallRng) -> usize {
    let mut request =
        if random.random_ratio(1, 3) { worker.try_acquire("r") } else { worker.acquire("r") };
    request = match random.random_range(0..7) {
        0 => request.linger(5 * MS),
        1 => request.hold_at_least(MS),
        2 => request.lock_delay(10 * MS),
        3 => request.ttl(20 * MS).without_renewal(),
        4 => request.min_validity(TTL * 9 / 10),
        _ => request,
    };
    match random.random_range(0..4) {
        0 => {
            let mut future = request.into_future();
            for _ in 0..random.random_range(1..5) {
                match poll(&mut future) {
                    Poll::Ready(Ok(lease)) => {
                        working.works(&lease, random);
                        return 1;
                    }
                    Poll::Ready(Err(_)) => return 0,
                    Poll::Pending => {
                        thread::sleep(Duration::from_micros(random.random_range(0..500)))
                    }
                }
            }
            0
        }
        1 => usize::from(request.blocking_run(|lease| working.works(lease, random)).is_ok()),
        _ => match request.blocking() {
            Ok(lease) => {
                working.works(&lease, random);
                if random.random() {
                    let _ = lease.blocking_release();
                }
                1
            }
            Err(_) => 0,
        },
    }
}

#[test]
fn handles_that_share_let_nobody_else_in_and_leave_nothing() {
    const THREADS: usize = 9;
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let connect = || {
        let builder = Redlock::builder().nodes(&nodes).danger_skip_quarantine();
        let builder = builder.ttl(TTL).max_ttl(2 * TTL);
        builder.wait(2 * SECOND).blocking_connect().unwrap()
    };
    let clients = [connect(), connect()];
    let [one, other] = &clients;
    let handles = [one.reentrant(), one.reentrant(), other.reentrant()];
    let working = Working::default();
    let until = Instant::now() + FOR;
    let granted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (worker, working) = (&handles[number % handles.len()], &working);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(number as u64);
                    let mut granted = 0;
                    while Instant::now() < until {
                        granted += asks(worker, working, &mut random);
                    }
                    granted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(granted > 100, "{granted}");
    drop(handles);
    for client in &clients {
        assert_eq!(client.blocking_close().unwrap().held, 0);
        quorlock_harness::eventually("no queue is open", 60 * SECOND, || {
            format!("{client:?}").contains("queues: 0,")
        });
    }
    // One that is kept for a moment (`hold_at_least`) ends by itself; one that was forgotten would stand for its ttl.
    quorlock_harness::eventually("no key is left", TTL / 2, || {
        nodes.iter().all(|node| node.get("r").is_none())
    });
}

//! Goal: a shutdown waits for every release, also where many threads give back what they hold at the same moment.
//!
//! Method: real threads, whose work ends when it is told; nodes in memory. Between two looks of the shutdown a lease may pass from
//! one count to another: with one thread, as in virtual time, no look comes in between.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use quorlock::{Redlock, node::MemoryNode};

use crate::fixture::SECOND;

const FOR: Duration = Duration::from_secs(4);
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
            let work =
                |lease: &quorlock::ReentrantLease| until_told(&|| drop(lease.blocking_lost()));
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

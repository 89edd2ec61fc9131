//! What ends a lease or a client while a crowd waits: a shutdown, a close, and a hold that is not over yet.
//!
//! The grant that ends could be handed on, with tokens for those in line: it was won while they waited. Requests are
//! polled once before that. A waiter for a resource that its own process holds need not be seen on the nodes.

use std::{
    future::IntoFuture as _,
    time::{Duration, Instant},
};

use quorlock::{Acquire, AcquireError, Lease, LossReason, Redlock};
use quorlock_harness::{connected, eventually};

use tokio::{runtime::Runtime, task::JoinHandle};

use super::{MS, POLL, RESOURCE, ROOM, SECOND, SOON, admitted, lines, settings};

/// What a waiter is told, and when it was.
type Waiter = JoinHandle<Result<(Instant, Lease), AcquireError>>;

const TTL: Duration = Duration::from_secs(20);
const WAITERS: usize = 200;

/// A task of this runtime that waits.
fn waits(runtime: &Runtime, request: Acquire) -> Waiter {
    let request = request.into_future();
    runtime.spawn(async { request.await.map(|lease| (Instant::now(), lease)) })
}

/// So many that wait, each polled once when this returns.
fn waiters(runtime: &Runtime, redlock: &Redlock, count: usize) -> Vec<Waiter> {
    let waiting = (0..count).map(|_| waits(runtime, redlock.acquire(RESOURCE))).collect();
    runtime.block_on(tokio::task::yield_now());
    waiting
}

/// A lease of this request that was granted while so many waited behind it, and these.
#[track_caller]
fn crowded(
    runtime: &Runtime,
    redlock: &Redlock,
    request: Acquire,
    count: usize,
) -> (Lease, Vec<Waiter>) {
    let first = redlock.acquire(RESOURCE).blocking().unwrap();
    let next = waits(runtime, request);
    let waiting = waiters(runtime, redlock, count);
    first.blocking_release().unwrap();
    let (_, lease) = answers(runtime, vec![next]).pop().expect("one").unwrap();
    (lease, waiting)
}

/// What each of them is told.
#[track_caller]
fn answers(runtime: &Runtime, waiting: Vec<Waiter>) -> Vec<Result<(Instant, Lease), AcquireError>> {
    let answers = waiting.into_iter().map(|waiter| tokio::time::timeout(SOON, waiter));
    let answers = runtime.block_on(async { futures::future::join_all(answers).await });
    answers.into_iter().map(|answer| answer.expect("it is told").unwrap()).collect()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// All waiters are told, the lease is released, and another client has the resource at once.
#[test]
fn a_shutdown_tells_everybody_in_line_and_leaves_nothing() {
    let cluster = admitted(TTL);
    let redlock = connected(settings(&cluster.urls(), TTL));
    let other = connected(settings(&cluster.urls(), TTL));
    let runtime = runtime();
    let (lease, waiting) = crowded(&runtime, &redlock, redlock.acquire(RESOURCE), WAITERS);
    let began = Instant::now();
    let done = redlock.blocking_shutdown().unwrap();
    assert_eq!(done.released, 1, "{done:?}");
    assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown);
    for answer in answers(&runtime, waiting) {
        let error = answer.expect_err("nobody gets it any more");
        assert!(matches!(error, AcquireError::Closed), "{error}");
    }
    // None of them has it: another client gets it, without a wait for a ttl.
    let next = other.acquire(RESOURCE).wait(SOON).blocking().unwrap();
    assert!(began.elapsed() < TTL / 2, "{:?}", began.elapsed());
    next.blocking_release().unwrap();
    drop(lease);
    lines::nothing_left(&cluster);
}

/// Another process holds it, so that the head stands in line on the nodes.
#[test]
fn a_shutdown_of_those_who_wait_for_another_process_leaves_its_place_in_line() {
    let cluster = admitted(TTL);
    let redlock = connected(settings(&cluster.urls(), TTL));
    let other = connected(settings(&cluster.urls(), TTL));
    let lease = other.acquire(RESOURCE).blocking().unwrap();
    let runtime = runtime();
    let waiting = waiters(&runtime, &redlock, WAITERS);
    lines::stand(&cluster, 1);
    redlock.blocking_shutdown().unwrap();
    for answer in answers(&runtime, waiting) {
        let error = answer.expect_err("nobody gets it any more");
        assert!(matches!(error, AcquireError::Closed), "{error}");
    }
    lease.check().unwrap();
    // No place is left in line of a waiter that would never come.
    lines::left(&cluster);
    lease.blocking_release().unwrap();
    other.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

/// A close lets the holder be, and those who wait are told.
#[test]
fn a_close_tells_everybody_in_line_and_leaves_the_holder_alone() {
    let cluster = admitted(TTL);
    let redlock = connected(settings(&cluster.urls(), TTL));
    let runtime = runtime();
    let (lease, waiting) = crowded(&runtime, &redlock, redlock.acquire(RESOURCE), WAITERS);
    let closed = redlock.blocking_close().unwrap();
    assert_eq!(closed.held, 1, "{closed:?}");
    for answer in answers(&runtime, waiting) {
        let error = answer.expect_err("it is closed");
        assert!(matches!(error, AcquireError::Closed), "{error}");
    }
    lease.check().unwrap();
    lease.blocking_release().unwrap();
    lines::nothing_left(&cluster);
}

/// It is released at once, and kept for others: for those of this process, and those of another.
#[test]
fn nobody_in_line_gets_a_resource_before_its_least_hold_is_over() {
    let cluster = admitted(TTL);
    let redlock = connected(settings(&cluster.urls(), TTL));
    let other = connected(settings(&cluster.urls(), TTL));
    let (least, runtime) = (700 * MS, runtime());
    for here in [true, false] {
        let request = redlock.acquire(RESOURCE).hold_at_least(least);
        let before = Instant::now();
        let (lease, waiting) = if here {
            crowded(&runtime, &redlock, request, 5)
        } else {
            let lease = request.blocking().unwrap();
            (lease, waiters(&runtime, &other, 5))
        };
        let granted = Instant::now();
        lease.blocking_release().unwrap();
        // One after the other: each lease is dropped as soon as it is told.
        let answers = runtime.block_on(async {
            let times = waiting.into_iter().map(|waiter| async {
                let (at, lease) = waiter.await.unwrap().unwrap();
                drop(lease);
                at
            });
            tokio::time::timeout(SOON, futures::future::join_all(times)).await.expect("all get it")
        });
        let first = *answers.iter().min().expect("some");
        assert!(first - before >= least, "here: {here}, after {:?}", first - before);
        assert!(first - granted <= least + POLL + ROOM, "after {:?}", first - granted);
        eventually("it is free", SOON, || cluster.locks_left().is_empty());
    }
    redlock.blocking_close().unwrap();
    other.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

/// A lease that is left to expire is free for no caller until then, also inside the process.
#[test]
fn nobody_in_line_gets_what_is_left_to_expire_before_it_has() {
    let cluster = admitted(TTL);
    let redlock = connected(settings(&cluster.urls(), TTL));
    let runtime = runtime();
    let request = redlock.acquire(RESOURCE).ttl(SECOND).without_renewal();
    let (lease, mut waiting) = crowded(&runtime, &redlock, request, 1);
    let began = Instant::now();
    let left = lease.validity();
    assert!(left > SECOND / 4, "too busy a machine: {left:?}");
    let ends = Instant::now() + left;
    lease.let_expire();
    let (granted, next) = answers(&runtime, vec![waiting.remove(0)]).pop().expect("one").unwrap();
    assert!(granted >= ends, "{:?} early", ends - granted);
    assert!(granted - began <= SECOND + POLL + ROOM, "{:?}", granted - began);
    next.blocking_release().unwrap();
    redlock.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

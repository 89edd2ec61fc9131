//! Goal: the tasks of one owner share a lease, and none waits for another longer than it was asked to.
//!
//! Method: nodes in memory; a first acquire that is begun and never polled again, as by a caller that keeps several
//! futures and awaits another one.
#![cfg(feature = "tokio")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    future::{Future, IntoFuture},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use quorlock::{
    AcquireError, Builder, Lease, Redlock, Reentrant, ReentrantLease,
    node::MemoryNode,
    protocol::Timestamp,
    runtime::{Runtime, Task, TokioRuntime},
};
use quorlock_harness::SimRuntime;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

type Answer = Result<ReentrantLease, AcquireError>;

fn redlock(builder: Builder) -> Redlock {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    builder.nodes(&nodes).blocking_connect().unwrap()
}

fn begin(future: &mut (impl Future<Output = Answer> + Unpin)) {
    let polled = std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
}

async fn within<T>(limit: Duration, future: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(limit, future.into_future()).await.expect("it hangs")
}

async fn release(lease: ReentrantLease) {
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_try_does_not_wait_for_a_first_acquire_of_the_same_owner() {
    let redlock = redlock(Redlock::builder().wait(60 * SECOND));
    let (worker, stranger) = (redlock.reentrant(), redlock.reentrant());
    let theirs = stranger.acquire("r").await.unwrap();
    let mut first = worker.acquire("r").into_future();
    begin(&mut first);
    let answer = within(10 * SECOND, worker.try_acquire("r")).await.unwrap_err();
    assert!(answer.is_contended() && answer.to_string().contains(&theirs.owner().to_string()));
    // Another resource has nothing to do with it.
    release(within(10 * SECOND, worker.try_acquire("s")).await.unwrap()).await;
    release(theirs).await;
    let outer = first.await.unwrap();
    let inner = worker.try_acquire("r").await.unwrap();
    assert_eq!((outer.owner(), outer.holders()), (inner.owner(), 2));
}

#[tokio::test]
async fn an_acquire_waits_for_a_first_one_that_is_not_polled_only_as_long_as_it_may_wait() {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let on_them = |builder: Builder| builder.nodes(&nodes).blocking_connect().unwrap();
    let worker = on_them(Redlock::builder().wait(50 * MS)).reentrant();
    let stranger = on_them(Redlock::builder());
    let _theirs = stranger.acquire("r").await.unwrap();
    let mut first = worker.acquire("r").into_future();
    begin(&mut first);
    let since = Instant::now();
    let answer = within(10 * SECOND, worker.acquire("r")).await.unwrap_err();
    assert!(answer.is_contended() && since.elapsed() >= 50 * MS, "{answer}");
    let first = first.await.unwrap_err();
    assert!(first.nodes().unwrap().denials().count() >= 2, "it has asked: {first}");
}

#[tokio::test]
async fn a_request_has_settings_of_its_own_and_a_shared_lease_keeps_its_own() {
    let builder = Redlock::builder().ttl(10 * SECOND).max_ttl(20 * SECOND).wait(60 * SECOND);
    let redlock = redlock(builder);
    let (worker, stranger) = (redlock.reentrant(), redlock.reentrant());
    let theirs = stranger.acquire("r").ttl(SECOND).without_renewal().await.unwrap();
    assert_eq!(theirs.ttl(), SECOND);
    let waited = Instant::now();
    let busy = within(10 * SECOND, worker.acquire("r").wait(50 * MS)).await.unwrap_err();
    assert!(busy.is_contended() && waited.elapsed() < 10 * SECOND, "{busy}");
    let ours = within(20 * SECOND, worker.acquire("r").ttl(15 * SECOND)).await.unwrap();
    assert!(theirs.check().is_err(), "it was not renewed");
    let shared = worker.acquire("r").ttl(SECOND).max_hold(MS).without_renewal().await.unwrap();
    assert_eq!((shared.owner(), shared.ttl()), (ours.owner(), 15 * SECOND));
    shared.extend().await.unwrap();
    // No share of a lease with less left than is asked for: the handle would have to acquire, and is in its own way.
    let greedy = worker.try_acquire("r").ttl(20 * SECOND).min_validity(18 * SECOND).await;
    assert!(greedy.unwrap_err().is_contended());
}

#[tokio::test]
async fn the_wait_for_a_first_acquire_and_the_wait_for_others_are_one() {
    let redlock = redlock(Redlock::builder().wait(400 * MS).retry(MS, 5 * MS));
    let (worker, stranger) = (redlock.reentrant(), redlock.reentrant());
    let _theirs = stranger.acquire("r").await.unwrap();
    let since = Instant::now();
    assert!(worker.acquire("r").await.unwrap_err().is_contended());
    let one = since.elapsed();
    let since = Instant::now();
    // Each of them waits for the one before.
    let mut all = Vec::new();
    for _ in 0..30 {
        let worker: Reentrant = worker.clone();
        all.push(tokio::spawn(async move { worker.acquire("r").await.map(drop) }));
    }
    for one in all {
        assert!(one.await.unwrap().unwrap_err().is_contended());
    }
    let took = since.elapsed();
    assert!(took < 15 * one, "thirty waits took {took:?}, where one takes {one:?}");
}

#[tokio::test]
async fn a_lease_that_is_nearly_over_is_not_shared() {
    let (ttl, least) = (600 * MS, 400 * MS);
    let builder = Redlock::builder().ttl(ttl).max_ttl(ttl).min_validity(least);
    let worker = redlock(builder.without_renewal()).reentrant();
    let outer = worker.acquire("r").await.unwrap();
    while outer.validity() >= least {
        tokio::time::sleep(5 * MS).await;
    }
    match worker.try_acquire("r").await {
        Err(error) => assert!(error.is_contended(), "the outer one still holds: {error}"),
        // On a machine so slow that it was over by then.
        Ok(inner) => assert_ne!(inner.owner(), outer.owner()),
    }
}

#[tokio::test]
async fn resources_that_are_not_held_any_more_are_forgotten() {
    let worker = redlock(Redlock::builder()).reentrant();
    let held = worker.acquire("held").await.unwrap();
    for number in 0..500 {
        release(worker.acquire(format!("r{number}")).await.unwrap()).await;
    }
    let shown = format!("{worker:?}");
    let known: usize =
        shown.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!(known < 100, "{shown}");
    assert_eq!(worker.acquire("held").await.unwrap().owner(), held.owner());
}

#[test]
fn the_last_holder_learns_whether_the_release_was_confirmed_whoever_looks_at_the_lease_meanwhile() {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };
    let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    let ttl = Duration::from_secs(10);
    let redlock = Redlock::builder()
        .nodes(&nodes)
        .ttl(ttl)
        // A lease that is a few microseconds old is not shared.
        .min_validity(ttl - ttl / 100 - Duration::from_millis(4))
        .danger_skip_quarantine()
        .blocking_connect()
        .unwrap();
    let owner = redlock.reentrant();
    let done = Arc::new(AtomicBool::new(false));
    let looking = Arc::new(AtomicBool::new(false));
    let other = {
        let (owner, done, looking) = (owner.clone(), Arc::clone(&done), Arc::clone(&looking));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                if looking.load(Ordering::SeqCst) {
                    // It is too old to be shared.
                    drop(owner.try_acquire("r").blocking());
                }
            }
        })
    };
    let (mut releases, mut untrue) = (0, 0);
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until && untrue == 0 {
        let Ok(lease) = owner.try_acquire("r").blocking() else { continue };
        std::thread::sleep(Duration::from_millis(5));
        looking.store(true, Ordering::SeqCst);
        let hex = lease.owner().to_hex();
        let released = futures::executor::block_on(lease.release());
        let stands =
            nodes.iter().filter(|node| node.get("r").as_deref() == Some(hex.as_slice())).count();
        releases += 1;
        untrue += usize::from(released.is_ok() && stands >= 2);
        looking.store(false, Ordering::SeqCst);
        // Until the other one has ended.
        std::thread::sleep(Duration::from_millis(5));
    }
    done.store(true, Ordering::Relaxed);
    other.join().unwrap();
    assert_eq!(untrue, 0, "of {releases}");
}

#[test]
fn the_last_holder_releases_and_one_that_has_dropped_its_own_is_not_counted() {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let redlock = Redlock::builder().nodes(&nodes).blocking_connect().unwrap();
    let keys = || nodes.iter().map(|node| node.keys().len()).sum::<usize>();
    let worker = redlock.reentrant();
    let [outer, inner, third] = [(); 3].map(|()| worker.acquire("r").blocking().unwrap());
    assert_eq!((outer.holders(), keys()), (3, 3));
    let told = format!("{outer:?}");
    assert!(told.starts_with("ReentrantLease { resource: "), "{told}");
    assert!(told.contains("holders: 3"), "{told}");
    drop(inner);
    assert_eq!((outer.holders(), keys()), (2, 3));
    third.blocking_release().unwrap();
    assert_eq!((outer.holders(), keys()), (1, 3));
    outer.blocking_release().unwrap();
    assert_eq!(keys(), 0);
}

/// In virtual time, in which none of it passes between the two.
#[test]
fn a_share_is_had_of_a_lease_with_as_much_left_as_is_asked_for_and_not_with_less() {
    let sim = SimRuntime::new(1);
    let node = |_| {
        let clock = sim.clone();
        MemoryNode::with_clock(move || clock.now())
    };
    let nodes: Vec<MemoryNode> = (0..3).map(node).collect();
    let builder = Redlock::builder().nodes(&nodes).runtime(Arc::new(sim.clone()));
    let worker = builder.ttl(20 * SECOND).max_ttl(20 * SECOND).build().unwrap().reentrant();
    sim.block_on(sim.sleep(MS));
    let outer = sim.block_on(worker.acquire("r").ttl(10 * SECOND).into_future()).unwrap();
    let left = outer.validity();
    let inner = sim.block_on(worker.try_acquire("r").min_validity(left).into_future()).unwrap();
    assert_eq!((inner.owner(), outer.holders()), (outer.owner(), 2));
    let more = worker.try_acquire("r").min_validity(left + Duration::from_nanos(1));
    assert!(sim.block_on(more.into_future()).is_err());
    sim.shut_down();
}

/// What a handle remembers of a lease that nobody holds keeps neither its grant nor the line here of its resource.
#[test]
fn a_released_lease_leaves_no_line_open() {
    let redlock = redlock(Redlock::builder());
    let worker = redlock.reentrant();
    for number in 0..20 {
        worker.acquire(number.to_string()).blocking().unwrap().blocking_release().unwrap();
    }
    quorlock_harness::eventually("no line is open", 60 * SECOND, || {
        format!("{redlock:?}").contains("queues: 0,")
    });
    drop(worker);
}

/// Work under one hold of a lease that has others: once it has ended a shutdown does not wait for it, and releases the lease.
#[tokio::test]
async fn a_shutdown_releases_what_is_held_beside_work_that_has_ended() {
    for reads in [false, true] {
        let redlock = redlock(Redlock::builder().close_timeout(60 * SECOND));
        let worker = redlock.reentrant();
        let (outer, reader);
        if reads {
            reader = redlock.read("r").await.unwrap();
            within(10 * SECOND, Box::pin(reader.clone().run(async {}))).await.unwrap();
        } else {
            outer = worker.acquire("r").await.unwrap();
            within(10 * SECOND, Box::pin(worker.acquire("r").run(async |_| ()))).await.unwrap();
            assert_eq!(outer.holders(), 1);
        }
        let done = within(10 * SECOND, Box::pin(redlock.shutdown())).await.unwrap();
        assert_eq!(done.released, 1, "{reads}");
    }
}

/// A shutdown waits for work, and then releases the lease for its other holders.
#[tokio::test]
async fn a_shutdown_that_waits_for_work_releases_the_lease_at_its_end() {
    let redlock = redlock(Redlock::builder().close_timeout(60 * SECOND));
    let worker = redlock.reentrant();
    let outer = worker.acquire("r").await.unwrap();
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel::<()>();
    let inner = worker.acquire("r").run_until_lost(async |_, signal| {
        begun.send(()).unwrap();
        let lost = signal.lost().await;
        told.await.unwrap();
        lost
    });
    let shuts_down = async {
        has_begun.await.unwrap();
        let mut down = Box::pin(redlock.shutdown());
        begin_any(&mut down);
        tell.send(()).unwrap();
        down.await
    };
    let (ran, done) =
        within(10 * SECOND, Box::pin(async { tokio::join!(inner, shuts_down) })).await;
    assert!(ran.unwrap().lost.is_some());
    assert_eq!(done.unwrap().released, 1);
    assert!(outer.check().is_err());
}

fn begin_any<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    let polled = std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
}

/// A runtime whose steady clock panics on one thread.
#[derive(Debug)]
struct Broken(TokioRuntime);

thread_local! {
    static IS_BROKEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Runtime for Broken {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn steady(&self) -> Timestamp {
        assert!(!IS_BROKEN.get(), "this clock panics here");
        self.0.steady()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.0.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }

    fn serves(&self) -> bool {
        self.0.serves()
    }

    fn runs_here(&self) -> bool {
        self.0.runs_here()
    }

    fn random(&self) -> [u8; 16] {
        self.0.random()
    }
}

/// Its holder panics, and so does the clock when the lease is dropped: it is renewed no more, and others have it once its
/// keys have expired.
#[test]
fn a_lease_that_two_panics_end_is_renewed_no_more() {
    for nested in [false, true] {
        let node = MemoryNode::new();
        let builder = || Redlock::builder().node(node.clone()).ttl(400 * MS).max_ttl(SECOND);
        let builder = || builder().danger_skip_quarantine();
        let clock = Arc::new(Broken(TokioRuntime::shared().unwrap()));
        let redlock = builder().runtime(clock).blocking_connect().unwrap();
        let other = builder().blocking_connect().unwrap();
        let worker = redlock.reentrant();
        let (plain, by_handle) = (redlock.clone(), worker.clone());
        let panics = std::thread::spawn(move || {
            let plain =
                (!nested).then(|| plain.acquire("r").lock_delay(100 * MS).blocking().unwrap());
            let nested =
                nested.then(|| by_handle.acquire("r").lock_delay(100 * MS).blocking().unwrap());
            // A signal keeps what it tells of, and no lease.
            let signal = plain.as_ref().map(Lease::signal);
            IS_BROKEN.set(true);
            let _held = (plain, nested, signal);
            panic!("the work panics");
        });
        panics.join().unwrap_err();
        quorlock_harness::eventually("it is free", 60 * SECOND, || {
            other.try_acquire("r").blocking().is_ok()
        });
    }
}

/// A request that waits for a first acquire which is not polled, of a runtime with one thread.
fn behind_one_that_is_not_polled() -> (tokio::runtime::Runtime, Redlock, impl Sized, Reentrant) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (redlock, theirs) = runtime.block_on(async {
        let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
        let here = TokioRuntime::current().unwrap();
        let redlock = Redlock::builder().nodes(&nodes).runtime(here).connect().await.unwrap();
        let theirs = redlock.acquire("r").await.unwrap();
        (redlock, theirs)
    });
    let worker = redlock.reentrant();
    let mut first = worker.acquire("r").wait_without_deadline().into_future();
    runtime.block_on(async {
        begin(&mut first);
        tokio::time::sleep(20 * MS).await;
    });
    (runtime, redlock, (theirs, first), worker)
}

/// What ends the engine, or closes it, ends the requests of a handle too: those under way, and those that come later.
#[test]
fn requests_of_a_handle_are_told_of_the_end_and_of_a_close_as_others_are() {
    for closes in [false, true] {
        let (runtime, redlock, _kept, worker) = behind_one_that_is_not_polled();
        let is_right = move |answer: &Answer| match answer {
            Err(AcquireError::Closed) => closes,
            Err(AcquireError::RuntimeEnded) => !closes,
            _ => false,
        };
        let (begun, has_begun) = std::sync::mpsc::channel();
        let waits = {
            let worker = worker.clone();
            std::thread::spawn(move || {
                let mut waits = worker.acquire("r").wait_without_deadline().into_future();
                begin(&mut waits);
                begun.send(()).unwrap();
                futures::executor::block_on(waits)
            })
        };
        has_begun.recv().unwrap();
        if closes {
            runtime.block_on(redlock.close()).unwrap();
        } else {
            drop(runtime);
        }
        quorlock_harness::eventually("the waiting one is told", 60 * SECOND, || {
            waits.is_finished()
        });
        let told = waits.join().unwrap();
        assert!(is_right(&told), "closes: {closes}: {told:?}");
        for request in [worker.acquire("r").wait_without_deadline(), worker.try_acquire("r")] {
            let told = request.blocking();
            assert!(is_right(&told), "closes: {closes}: {told:?}");
        }
    }
}

/// A handle that is closed still has what it holds.
#[tokio::test]
async fn what_is_held_is_shared_behind_a_close_and_not_behind_a_shutdown() {
    let redlock = redlock(Redlock::builder());
    let worker = redlock.reentrant();
    let outer = worker.acquire("r").await.unwrap();
    assert_eq!(redlock.close().await.unwrap().held, 1);
    let inner = worker.acquire("r").await.unwrap();
    assert_eq!((inner.owner(), outer.holders()), (outer.owner(), 2));
    redlock.shutdown().await.unwrap();
    assert!(matches!(worker.acquire("r").await, Err(AcquireError::Closed)));
}

#[tokio::test]
async fn settings_that_are_wrong_are_refused_also_where_a_lease_could_be_shared() {
    let redlock = redlock(Redlock::builder());
    let worker = redlock.reentrant();
    let outer = worker.acquire("r").await.unwrap();
    let refused = worker.acquire("r").ttl(Duration::from_nanos(1)).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Ttl { .. }), "{refused}");
    let refused = worker.acquire("r").hold_at_least(60 * SECOND).await.unwrap_err();
    assert!(matches!(refused, AcquireError::HoldTooLong { .. }), "{refused}");
    let refused = worker.acquire("r").lock_delay(60 * SECOND).await.unwrap_err();
    assert!(matches!(refused, AcquireError::LockDelayTooLong { .. }), "{refused}");
    assert_eq!(outer.holders(), 1);
}

/// Busy is not broken: who waits behind a request of its own handle is told of an outage as one.
#[tokio::test]
async fn an_outage_is_told_as_one_to_all_tasks_of_a_handle() {
    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let builder = Redlock::builder().nodes(&nodes).danger_skip_quarantine().wait(2 * SECOND);
    let worker = builder.connect().await.unwrap().reentrant();
    nodes.iter().for_each(MemoryNode::disconnect);
    // The first ones find the nodes gone, the others know it.
    for _ in 0..2 {
        let mut all = Vec::new();
        for _ in 0..40 {
            let worker = worker.clone();
            all.push(tokio::spawn(async move { worker.acquire("r").await.map(drop) }));
        }
        for one in all {
            let told = one.await.unwrap().unwrap_err();
            assert!(!told.is_contended(), "{told}");
        }
    }
}

/// They ask for more than the lease has left, and less than it has once it is extended, by its holder or by a renewal. In
/// virtual time, in which none passes between an extension and the look at it.
#[test]
fn requests_share_a_lease_with_too_little_left_once_that_is_extended() {
    for renews in [false, true] {
        let sim = SimRuntime::new(1);
        let node = |_| {
            let clock = sim.clone();
            MemoryNode::with_clock(move || clock.now())
        };
        let nodes: Vec<MemoryNode> = (0..3).map(node).collect();
        let builder = Redlock::builder().nodes(&nodes).runtime(Arc::new(sim.clone()));
        let worker = builder.danger_skip_quarantine().build().unwrap().reentrant();
        sim.block_on(sim.sleep(MS));
        let outer = worker.acquire("r");
        let outer = if renews { outer } else { outer.without_renewal() };
        let outer = Arc::new(sim.block_on(outer.into_future()).unwrap());
        sim.block_on(sim.sleep(2 * SECOND));
        let least = 9 * SECOND;
        assert!(outer.validity() < least);
        let tried = sim.block_on(worker.try_acquire("r").min_validity(least).into_future());
        assert!(tried.unwrap_err().is_contended());
        let requests = [(); 2].map(|()| worker.acquire("r").min_validity(least).into_future());
        let mut all = Box::pin(futures::future::try_join_all(requests));
        begin_any(&mut all);
        sim.block_on(sim.sleep(SECOND));
        begin_any(&mut all);
        if !renews {
            let extends = Arc::clone(&outer);
            sim.block_on(async move { extends.extend().await }).unwrap();
        }
        for inner in sim.block_on(all).unwrap() {
            assert_eq!((inner.owner(), outer.check().is_ok()), (outer.owner(), true), "{renews}");
        }
        sim.shut_down();
    }
}

/// No request of the handle prolongs the lease of a worker that hangs.
#[tokio::test]
async fn requests_that_would_share_do_not_stand_in_for_a_heartbeat() {
    let redlock = redlock(Redlock::builder().ttl(SECOND).max_ttl(120 * SECOND));
    let worker = redlock.reentrant();
    let outer = worker.acquire("r").heartbeat_within(100 * MS).await.unwrap();
    let asks = async {
        while outer.check().is_ok() {
            drop(worker.try_acquire("r").ttl(90 * SECOND).min_validity(950 * MS).await);
            tokio::time::sleep(10 * MS).await;
        }
    };
    within(30 * SECOND, Box::pin(asks)).await;
    assert_eq!(outer.lost().await.reason, quorlock::LossReason::NoHeartbeat);
}

/// The first request of a handle was granted, and picked up when its lease was over: another one had acquired since.
#[tokio::test]
async fn a_lease_that_is_picked_up_late_does_not_hide_the_present_one() {
    let redlock = redlock(Redlock::builder().wait(60 * SECOND));
    let worker = redlock.reentrant();
    let mut late = worker.acquire("r").ttl(100 * MS).without_renewal().into_future();
    let theirs = redlock.acquire("r").await.unwrap();
    begin(&mut late);
    theirs.release().await.unwrap();
    // Behind it in the line: it is let in once that lease is over.
    let after = within(30 * SECOND, redlock.acquire("r")).await.unwrap();
    after.release().await.unwrap();
    let present = within(30 * SECOND, worker.acquire("r")).await.unwrap();
    let late = late.await.unwrap();
    late.check().unwrap_err();
    let shared = worker.try_acquire("r").await.unwrap();
    assert_eq!(shared.owner(), present.owner());
}

/// A request is polled late, and is refused by then: its handle has the resource all the same.
#[tokio::test]
async fn a_request_that_is_refused_shares_what_its_handle_has_by_then() {
    for closes in [false, true] {
        let redlock = redlock(Redlock::builder().wait(60 * SECOND));
        let worker = redlock.reentrant();
        let theirs = redlock.acquire("r").await.unwrap();
        let mut first = worker.acquire("r").into_future();
        let mut second = worker.acquire("r").wait(200 * MS).into_future();
        begin(&mut first);
        begin(&mut second);
        theirs.release().await.unwrap();
        let first = within(30 * SECOND, first).await.unwrap();
        if closes {
            redlock.close().await.unwrap();
        } else {
            tokio::time::sleep(300 * MS).await;
        }
        let second = within(30 * SECOND, second).await.unwrap();
        assert_eq!(second.owner(), first.owner(), "{closes}");
    }
}

#[tokio::test]
async fn a_request_that_waits_for_its_handle_has_a_place_in_line() {
    let redlock = redlock(Redlock::builder());
    let theirs = redlock.acquire("r").await.unwrap();
    let worker = redlock.reentrant();
    let [mut first, mut second] = [(); 2].map(|()| worker.acquire("r").into_future());
    begin(&mut first);
    begin(&mut second);
    assert_eq!(second.standing().unwrap().here, 1);
    theirs.release().await.unwrap();
    let first = within(10 * SECOND, first).await.unwrap();
    let second = within(10 * SECOND, second).await.unwrap();
    assert_eq!((first.owner(), first.holders()), (second.owner(), 2));
}

/// What one holder says of its work says nothing of the work of another.
#[test]
fn the_lock_delay_is_kept_where_the_work_of_any_holder_was_cut_short() {
    for (panics, releases) in [(true, true), (true, false), (false, true), (false, false)] {
        let redlock = redlock(Redlock::builder().max_ttl(120 * SECOND));
        let worker = redlock.reentrant();
        let request = {
            let worker = worker.clone();
            let ttl = if panics { 60 * SECOND } else { 100 * MS };
            move || worker.acquire("r").ttl(ttl).lock_delay(30 * SECOND).without_renewal()
        };
        let outer = request().blocking().unwrap();
        if panics {
            let inner = std::thread::spawn(move || {
                drop(request().blocking_run(|_| panic!("the work panics")));
            });
            inner.join().unwrap_err();
        } else {
            let work = request().run(async |_| std::future::pending::<()>().await);
            futures::executor::block_on(work).unwrap_err();
        }
        if releases {
            let _ = outer.blocking_release();
        } else {
            drop(outer);
        }
        redlock.blocking_close().unwrap();
        let left = redlock.blocking_holder("r").unwrap();
        assert!(format!("{left:?}").contains("Held"), "{panics} {releases}: {left:?}");
    }
}

/// Without such work, nobody is kept out.
#[test]
fn the_lock_delay_is_not_kept_where_all_holders_have_ended_their_work() {
    let redlock = redlock(Redlock::builder().max_ttl(120 * SECOND));
    let worker = redlock.reentrant();
    let request = || worker.acquire("r").lock_delay(30 * SECOND);
    let outer = request().blocking().unwrap();
    assert!(request().blocking_run(|_| ()).unwrap().lost.is_none());
    drop(request().blocking().unwrap());
    outer.blocking_release().unwrap();
    drop(redlock.try_acquire("r").blocking().unwrap());
}

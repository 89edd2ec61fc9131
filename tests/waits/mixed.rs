//! All forms of a request at once, in one process and on one resource: two sets of connections, an engine inside the caller's
//! runtime, threads that block, and handles that re-enter; and futures that are dropped at any point.
//!
//! A plain counter, which each holder reads and writes a moment later, shows exclusion. `QUORLOCK_WAITS_SECONDS` lets
//! it go on for longer.

use std::{
    future::{Future, IntoFuture as _, poll_fn},
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use quorlock::{Acquire, AcquireError, Redlock, protocol::FencingToken, runtime::TokioRuntime};
use quorlock_harness::connected;

use super::{MS, RESOURCE, SOON, admitted, lines, run_time, settings};

const TTL: Duration = Duration::from_secs(10);

/// What the lock guards, and what is seen of it.
#[derive(Default)]
struct Guarded {
    /// Read, and written a moment later: two at once lose one.
    counter: AtomicU64,
    /// Taken together.
    entered: AtomicU64,
    inside: AtomicUsize,
    latest: Mutex<Option<FencingToken>>,
    dropped: AtomicUsize,
}

impl Guarded {
    /// Everything that is done under the lock. `again` is that of a handle that holds it already.
    fn enter(&self, token: FencingToken) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        let before = self.latest.lock().unwrap().replace(token);
        assert!(before.is_none_or(|before| before < token), "{token} after {before:?}");
        let seen = self.counter.load(Ordering::SeqCst);
        self.entered.fetch_add(1, Ordering::SeqCst);
        if rand::random_ratio(1, 8) {
            thread::sleep(Duration::from_micros(rand::random_range(1..300)));
        } else {
            thread::yield_now();
        }
        self.counter.store(seen + 1, Ordering::SeqCst);
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1, "two holders at once");
    }

    /// What a task or a thread does with an answer.
    fn used(&self, answer: Result<quorlock::Lease, AcquireError>) {
        match answer {
            Ok(lease) => {
                self.enter(lease.token().unwrap());
                drop(lease);
            }
            // Crowded, where its time is up just when it has been let in, and would begin a round.
            Err(AcquireError::Contended { .. } | AcquireError::Crowded { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// Polls a future so many times at most, or for so long, and drops it.
async fn for_a_while<T>(future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut polls) = (pin!(future), rand::random_range(0..6));
    let some_polls = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            Poll::Pending
        }
    });
    let time = Duration::from_micros(rand::random_range(0..20_000));
    tokio::time::timeout(time, some_polls).await.ok().flatten()
}

/// Now and then its lease shall linger.
fn request(redlock: &Redlock) -> Acquire {
    let request = redlock.acquire(RESOURCE);
    if rand::random_ratio(1, 4) { request.linger(rand::random_range(1..30) * MS) } else { request }
}

/// Acquires over and over; some are dropped while they wait.
async fn task(redlock: Redlock, guarded: &Guarded, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let request = request(&redlock).into_future();
        if rand::random_ratio(1, 2) {
            match for_a_while(request).await {
                Some(answer) => guarded.used(answer),
                None => drop(guarded.dropped.fetch_add(1, Ordering::Relaxed)),
            }
        } else if rand::random_ratio(1, 8) {
            guarded.used(redlock.try_acquire(RESOURCE).await);
        } else {
            guarded.used(request.await);
        }
        tokio::task::yield_now().await;
    }
}

/// A handle whose tasks share what they hold; nobody else enters meanwhile.
fn reentrant(redlock: &Redlock, guarded: &Guarded, stop: &AtomicBool) {
    let handle = redlock.reentrant();
    while !stop.load(Ordering::Relaxed) {
        let outer = match handle.acquire(RESOURCE).wait(200 * MS).blocking() {
            Ok(outer) => outer,
            Err(AcquireError::Contended { .. } | AcquireError::Crowded { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        let inner = handle.try_acquire(RESOURCE).blocking().expect("it is held already");
        assert_eq!(inner.token(), outer.token());
        let token = outer.token().unwrap();
        drop(outer);
        guarded.enter(token);
        drop(inner);
    }
}

/// So many threads with blocking requests.
fn blocking(redlock: &Redlock, guarded: &Guarded, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let request = request(redlock);
        // Some have no patience.
        let request = if rand::random() { request.wait(5 * MS) } else { request };
        guarded.used(request.blocking());
    }
}

#[test]
fn all_forms_of_a_request_on_one_resource_exclude_each_other_and_leave_nothing() {
    let cluster = admitted(TTL);
    let client = || connected(settings(&cluster.urls(), TTL));
    let (one, two) = (client(), client());
    let (guarded, stop) = (Guarded::default(), AtomicBool::new(false));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let (guarded, stop) = (&guarded, &stop);
        // A thread that panics stops the others.
        let guard = |work: &dyn Fn()| {
            let _over = Over(stop);
            work();
        };
        for redlock in [&one, &two] {
            scope.spawn(move || guard(&|| blocking(redlock, guarded, stop)));
            scope.spawn(move || guard(&|| reentrant(redlock, guarded, stop)));
        }
        let (one, two, handle) = (&one, &two, runtime.handle());
        // Tasks of two clients in a runtime with threads.
        scope.spawn(move || {
            guard(&|| {
                let tasks =
                    [one, two, one, two].map(|redlock| task(redlock.clone(), guarded, stop));
                handle.block_on(futures::future::join_all(tasks));
            });
        });
        // A third set of connections, in the very runtime that waits.
        let urls = cluster.urls();
        scope.spawn(move || {
            guard(&|| {
                let current =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                current.block_on(async {
                    let runtime = TokioRuntime::current().unwrap();
                    let three = settings(&urls, TTL).runtime(runtime).connect().await.unwrap();
                    three.ready(SOON).await.unwrap();
                    let tasks = (0..3).map(|_| task(three.clone(), guarded, stop));
                    futures::future::join_all(tasks).await;
                    three.close().await.unwrap();
                });
            });
        });
        let time = run_time(2);
        while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
            thread::sleep(10 * MS);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (counter, entered) =
        (guarded.counter.load(Ordering::SeqCst), guarded.entered.load(Ordering::SeqCst));
    let dropped = guarded.dropped.load(Ordering::Relaxed);
    println!("{entered} grants and {dropped} dropped futures in {:?}", began.elapsed());
    assert_eq!(counter, entered, "an update was lost");
    assert!(entered > 20 && dropped > 20, "{entered} grants, {dropped} dropped");
    one.blocking_close().unwrap();
    two.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

/// Says that it is over, also when its thread panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

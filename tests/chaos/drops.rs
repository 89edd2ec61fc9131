//! Goal: an acquire may be dropped at any moment, and nothing stays behind, and closing waits for that.
//!
//! Method: ten thousand acquires on real servers, each polled a random number of times or for a random
//! time and then dropped; half of them want the same few resources. After closing, all nodes must be
//! empty at once, long before any ttl is over.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::{Duration, Instant},
};

use quorlock::{AcquireError, Redlock};
use quorlock_harness::{Cluster, Server, eventually};

use super::{MS, SECOND};

const ACQUIRES: usize = 10_000;
const TASKS: usize = 64;

#[derive(Debug, Default)]
struct Figures {
    dropped: AtomicUsize,
    granted: AtomicUsize,
    contended: AtomicUsize,
    failed: AtomicUsize,
}

async fn connected(cluster: &Cluster, ttl: Duration, node_timeout: Duration) -> Redlock {
    let builder = Redlock::builder().nodes(cluster.urls()).ttl(ttl).max_ttl(ttl);
    let builder = builder.node_timeout(node_timeout).close_timeout(100 * SECOND);
    builder.danger_skip_quarantine().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_acquires_leave_nothing() {
    let cluster = Cluster::start(5);
    let ttl = 120 * SECOND;
    let redlock = connected(&cluster, ttl, 10 * SECOND).await;
    let began = Instant::now();
    let figures = Arc::new(Figures::default());
    let task = |task: usize| {
        let (redlock, figures) = (redlock.clone(), Arc::clone(&figures));
        tokio::spawn(async move {
            for i in (task..ACQUIRES).step_by(TASKS) {
                let contended = i % 2 == 0;
                let name = if contended { format!("c:{}", i % 16) } else { format!("u:{i}") };
                acquire_and_drop(&redlock, &name, &figures).await;
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("{figures:?} in {:?}", began.elapsed());
    redlock.close().await.unwrap();
    assert_eq!(cluster.locks_left(), [], "right after closing");
    println!("closed {:?} after the beginning", began.elapsed());
    assert!(began.elapsed() < ttl, "too slow to prove anything: the keys would have expired");

    // Nothing can appear later either: the client that could set it is gone.
    drop(redlock);
    eventually("the connections are closed", 20 * SECOND, || cluster.iter().all(is_left_alone));
    assert_eq!(cluster.locks_left(), [], "after the last connection was closed");

    let total = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert_eq!(total(&figures.failed), 0, "no node failed, so no acquire may: {figures:?}");
    assert!(total(&figures.dropped) > ACQUIRES / 10, "{figures:?}");
    assert!(total(&figures.granted) > ACQUIRES / 20, "{figures:?}");
    let sets: u64 = cluster.iter().map(|server| server.command_calls("set")).sum();
    assert!(sets > 5000, "the nodes have seen the acquires: {sets}");
}

/// The same while one node after the other hangs, so that what was dropped is still under way there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_acquires_under_pauses_leave_nothing() {
    let cluster = Cluster::start(5);
    let redlock = connected(&cluster, 120 * SECOND, 50 * MS).await;
    let figures = Arc::new(Figures::default());
    for round in 0..10 {
        cluster[round % 5].pause();
        let task = |i: usize| {
            let (redlock, figures) = (redlock.clone(), Arc::clone(&figures));
            tokio::spawn(async move {
                acquire_and_drop(&redlock, &format!("p:{round}:{}", i % 24), &figures).await;
            })
        };
        let tasks: Vec<_> = (0..32).map(task).collect();
        for task in tasks {
            task.await.unwrap();
        }
        cluster[round % 5].resume();
    }
    println!("{figures:?}");
    redlock.close().await.unwrap();
    eventually("late keys are released", 10 * SECOND, || cluster.locks_left().is_empty());
}

/// Whether the one client of a server is the test itself.
fn is_left_alone(server: &Server) -> bool {
    let clients = server.run(&["INFO", "clients"]);
    format!("{clients:?}").contains("connected_clients:1\\r")
}

async fn acquire_and_drop(redlock: &Redlock, name: &str, figures: &Figures) {
    let future = redlock.acquire(name).wait(50 * MS).into_future();
    let outcome = match rand::random::<u8>() % 4 {
        0 => polled(future, rand::random::<u8>() % 4).await,
        1 => {
            let time = MS * u32::from(rand::random::<u8>() % 4);
            tokio::time::timeout(time, future).await.ok()
        }
        2 => {
            let time = Duration::from_micros(u64::from(rand::random::<u16>() / 32));
            tokio::time::timeout(time, future).await.ok()
        }
        _ => Some(future.await),
    };
    let counter = match outcome {
        None => &figures.dropped,
        Some(Ok(lease)) => {
            drop(lease);
            &figures.granted
        }
        // On a busy machine it may have had no turn in its process before its time was up.
        Some(Err(AcquireError::Contended { .. } | AcquireError::Crowded { .. })) => {
            &figures.contended
        }
        Some(Err(error)) => {
            println!("{error}");
            &figures.failed
        }
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Polls a future this many times at most, letting others run in between, and then drops it.
async fn polled<F: Future>(future: F, polls: u8) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let once = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)));
        if let Poll::Ready(output) = once.await {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

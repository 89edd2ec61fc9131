//! Goal: the API works on any executor and on none, and a lease outlives the runtime it was acquired in.
//!
//! Method: one scenario that uses every asynchronous method, run to its end by tokio in both flavours, by
//! smol and by a plain `block_on`, and its blocking twin on a thread; each on nodes in memory and on real
//! servers. `blocking` has what blocks inside an executor, `current` the engine inside the caller's own runtime.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod blocking;
mod current;

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use quorlock::{
    AcquireError, Builder, Redlock,
    node::{MemoryNode, NodeSpec},
    runtime::{Runtime, TokioRuntime},
};
use quorlock_harness::{Cluster, eventually};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);

/// Five nodes of one kind.
enum Nodes {
    Memory(Vec<MemoryNode>),
    Servers(Cluster),
}

impl Nodes {
    fn memory() -> Self {
        Self::Memory((0..5).map(|_| MemoryNode::new()).collect())
    }

    fn servers() -> Self {
        Self::Servers(Cluster::start(5))
    }

    fn builder(&self) -> Builder {
        let specs: Vec<NodeSpec> = match self {
            Self::Memory(nodes) => nodes.iter().map(NodeSpec::from).collect(),
            Self::Servers(cluster) => cluster.urls().into_iter().map(NodeSpec::from).collect(),
        };
        let builder = Redlock::builder()
            .nodes(specs)
            .ttl(60 * SECOND)
            .max_ttl(60 * SECOND)
            .danger_skip_quarantine()
            .wait(SOON);
        builder.node_timeout(2 * SECOND).connect_timeout(10 * SECOND).close_timeout(SOON)
    }

    fn keys(&self) -> usize {
        match self {
            Self::Memory(nodes) => nodes.iter().map(|node| node.keys().len()).sum(),
            Self::Servers(cluster) => cluster.locks_left().len(),
        }
    }

    #[track_caller]
    fn emptied(&self) {
        eventually("no key is left", SOON, || self.keys() == 0);
    }
}

/// Runs a test on both kinds of node.
fn on_both(test: impl Fn(&Nodes)) {
    test(&Nodes::memory());
    test(&Nodes::servers());
}

/// Everything that a user awaits. It must not need anything of the executor but being polled.
async fn scenario(builder: Builder) {
    let redlock = builder.connect().await.unwrap();
    let lease = redlock.acquire("r").await.unwrap();
    assert!(redlock.try_acquire("r").await.unwrap_err().is_contended());
    let short = redlock.acquire("r").wait(Duration::from_millis(20)).await;
    assert!(short.unwrap_err().is_contended());

    // A waiter and a holder in one task: the waiter is served once the holder lets go.
    let waiting = redlock.acquire("r");
    let (released, next) = futures::future::join(lease.release(), waiting.into_future()).await;
    released.unwrap();
    drop(next.unwrap());
    assert_eq!(redlock.acquire("r").run(async |lease| lease.ttl()).await.unwrap(), 60 * SECOND);
    redlock.close().await.unwrap();
    assert!(matches!(redlock.acquire("r").await.unwrap_err(), AcquireError::Closed));
}

/// The same on a thread that blocks.
fn blocking_scenario(builder: Builder) {
    let redlock = builder.blocking_connect().unwrap();
    let lease = redlock.acquire("r").blocking().unwrap();
    assert!(redlock.try_acquire("r").blocking().unwrap_err().is_contended());
    let waiter = {
        let redlock = redlock.clone();
        std::thread::spawn(move || redlock.acquire("r").blocking().unwrap().blocking_release())
    };
    lease.blocking_release().unwrap();
    waiter.join().unwrap().unwrap();
    drop(redlock.acquire("r").blocking().unwrap());
    redlock.blocking_close().unwrap();
    assert!(matches!(redlock.acquire("r").blocking().unwrap_err(), AcquireError::Closed));
}

fn tokio_threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Without a timer and without I/O: the library must bring its own.
fn bare_tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn on_tokio_with_several_threads() {
    on_both(|nodes| {
        let runtime = tokio_threads();
        let scenario = runtime.spawn(scenario(nodes.builder()));
        runtime.block_on(scenario).unwrap();
        nodes.emptied();
    });
}

#[test]
fn on_tokio_with_one_thread_and_without_its_drivers() {
    on_both(|nodes| {
        bare_tokio().block_on(scenario(nodes.builder()));
        nodes.emptied();
    });
}

#[test]
fn on_smol() {
    on_both(|nodes| {
        smol::block_on(smol::spawn(scenario(nodes.builder())));
        nodes.emptied();
    });
}

#[test]
fn on_a_plain_block_on() {
    on_both(|nodes| {
        futures::executor::block_on(scenario(nodes.builder()));
        nodes.emptied();
    });
}

#[test]
fn on_a_thread_that_blocks() {
    on_both(|nodes| {
        let builder = nodes.builder();
        std::thread::spawn(move || blocking_scenario(builder)).join().unwrap();
        nodes.emptied();
    });
}

#[test]
fn on_several_executors_at_once_with_one_redlock() {
    on_both(|nodes| {
        let redlock = nodes.builder().blocking_connect().unwrap();
        let work = |redlock: Redlock| async move {
            for _ in 0..20 {
                redlock.acquire("shared").await.unwrap().release().await.unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| tokio_threads().block_on(work(redlock.clone())));
            scope.spawn(|| smol::block_on(work(redlock.clone())));
            scope.spawn(|| futures::executor::block_on(work(redlock.clone())));
        });
        redlock.blocking_close().unwrap();
        assert_eq!(nodes.keys(), 0);
    });
}

#[test]
fn a_lease_is_released_after_its_runtime_is_gone() {
    on_both(|nodes| {
        let runtime = tokio_threads();
        let (redlock, dropped, released) = runtime.block_on(async {
            let redlock = nodes.builder().connect().await.unwrap();
            let (a, b) = (redlock.acquire("a").await, redlock.acquire("b").await);
            (redlock, a.unwrap(), b.unwrap())
        });
        runtime.shutdown_timeout(SOON);
        assert!(nodes.keys() >= 6, "both are held by a quorum at least");
        drop(dropped);
        released.blocking_release().unwrap();
        nodes.emptied();
        // The same Redlock goes on to work in another runtime.
        bare_tokio().block_on(async { drop(redlock.acquire("a").await.unwrap()) });
        nodes.emptied();
    });
}

#[test]
fn a_lease_is_released_when_it_is_the_last_handle() {
    on_both(|nodes| {
        let redlock = nodes.builder().blocking_connect().unwrap();
        let lease = redlock.acquire("r").blocking().unwrap();
        drop(redlock);
        assert!(nodes.keys() >= 3);
        drop(lease);
        nodes.emptied();
    });
}

#[test]
fn an_acquire_dropped_by_its_runtime_leaves_nothing() {
    on_both(|nodes| {
        let redlock = nodes.builder().blocking_connect().unwrap();
        let held = redlock.acquire("held").blocking().unwrap();
        let runtime = tokio_threads();
        for _ in 0..8 {
            let redlock = redlock.clone();
            runtime.spawn(async move {
                let lease = redlock.acquire("free").await;
                let waiting = redlock.acquire("held").await;
                drop((lease, waiting));
            });
        }
        eventually("somebody holds the free one", SOON, || nodes.keys() >= 6);
        runtime.shutdown_timeout(SOON);
        held.blocking_release().unwrap();
        redlock.blocking_close().unwrap();
        assert_eq!(nodes.keys(), 0);
    });
}

/// A waker of a careless executor: it panics.
#[derive(Default)]
struct Careless {
    woken: AtomicBool,
}

impl Wake for Careless {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        panic!("a waker of the user's");
    }
}

/// Polls once with a waker that panics, and waits until it has been woken. One that another thread has answered within that
/// poll needs no waker, and is made again.
fn wake_carelessly<F: Future>(mut made: impl FnMut() -> F) {
    eventually("one is not answered at once", SOON, || {
        let careless = Arc::new(Careless::default());
        let waker = Waker::from(Arc::clone(&careless));
        let mut future = pin!(made());
        let is_pending = future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        if is_pending {
            eventually("it is woken", SOON, || careless.woken.load(Ordering::SeqCst));
        }
        is_pending
    });
}

#[test]
fn the_engine_outlives_wakers_that_panic() {
    let runtime = TokioRuntime::dedicated().unwrap();
    let nodes = Nodes::memory();
    let builder = || nodes.builder().runtime(Arc::new(runtime.clone()));
    let redlock = builder().blocking_connect().unwrap();
    let held = redlock.acquire("r").blocking().unwrap();
    // An acquire that waits, so that the close has to wait for its own timer.
    let closing = builder().close_timeout(Duration::from_millis(20)).blocking_connect().unwrap();
    let mut waiting = pin!(closing.acquire("r").into_future());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    wake_carelessly(|| closing.close());
    // A user may sleep there too.
    let soon = || runtime.now().saturating_add(Duration::from_millis(20));
    wake_carelessly(|| runtime.sleep_until(soon()));
    wake_carelessly(|| redlock.acquire("answered").into_future());
    // Had the thread ended, everything on it would have.
    redlock.acquire("other").blocking().unwrap().blocking_release().unwrap();
    held.blocking_release().unwrap();
}

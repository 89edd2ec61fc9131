//! The engine inside the caller's own runtime, with one thread for everything.

use std::{
    future::IntoFuture,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use quorlock::{
    AcquireError, Builder, CloseError, ConnectError, DoneError, ExtendError, Lease, Once,
    OnceError, Redlock, ReleaseError, RunError,
    node::MemoryNode,
    protocol::LossReason,
    runtime::{CurrentRuntimeError, Runtime, TokioRuntime},
};
use quorlock_harness::eventually;
use tokio::runtime::{LocalOptions, Runtime as Tokio};

use super::{Nodes, SECOND, SOON, on_both, scenario, tokio_threads};

const MS: Duration = Duration::from_millis(1);

fn one_thread() -> Tokio {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The scenario, with the engine where it is called.
async fn scenario_here(builder: Builder) {
    scenario(builder.runtime(TokioRuntime::current().unwrap())).await;
}

async fn connect_here(nodes: &Nodes) -> Redlock {
    nodes.builder().runtime(TokioRuntime::current().unwrap()).connect().await.unwrap()
}

/// Waits without blocking the thread on which it has to come true.
async fn eventually_here(what: &str, is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(MS).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[test]
fn in_a_runtime_of_the_callers() {
    on_both(|nodes| {
        let runtime = one_thread();
        runtime.block_on(scenario_here(nodes.builder()));
        assert_eq!(nodes.keys(), 0);
        // In a task, as a server has it.
        runtime.block_on(runtime.spawn(scenario_here(nodes.builder()))).unwrap();
        assert_eq!(nodes.keys(), 0);
    });
}

#[test]
fn in_a_local_set_and_in_a_local_runtime() {
    on_both(|nodes| {
        let (runtime, local) = (one_thread(), tokio::task::LocalSet::new());
        let builder = nodes.builder();
        let task = async { tokio::task::spawn_local(scenario_here(builder)).await.unwrap() };
        local.block_on(&runtime, task);
        assert_eq!(nodes.keys(), 0);
        let local = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        let builder = nodes.builder();
        local.block_on(async { tokio::task::spawn_local(scenario_here(builder)).await.unwrap() });
        assert_eq!(nodes.keys(), 0);
    });
}

#[test]
fn other_threads_and_executors_use_it_too() {
    on_both(|nodes| {
        one_thread().block_on(async {
            let redlock = connect_here(nodes).await;
            let work = |redlock: Redlock| async move {
                for _ in 0..10 {
                    redlock.acquire("shared").await.unwrap().release().await.unwrap();
                }
            };
            let (here, smol, blocks) = (work(redlock.clone()), redlock.clone(), redlock.clone());
            let threads = [
                thread::spawn(move || smol::block_on(work(smol))),
                thread::spawn(move || {
                    drop(blocks.acquire("shared").blocking().unwrap());
                    blocks.acquire("other").blocking().unwrap().blocking_release().unwrap();
                }),
            ];
            here.await;
            eventually_here("they end", || threads.iter().all(thread::JoinHandle::is_finished))
                .await;
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            redlock.close().await.unwrap();
        });
        assert_eq!(nodes.keys(), 0);
    });
}

#[test]
fn it_is_refused_where_it_cannot_work() {
    let refused = || TokioRuntime::current().unwrap_err();
    assert_eq!(refused(), CurrentRuntimeError::Outside);
    assert_eq!(smol::block_on(async { refused() }), CurrentRuntimeError::Outside);
    let runtime = tokio_threads();
    assert_eq!(runtime.block_on(async { refused() }), CurrentRuntimeError::SeveralThreads);
    let task = runtime.spawn(async move { refused() });
    assert_eq!(runtime.block_on(task).unwrap(), CurrentRuntimeError::SeveralThreads);
    let refused_in = |builder: &mut tokio::runtime::Builder| {
        builder.build().unwrap().block_on(async { refused() })
    };
    let bare = tokio::runtime::Builder::new_current_thread;
    assert_eq!(refused_in(&mut bare()), CurrentRuntimeError::NoTimer);
    assert_eq!(refused_in(bare().enable_io()), CurrentRuntimeError::NoTimer);
    assert_eq!(refused_in(bare().enable_time()), CurrentRuntimeError::NoSockets);
}

#[test]
fn a_lease_is_renewed_over_several_ttls() {
    let nodes = Nodes::memory();
    one_thread().block_on(async {
        let redlock = connect_here(&nodes).await;
        let lease = redlock.acquire("r").ttl(SECOND).await.unwrap();
        let acquired = std::time::Instant::now();
        while acquired.elapsed() < 3 * SECOND {
            tokio::time::sleep(20 * MS).await;
            lease.check().unwrap();
            assert!(redlock.try_acquire("r").await.unwrap_err().is_contended());
        }
        lease.release().await.unwrap();
        redlock.close().await.unwrap();
    });
    assert_eq!(nodes.keys(), 0);
}

/// The price of this: a blocked executor renews nothing. A look at the clock tells the truth.
#[test]
fn a_lease_whose_thread_was_blocked_does_not_hold_beyond_its_end() {
    let nodes = Nodes::memory();
    one_thread().block_on(async {
        let redlock = connect_here(&nodes).await;
        let lease = redlock.acquire("r").ttl(SECOND).await.unwrap();
        thread::sleep(SECOND);
        assert!(lease.check().is_err() && lease.validity().is_zero());
        assert_ne!(lease.lost().await.reason, LossReason::Released);
        // The engine goes on.
        let next = redlock.acquire("r").await.unwrap();
        next.release().await.unwrap();
        drop(lease);
        redlock.close().await.unwrap();
    });
}

#[test]
fn everything_runs_on_the_thread_itself() {
    one_thread().block_on(async {
        let runtime = TokioRuntime::current().unwrap();
        let (ran, mut running) = tokio::sync::mpsc::unbounded_channel();
        let spawn = move |runtime: &TokioRuntime| {
            let ran = ran.clone();
            runtime.spawn(Box::pin(async move { ran.send(thread::current().id()).unwrap() }));
        };
        spawn(&runtime);
        assert!(running.try_recv().is_err(), "it is not polled from within the call");
        assert_eq!(running.recv().await.unwrap(), thread::current().id());
        thread::spawn(move || spawn(&runtime)).join().unwrap();
        assert_eq!(running.recv().await.unwrap(), thread::current().id());
    });
}

/// A lease is dropped on another thread, and then asked for on the thread of the engine: the release goes first.
#[test]
fn what_another_thread_has_done_before_comes_before() {
    let nodes = Nodes::memory();
    one_thread().block_on(async {
        let redlock = connect_here(&nodes).await;
        let mut lease = redlock.try_acquire("r").await.unwrap();
        for _ in 0..200 {
            thread::spawn(move || drop(lease)).join().unwrap();
            lease = redlock.try_acquire("r").await.unwrap();
        }
    });
}

/// A runtime that has ended, with a lease that it leaves and a request that is waiting elsewhere.
#[test]
fn when_the_runtime_has_ended_requests_say_so_and_nothing_hangs() {
    on_both(|nodes| {
        let runtime = one_thread();
        let current = runtime.block_on(async { TokioRuntime::current().unwrap() });
        let (redlock, [dropped, released, extended]) = runtime.block_on(async {
            let redlock = nodes.builder().runtime(current.clone()).connect().await.unwrap();
            let mut leases = Vec::new();
            for name in ["dropped", "released", "extended"] {
                leases.push(redlock.acquire(name).await.unwrap());
            }
            (redlock, <[Lease; 3]>::try_from(leases).unwrap())
        });
        let waiting = {
            let (redlock, (begun, begins)) = (redlock.clone(), mpsc::channel());
            let later = current.now().saturating_add(60 * SECOND);
            let sleep = current.sleep_until(later);
            let waiting = thread::spawn(move || {
                smol::block_on(async {
                    let mut waiting = redlock.acquire("dropped").into_future();
                    assert!(futures::poll!(&mut waiting).is_pending());
                    begun.send(()).unwrap();
                    let ended = futures::future::join(waiting, sleep).await.0.unwrap_err();
                    assert!(matches!(ended, AcquireError::RuntimeEnded), "{ended}");
                });
            });
            begins.recv().unwrap();
            // However far it comes: it ends in the same way.
            runtime.block_on(async { tokio::time::sleep(20 * MS).await });
            waiting
        };
        let kept = nodes.keys();
        drop(runtime);
        assert!(!current.serves());
        eventually("the waiting one is told", SOON, || waiting.is_finished());
        waiting.join().unwrap();

        let ended = redlock.try_acquire("other").blocking().unwrap_err();
        assert!(matches!(ended, AcquireError::RuntimeEnded), "{ended}");
        let ended = redlock.blocking_ready(60 * SECOND).unwrap_err();
        assert!(ended.runtime_ended && ended.waited < 60 * SECOND, "{ended}");
        let ended = released.blocking_release().unwrap_err();
        assert!(matches!(ended, ReleaseError::RuntimeEnded), "{ended}");
        let ended = smol::block_on(extended.extend()).unwrap_err();
        assert!(matches!(ended, ExtendError::RuntimeEnded { .. }), "{ended}");
        extended.check().unwrap();
        // A writer is one no more, whether or not the nodes can be told.
        let writes = extended.signal();
        let extended = extended.downgrade().unwrap();
        assert_eq!(writes.check().unwrap_err().reason, LossReason::Released);
        extended.check().unwrap();
        drop((dropped, extended));
        smol::block_on(current.sleep_until(current.now().saturating_add(60 * SECOND)));
        redlock.blocking_close().unwrap();
        let _ = redlock.nodes();
        assert_eq!(nodes.keys(), kept, "nobody is left to release them");
        // Inside another one, too.
        one_thread().block_on(async {
            let ended = redlock.acquire("other").await.unwrap_err();
            assert!(matches!(ended, AcquireError::RuntimeEnded | AcquireError::Closed), "{ended}");
            drop((redlock, current));
        });
    });
}

/// The runtime is dropped while tasks of it, and threads beside it, are at work with leases.
#[test]
fn a_runtime_may_end_in_the_middle_of_everything() {
    for round in 0..50 {
        let nodes = Nodes::memory();
        let runtime = one_thread();
        let redlock = runtime.block_on(connect_here(&nodes));
        for number in 0..4 {
            let redlock = redlock.clone();
            runtime.spawn(async move {
                loop {
                    let lease = redlock.acquire(format!("task {number}")).await.unwrap();
                    let _waiting = redlock.acquire("one for all").await;
                    drop(lease);
                }
            });
        }
        let threads = [(); 2].map(|()| {
            let redlock = redlock.clone();
            thread::spawn(move || {
                loop {
                    match redlock.acquire("one for all").blocking() {
                        Ok(lease) => drop(lease.blocking_release()),
                        Err(AcquireError::RuntimeEnded) => return,
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        });
        runtime.block_on(async { tokio::time::sleep(round % 10 * MS).await });
        drop(runtime);
        eventually("they are told", SOON, || threads.iter().all(thread::JoinHandle::is_finished));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        redlock.blocking_close().unwrap();
    }
}

#[test]
fn the_blocking_form_on_the_thread_itself_is_an_error_and_does_not_hang() {
    let nodes = Nodes::memory();
    one_thread().block_on(async {
        // Before the engine has had a chance to run at all.
        let builder = nodes.builder().runtime(TokioRuntime::current().unwrap());
        let refused = builder.blocking_connect().unwrap_err();
        assert!(matches!(refused, ConnectError::WouldDeadlock), "{refused}");
        let redlock = connect_here(&nodes).await;
        let refused = redlock.acquire("r").blocking().unwrap_err();
        assert!(matches!(refused, AcquireError::WouldDeadlock), "{refused}");
        let refused = redlock.acquire("r").once_per(60 * SECOND).blocking().unwrap_err();
        let blocked = OnceError::Acquire(AcquireError::WouldDeadlock);
        assert_eq!(refused.to_string(), blocked.to_string());
        let once = redlock.acquire("once").once_per(60 * SECOND).await.unwrap();
        let Once::Due(due) = once else { panic!("{once}") };
        assert!(matches!(due.blocking_done(), Err(DoneError::WouldDeadlock)));
        due.release().await.unwrap();
        let worker = redlock.reentrant();
        let refused = worker.acquire("r").blocking().unwrap_err();
        assert!(matches!(refused, AcquireError::WouldDeadlock), "{refused}");
        let semaphore = redlock.semaphore("s", 1).unwrap();
        let refused = [
            redlock.acquire("r").blocking_run(|_| ()).unwrap_err(),
            RunError::Acquire(redlock.read("r").blocking().unwrap_err()),
            redlock.read("r").blocking_run(|_| ()).unwrap_err(),
            RunError::Acquire(semaphore.acquire().blocking().unwrap_err()),
            semaphore.acquire().blocking_run(|_| ()).unwrap_err(),
        ];
        for refused in refused {
            assert!(matches!(refused, RunError::Acquire(AcquireError::WouldDeadlock)), "{refused}");
        }
        let shared = worker.acquire("shared").await.unwrap();
        let another = worker.acquire("shared").await.unwrap();
        another.blocking_release().unwrap();
        let refused = shared.blocking_release().unwrap_err();
        assert!(matches!(refused, ReleaseError::WouldDeadlock), "{refused}");
        let lease = redlock.acquire("r").await.unwrap();
        assert_eq!(lease.blocking_extend(), Err(ExtendError::WouldDeadlock));
        assert!(lease.blocking_ending().is_err() && lease.blocking_lost().is_err());
        assert!(lease.signal().blocking_lost().is_err());
        lease.check().unwrap();
        let refused = lease.blocking_release().unwrap_err();
        assert!(matches!(refused, ReleaseError::WouldDeadlock), "{refused}");
        eventually_here("it is released all the same", || nodes.keys() == 0).await;

        // A thread of the same runtime that just blocks may do so.
        let copy = redlock.clone();
        let blocks = move || copy.acquire("r").blocking().unwrap().blocking_release().unwrap();
        tokio::task::spawn_blocking(blocks).await.unwrap();

        drop(redlock.acquire("r").await.unwrap());
        assert_eq!(redlock.blocking_close(), Err(CloseError::WouldDeadlock));
        assert!(matches!(redlock.acquire("r").await.unwrap_err(), AcquireError::Closed));
        redlock.close().await.unwrap();
        redlock.blocking_close().unwrap();
        redlock.blocking_shutdown().unwrap();

        let redlock = connect_here(&nodes).await;
        let held = redlock.acquire("r").await.unwrap();
        assert_eq!(redlock.blocking_shutdown(), Err(CloseError::WouldDeadlock));
        // What is known already is said anywhere.
        assert_eq!(held.blocking_lost().unwrap().reason, LossReason::ShutDown);
        assert_eq!(held.blocking_ending(), Ok(LossReason::ShutDown));
        assert_eq!(redlock.shutdown().await.unwrap().released, 1);
    });
    assert_eq!(nodes.keys(), 0);
}

/// On the engine's own thread, where a waker or a subscriber runs, it is the same.
#[test]
fn the_blocking_form_on_an_engine_thread_is_an_error_too() {
    let nodes = [(); 3].map(|()| MemoryNode::new());
    let runtime = Arc::new(TokioRuntime::dedicated().unwrap());
    let builder = Redlock::builder().nodes(&nodes).runtime(Arc::clone(&runtime));
    let redlock = builder.blocking_connect().unwrap();
    let (told, tell) = mpsc::channel();
    runtime.spawn(Box::pin(async move {
        told.send(redlock.acquire("r").blocking().unwrap_err()).unwrap();
    }));
    let refused = tell.recv_timeout(SOON).unwrap();
    assert!(matches!(refused, AcquireError::WouldDeadlock), "{refused}");
}

/// As in tests of the caller's. Its timers do not tell the time; leases end by the real one.
#[test]
fn it_works_in_a_runtime_whose_time_is_paused() {
    let nodes = Nodes::memory();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        scenario_here(nodes.builder()).await;
        let redlock = connect_here(&nodes).await;
        let lease = redlock.acquire("r").ttl(SECOND).without_renewal().await.unwrap();
        let lost = lease.lost().await;
        assert_eq!(lost.reason, LossReason::NotRenewed);
        assert!(lease.validity() < 100 * MS, "by the real clock");
        redlock.close().await.unwrap();
    });
}

#[test]
fn nothing_is_left_in_the_runtime_when_the_last_handle_is_gone() {
    on_both(|nodes| {
        one_thread().block_on(async {
            let redlock = connect_here(nodes).await;
            let lease = redlock.acquire("r").await.unwrap();
            drop(redlock);
            lease.release().await.unwrap();
            let metrics = tokio::runtime::Handle::current().metrics();
            eventually_here("no task is left", || metrics.num_alive_tasks() == 0).await;
        });
    });
}

/// Where no thread can wait for it, it is a release all the same, and says that nothing is on its way.
#[test]
fn a_blocking_release_behind_a_loss_frees_what_has_a_lock_delay() {
    let nodes = Nodes::memory();
    one_thread().block_on(async {
        let redlock = connect_here(&nodes).await;
        let request = redlock.acquire("r").ttl(50 * MS).lock_delay(5 * SECOND).without_renewal();
        let lease = request.await.unwrap();
        lease.lost().await;
        let told = lease.blocking_release().unwrap_err();
        assert!(matches!(told, ReleaseError::WouldDeadlock), "{told}");

        let election = redlock.election("e").ttl(50 * MS).lock_delay(5 * SECOND);
        let leadership = election.campaign().await.unwrap();
        thread::sleep(60 * MS);
        leadership.check().unwrap_err();
        let told = leadership.blocking_resign().unwrap_err();
        assert!(matches!(told, ReleaseError::WouldDeadlock), "{told}");
        redlock.close().await.unwrap();
        assert_eq!(nodes.keys(), 0);
    });
}

/// What is known without an answer is said, also on the thread that would have to answer.
#[test]
fn a_blocking_form_says_what_is_known_already() {
    let nodes = Nodes::memory();
    one_thread().block_on(async {
        let redlock = connect_here(&nodes).await;
        let lost = redlock.acquire("lost").ttl(50 * MS).without_renewal().await.unwrap();
        thread::sleep(60 * MS);
        let told = lost.blocking_extend().unwrap_err();
        assert!(matches!(told, ExtendError::Lost(_)), "{told}");
        let lease = redlock.acquire("r").await.unwrap();
        let leadership = redlock.election("e").campaign().await.unwrap();
        redlock.shutdown().await.unwrap();
        let told = lease.blocking_release().unwrap_err();
        assert!(matches!(told, ReleaseError::ShutDown), "{told}");
        let told = leadership.blocking_resign().unwrap_err();
        assert!(matches!(told, ReleaseError::ShutDown), "{told}");
    });
}

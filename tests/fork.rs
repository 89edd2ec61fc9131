//! Goal: a process that forks, as a pre-forking service does, has locks in its child too, and neither harms the other.
//!
//! Method: real forks, in a binary of their own, since a child has no thread but the one that forked. It reports by its
//! exit status and a file, and gives itself up if it hangs.
#![cfg(all(feature = "redis", unix))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use fork::{Fork, fork, waitpid_nohang};
use quorlock::{
    AcquireError, Builder, CampaignError, ConnectError, DetachError, ElectionHealth, ExtendError,
    HolderError, Leadership, Lease, LossReason, Permit, ProclaimError, ReadLease, Redlock,
    ReleaseError, RunError,
    node::NodeState,
    runtime::{Runtime, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, eventually};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);

/// What becomes of a child: it ends itself by `SOON`, whatever hangs in it.
#[derive(Debug, Eq, PartialEq)]
enum Ending {
    Well = 0,
    Panicked = 3,
    Hung = 4,
}

fn settings(cluster: &Cluster) -> Builder {
    Redlock::builder()
        .nodes(cluster.urls())
        .ttl(60 * SECOND)
        .max_ttl(60 * SECOND)
        .node_timeout(2 * SECOND)
        .connect_timeout(10 * SECOND)
        .close_timeout(SECOND)
        .danger_skip_quarantine()
}

/// Forks, runs `first` in the child on the thread that forked and then `child` on another, and waits for its end.
fn in_a_child(first: impl FnOnce(), child: impl FnOnce() + Send + 'static) -> Ending {
    match fork().unwrap() {
        Fork::Child => {
            // There is no thread behind it to which a panic could go.
            if catch_unwind(AssertUnwindSafe(first)).is_err() {
                std::process::exit(Ending::Panicked as i32);
            }
            let (done, ended) = mpsc::channel();
            thread::spawn(move || {
                child();
                let _ = done.send(());
            });
            let ending = match ended.recv_timeout(SOON) {
                Ok(()) => Ending::Well,
                Err(mpsc::RecvTimeoutError::Disconnected) => Ending::Panicked,
                Err(mpsc::RecvTimeoutError::Timeout) => Ending::Hung,
            };
            std::process::exit(ending as i32)
        }
        Fork::Parent(child) => {
            let mut status = None;
            eventually("the child ends", 2 * SOON, || {
                status = waitpid_nohang(child).unwrap();
                status.is_some()
            });
            match status.map(|status| fork::WEXITSTATUS(status)) {
                Some(0) => Ending::Well,
                Some(4) => Ending::Hung,
                _ => Ending::Panicked,
            }
        }
    }
}

/// What a child does with locks of its own.
fn has_locks_of_its_own(settings: Builder, report: &Path) {
    let redlock = settings.blocking_connect().unwrap();
    let lease = redlock.acquire("child").blocking().unwrap();
    lease.check().unwrap();
    let busy = redlock.try_acquire("parent").blocking().unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    fs::write(report, lease.owner().to_string()).unwrap();
    lease.blocking_release().unwrap();
    redlock.blocking_close().unwrap();
}

/// What a child finds of its parent's: nothing of it works, and it says so.
fn is_told_that_its_parents_are_of_no_use(redlock: &Redlock, leases: [Lease; 3]) {
    let refused = redlock.try_acquire("other").blocking().unwrap_err();
    assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");
    let [lease, dropped, left] = leases;
    drop(dropped);
    left.let_expire();
    let refused = futures::executor::block_on(lease.extend()).unwrap_err();
    assert!(matches!(refused, ExtendError::RuntimeEnded { .. }), "{refused}");
    // Its parent believes in it.
    let Err(DetachError::RuntimeEnded { lease }) = lease.detach() else { panic!("it is detached") };
    let refused = lease.blocking_release().unwrap_err();
    assert!(matches!(refused, ReleaseError::RuntimeEnded), "{refused}");
    drop(redlock.blocking_close());
    // Nor does it end what its parent holds.
    let ended = redlock.blocking_shutdown().unwrap();
    assert_eq!((ended.released, ended.gone), (0, 0));
}

#[test]
fn a_child_has_locks_of_its_own_and_leaves_its_parents_alone() {
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).blocking_connect().unwrap();
    let kept = redlock.acquire("parent").blocking().unwrap();
    // The child releases and drops its copies of these, which must not reach the nodes.
    let copied =
        ["released", "dropped", "left"].map(|name| redlock.acquire(name).blocking().unwrap());
    let copied = Arc::new(Mutex::new(Some(copied)));
    let runtime = TokioRuntime::shared().unwrap();
    // From now on a generator in this process would have a state, and the child a copy of it.
    let before = runtime.random();
    let dir = tempfile::tempdir().unwrap();
    let [drawn, owner] = ["drawn", "owner"].map(|name| dir.path().join(name));
    let first = || fs::write(&drawn, runtime.random()).unwrap();
    let child = {
        let (settings, redlock, copied) =
            (settings(&cluster), redlock.clone(), Arc::clone(&copied));
        let owner = owner.clone();
        move || {
            has_locks_of_its_own(settings, &owner);
            let copied = copied.lock().unwrap().take().unwrap();
            is_told_that_its_parents_are_of_no_use(&redlock, copied);
        }
    };
    assert_eq!(in_a_child(first, child), Ending::Well);
    let drawn = fs::read(drawn).unwrap();
    assert_eq!(drawn.len(), 16);
    assert!(drawn != before && drawn != runtime.random(), "drawn in both processes");
    // The parent's engine goes on, and its leases hold.
    futures::executor::block_on(kept.extend()).unwrap();
    let [first, second, third] = copied.lock().unwrap().take().unwrap();
    futures::executor::block_on(first.extend()).unwrap();
    futures::executor::block_on(second.extend()).unwrap();
    futures::executor::block_on(third.extend()).unwrap();
    let other = redlock.try_acquire("other").blocking().unwrap();
    let owners = [&kept, &first, &second, &third, &other].map(|lease| lease.owner().to_string());
    assert!(!owners.contains(&fs::read_to_string(owner).unwrap()));
    for lease in [kept, first, second, third, other] {
        lease.blocking_release().unwrap();
    }
    redlock.blocking_close().unwrap();
}

/// A lock that another thread of the parent has at the fork stays locked for ever in the child.
#[test]
fn children_of_a_busy_process_wait_for_none_of_its_locks() {
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).blocking_connect().unwrap();
    let _held = redlock.acquire("parent").blocking().unwrap();
    let stopped = Arc::new(AtomicBool::new(false));
    let busy = [1, 2, 3].map(|number| {
        let (redlock, stopped) = (redlock.clone(), Arc::clone(&stopped));
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let lease = redlock.acquire(format!("busy {number}")).blocking().unwrap();
                (0..100).for_each(|_| assert!(lease.check().is_ok()));
                lease.blocking_release().unwrap();
            }
        })
    });
    let dir = tempfile::tempdir().unwrap();
    for number in 0..100 {
        let (settings, owner) = (settings(&cluster), dir.path().join(number.to_string()));
        let ending = in_a_child(|| (), move || has_locks_of_its_own(settings, &owner));
        assert_eq!(ending, Ending::Well, "child {number}");
    }
    stopped.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A child that is forked while a burst waits in line.
#[test]
fn a_child_of_a_process_whose_line_is_full_is_told_at_once() {
    use std::{
        future::{Future, IntoFuture},
        pin::Pin,
        task::{Context, Waker},
    };
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).blocking_connect().unwrap();
    let leases: Vec<Lease> =
        (0..80).map(|n| redlock.acquire(format!("held:{n}")).blocking().unwrap()).collect();
    cluster.iter().for_each(|server| server.pause());
    let mut waiting: Vec<_> =
        (0..100).map(|n| redlock.acquire(format!("burst:{n}")).into_future()).collect();
    for future in &mut waiting {
        assert!(Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    println!("{redlock:?}");
    let copy = redlock.clone();
    let ending = in_a_child(
        || (),
        move || {
            let refused = copy.acquire("other").wait(SECOND).blocking().unwrap_err();
            assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");
        },
    );
    let leases = Mutex::new(leases);
    let mut last = leases.into_inner().unwrap();
    let one = last.pop().unwrap();
    let _releases: Vec<_> = last.into_iter().map(Lease::release).collect();
    let ending_of_release = in_a_child(
        || (),
        move || {
            let refused = one.blocking_release().unwrap_err();
            assert!(matches!(refused, ReleaseError::RuntimeEnded), "{refused}");
        },
    );
    cluster.iter().for_each(|server| server.resume());
    assert_eq!((ending, ending_of_release), (Ending::Well, Ending::Well));
}

/// Waiters behind a lease of this process, and behind one of another. The child drops its copies of them all.
#[test]
fn a_child_of_a_process_with_waiters_in_line_leaves_them_in_their_places() {
    use std::{
        future::{Future, IntoFuture},
        task::{Context, Waker},
    };
    const WAITERS: usize = 20;
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).wait(SOON).blocking_connect().unwrap();
    let other = settings(&cluster).blocking_connect().unwrap();
    for (resource, holder) in [("ours", &redlock), ("theirs", &other)] {
        let held = holder.acquire(resource).blocking().unwrap();
        let mut waiting: Vec<_> =
            (0..WAITERS).map(|_| Box::pin(redlock.acquire(resource).into_future())).collect();
        for future in &mut waiting {
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let waiting = Arc::new(Mutex::new(Some(waiting)));
        let (in_the_child, copy) = (Arc::clone(&waiting), redlock.clone());
        let child = move || {
            drop(in_the_child.lock().unwrap().take().unwrap());
            let refused = copy.acquire(resource).blocking().unwrap_err();
            assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");
        };
        assert_eq!(in_a_child(|| (), child), Ending::Well, "{resource}");
        held.check().unwrap();
        let waiting = waiting.lock().unwrap().take().unwrap();
        // They are served as if nothing had been, one after the other.
        let (served, order) = mpsc::channel();
        let waiting = waiting.into_iter().enumerate().map(|(number, future)| {
            let served = served.clone();
            async move {
                let lease = future.await.unwrap();
                served.send(number).unwrap();
                lease.release().await.unwrap();
            }
        });
        let waiting = futures::future::join_all(waiting);
        held.blocking_release().unwrap();
        futures::executor::block_on(waiting);
        let order: Vec<usize> = order.try_iter().collect();
        assert_eq!(order, (0..WAITERS).collect::<Vec<_>>(), "{resource}");
    }
    redlock.blocking_close().unwrap();
    other.blocking_close().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// A runtime that does not say that it serves no one in a child.
#[derive(Debug)]
struct Unknowing(TokioRuntime);

impl Alter for Unknowing {
    fn inner(&self) -> &dyn Runtime {
        &self.0
    }

    fn serves(&self) -> bool {
        true
    }
}

/// The child drops the last copy of a lease for which a task of the parent waits: the child does not run its waker, nor
/// wait for its lock, since the thread that has it may not exist there.
#[test]
fn a_child_that_drops_a_lease_answers_nobody_who_waits_for_it_in_its_parent() {
    use std::{
        future::{Future, IntoFuture},
        task::{Context, Wake, Waker},
    };
    struct Locks(Arc<Mutex<()>>, AtomicBool);
    impl Wake for Locks {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::Relaxed);
            drop(self.0.lock());
        }
    }
    let shared = || TokioRuntime::shared().unwrap();
    let known = || Arc::new(shared()) as Arc<dyn Runtime>;
    let unknown = || Arc::new(Altered(Unknowing(shared()))) as Arc<dyn Runtime>;
    let waits = [SECOND / 2, SOON].into_iter();
    for (wait, runtime) in waits.flat_map(|wait| [(wait, known()), (wait, unknown())]) {
        let cluster = Cluster::start(3);
        let settings = settings(&cluster).runtime(runtime);
        let redlock = settings.wait(SOON).blocking_connect().unwrap();
        let lock = Arc::new(Mutex::new(()));
        let locks = Arc::new(Locks(Arc::clone(&lock), AtomicBool::new(false)));
        let held = Arc::new(Mutex::new(Some(redlock.acquire("r").blocking().unwrap())));
        let mut waiting = Box::pin(redlock.acquire("r").wait(wait).into_future());
        let waker = Waker::from(Arc::clone(&locks));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let (in_the_child, woken) = (Arc::clone(&held), Arc::clone(&locks));
        let guard = lock.lock().unwrap();
        let child = move || {
            thread::sleep(SECOND);
            drop(in_the_child.lock().unwrap().take().unwrap());
            assert!(!woken.1.load(Ordering::Relaxed), "it is the parent's");
        };
        let ending = in_a_child(|| (), child);
        drop(guard);
        assert_eq!(ending, Ending::Well, "{wait:?}");
        held.lock().unwrap().as_ref().unwrap().check().unwrap();
    }
}

/// A request that was under way in the parent is awaited in the child, where no engine answers it.
#[test]
fn a_child_that_awaits_a_request_of_its_parents_is_told_at_once() {
    use std::{
        future::{Future, IntoFuture},
        task::{Context, Waker},
    };
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).wait(SOON).blocking_connect().unwrap();
    let held = redlock.acquire("r").blocking().unwrap();
    let mut waiting = Box::pin(redlock.acquire("r").into_future());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waiting = Arc::new(Mutex::new(Some(waiting)));
    let in_the_child = Arc::clone(&waiting);
    let child = move || {
        let waiting = in_the_child.lock().unwrap().take().unwrap();
        let refused = futures::executor::block_on(waiting).unwrap_err();
        assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");
    };
    assert_eq!(in_a_child(|| (), child), Ending::Well);
    held.blocking_release().unwrap();
    let waiting = waiting.lock().unwrap().take().unwrap();
    let lease = futures::executor::block_on(waiting).unwrap();
    lease.blocking_release().unwrap();
}

/// Everything that can be awaited, begun in the parent and never answered in the child: what the child is told, and
/// that a drop does not wait.
#[test]
fn a_child_that_awaits_whatever_its_parent_has_begun_is_told_at_once() {
    use futures::{FutureExt, future::BoxFuture};
    use std::future::IntoFuture;

    /// Whether the answer is that of a child; a parent is told otherwise.
    type Told = BoxFuture<'static, bool>;

    fn polled(mut future: Told, what: &str) -> Told {
        assert!((&mut future).now_or_never().is_none(), "{what}: nobody answers");
        future
    }

    /// All of them, polled once.
    fn begun(
        redlock: &Redlock,
        closed: &Redlock,
        leases: Vec<Lease>,
        settings: Builder,
    ) -> Vec<(&'static str, Told)> {
        let mut leases = leases.into_iter();
        let mut lease = || leases.next().unwrap();
        let (lost, ending, extended, released) = (lease(), lease(), lease(), lease());
        let signal = lease();
        let of_signal = signal.signal();
        let ended = |error: AcquireError| matches!(error, AcquireError::RuntimeEnded);
        let (one, [two, three]) = (redlock.clone(), [(); 2].map(|()| closed.clone()));
        let (acquired, in_line, by_handle) = (redlock.acquire("a"), redlock.acquire("a"), redlock);
        let by_handle = by_handle.reentrant().acquire("by handle");
        let runs = redlock.acquire("run").run(async |_| ());
        let (read, permit) = (redlock.read("read"), redlock.semaphore("p", 2).unwrap().acquire());
        let begun: Vec<(&str, Told)> = vec![
            ("acquire", Box::pin(acquired.into_future().map(move |told| told.is_err_and(ended)))),
            (
                "set",
                Box::pin(
                    redlock
                        .acquire_all(["a", "b"])
                        .into_future()
                        .map(move |told| told.is_err_and(ended)),
                ),
            ),
            ("read", Box::pin(read.into_future().map(move |told| told.is_err_and(ended)))),
            ("permit", Box::pin(permit.into_future().map(move |told| told.is_err_and(ended)))),
            ("in line", Box::pin(in_line.into_future().map(move |told| told.is_err_and(ended)))),
            ("by handle", Box::pin(async move { by_handle.await.is_err_and(ended) })),
            (
                "run",
                Box::pin(async move {
                    matches!(runs.await, Err(RunError::Acquire(AcquireError::RuntimeEnded)))
                }),
            ),
            ("lost", Box::pin(async move { lost.lost().await.reason == LossReason::Forked })),
            ("ending", Box::pin(async move { ending.ending().await == LossReason::Forked })),
            (
                "signal",
                Box::pin(async move {
                    let told = of_signal.lost().await.reason == LossReason::Forked;
                    drop(signal);
                    told
                }),
            ),
            (
                "extend",
                Box::pin(async move {
                    matches!(
                        extended.extend().await,
                        Err(ExtendError::RuntimeEnded { validity: Duration::ZERO, .. })
                    )
                }),
            ),
            (
                "release",
                Box::pin(
                    released.release().map(|told| matches!(told, Err(ReleaseError::RuntimeEnded))),
                ),
            ),
            (
                "holder",
                Box::pin(async move {
                    matches!(one.holder("held").await, Err(HolderError::RuntimeEnded))
                }),
            ),
            (
                "connect",
                Box::pin(
                    settings
                        .connect()
                        .map(|told| matches!(told, Err(ConnectError::NoQuorum { ready: 0, .. }))),
                ),
            ),
            // What is under way is the parent's.
            ("shutdown", Box::pin(async move { three.shutdown().await.is_err() })),
            ("close", Box::pin(async move { two.close().await.is_err() })),
        ];
        begun.into_iter().map(|(what, future)| (what, polled(future, what))).collect()
    }

    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).wait(SOON).close_timeout(SOON).blocking_connect().unwrap();
    let forever = settings(&Cluster::start(3)).build().unwrap();
    let not_ready = forever.clone();
    let ready = async move { not_ready.ready(SOON).await.is_err_and(|error| error.runtime_ended) };
    // What is to be closed has a client of its own.
    let closed = settings(&cluster).close_timeout(SOON).blocking_connect().unwrap();
    let held = closed.acquire("closed").blocking().unwrap();
    let names = ["lost", "ending", "extend", "release", "signal"];
    let leases = names.map(|name| redlock.acquire(name).blocking().unwrap()).into();
    let said = redlock.election("said").blocking_campaign().unwrap();
    // At work by now.
    let leads = redlock.election("leads").stop_within(SECOND);
    let (tells, at_work) = mpsc::channel();
    let mut leading: Told = Box::pin(async move {
        let work = async move |_: &Leadership| {
            tells.send(()).unwrap();
            std::future::pending::<Result<(), &str>>().await
        };
        let ended = leads.lead(work).await;
        ended
            .is_err_and(|error| matches!(error, CampaignError::Acquire(AcquireError::RuntimeEnded)))
    });
    eventually("it leads", SOON, || {
        assert!((&mut leading).now_or_never().is_none());
        at_work.try_recv().is_ok()
    });
    cluster.iter().for_each(|server| server.pause());
    let mut begun = begun(&redlock, &closed, leases, settings(&cluster));
    begun.push(("ready", polled(Box::pin(ready), "ready")));
    begun.push(("leading", leading));
    let elections: Vec<(&str, Told)> = {
        let of = |name: &str| redlock.election(name);
        let (campaigns, leads, looks, watches) = (of("a"), of("lead"), of("a"), of("a"));
        let ended = |error| matches!(error, CampaignError::Acquire(AcquireError::RuntimeEnded));
        let blind = |error| matches!(error, HolderError::RuntimeEnded);
        vec![
            ("campaign", Box::pin(async move { campaigns.campaign().await.is_err_and(ended) })),
            (
                "lead",
                Box::pin(
                    async move { leads.lead(async |_| Ok::<_, &str>(())).await.is_err_and(ended) },
                ),
            ),
            ("leader", Box::pin(async move { looks.leader().await.is_err_and(blind) })),
            (
                "observer",
                Box::pin(async move { watches.observe().changed().await.is_err_and(blind) }),
            ),
            (
                "proclaim",
                Box::pin(async move {
                    let said = said.proclaim("x").await;
                    matches!(said, Err(ProclaimError::Lost(lost)) if lost.reason == LossReason::Forked)
                }),
            ),
        ]
    };
    begun.extend(elections.into_iter().map(|(what, future)| (what, polled(future, what))));
    let begun = Arc::new(Mutex::new(Some(begun)));
    for awaited in [true, false] {
        let in_the_child = Arc::clone(&begun);
        let child = move || {
            for (what, future) in in_the_child.lock().unwrap().take().unwrap() {
                if awaited {
                    assert!(futures::executor::block_on(future), "{what}");
                }
            }
        };
        assert_eq!(in_a_child(|| (), child), Ending::Well, "awaited: {awaited}");
    }
    cluster.iter().for_each(|server| server.resume());
    drop(forever);
    let all = begun.lock().unwrap().take().unwrap();
    // These end with their leases, or never.
    let without_end = ["lost", "ending", "signal", "ready", "leading"];
    let all = all.into_iter().filter(|(what, _)| !without_end.contains(what));
    // At once: one that is granted and not polled is in the way of the others of its resource.
    let all = all.map(|(what, future)| future.map(move |told| (what, told)));
    for (what, told) in futures::executor::block_on(futures::future::join_all(all)) {
        assert!(!told, "{what}: it is no child");
    }
    drop(held);
    redlock.blocking_close().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// Of each kind one is dropped, one released and one asked for more in a child, by one of its threads and by another.
#[test]
fn a_child_leaves_every_kind_of_lease_to_its_parent() {
    use std::future::IntoFuture;

    struct Held {
        sets: Vec<Lease>,
        permits: Vec<Permit>,
        readers: Vec<ReadLease>,
        downgraded: Vec<ReadLease>,
        writers: Vec<Lease>,
        leaderships: Vec<Leadership>,
        delayed: Vec<Lease>,
    }

    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).ttl(20 * SECOND).blocking_connect().unwrap();
    let semaphore = redlock.semaphore("permit", 4).unwrap();
    let elections = ["e0", "e1", "e2"].map(|name| redlock.election(name).text("parent"));
    let write = |name: String| redlock.write(name).blocking().unwrap();
    let held = Held {
        sets: (0..2)
            .map(|n| redlock.acquire_all([format!("s{n}"), format!("t{n}")]).blocking().unwrap())
            .collect(),
        permits: (0..3).map(|_| semaphore.acquire().blocking().unwrap()).collect(),
        readers: (0..3).map(|_| redlock.read("reader").blocking().unwrap()).collect(),
        downgraded: (0..2).map(|n| write(format!("downgraded{n}")).downgrade().unwrap()).collect(),
        writers: (0..2).map(|n| write(format!("writer{n}"))).collect(),
        leaderships: elections.iter().map(|it| it.blocking_campaign().unwrap()).collect(),
        delayed: (0..2)
            .map(|n| {
                let request = redlock.acquire(format!("delayed{n}")).lock_delay(20 * SECOND);
                request.blocking().unwrap()
            })
            .collect(),
    };
    // Nodes follow a downgrade with an extension.
    eventually("downgraded", SOON, || {
        cluster.iter().all(|node| {
            (0..2).all(|n| {
                node.get(format!("downgraded{n}")).is_some_and(|it| it.starts_with(b"shared"))
            })
        })
    });
    let before: Vec<_> = cluster
        .iter()
        .map(|node| node.locks().into_iter().map(|key| (node.get(&key), key)).collect::<Vec<_>>())
        .collect();
    let held = Arc::new(Mutex::new(Some(held)));
    for first in [true, false] {
        let in_the_child = Arc::clone(&held);
        let (elections, redlock, semaphore) =
            (elections.clone(), redlock.clone(), semaphore.clone());
        let child = move || {
            let Held { sets, permits, readers, downgraded, writers, leaderships, delayed } =
                in_the_child.lock().unwrap().take().unwrap();
            assert!(
                elections.iter().all(|it| !matches!(it.health(), ElectionHealth::Leading { .. }))
            );
            let ended = |told: Result<(), ReleaseError>| {
                assert!(matches!(told, Err(ReleaseError::RuntimeEnded)), "{told:?}")
            };
            fn halves<T>(mut all: Vec<T>) -> [T; 2] {
                let one = all.pop().unwrap();
                [one, all.pop().unwrap()]
            }
            let [one, two] = halves(sets);
            ended(one.blocking_release());
            drop(two);
            let [one, two] = halves(permits);
            ended(one.blocking_release());
            drop(two);
            let [one, two] = halves(readers);
            let clone = two.clone();
            ended(one.blocking_release());
            drop(two);
            ended(clone.blocking_release());
            let [one, two] = halves(downgraded);
            ended(one.blocking_release());
            assert!(two.blocking_extend().is_err());
            drop(two);
            // As of one that was lost.
            let [one, two] = halves(writers);
            if let Ok(reads) = one.downgrade() {
                ended(reads.blocking_release());
            }
            drop(two.downgrade());
            let [one, two] = halves(leaderships);
            assert!(one.blocking_proclaim("child").is_err());
            ended(one.blocking_resign());
            drop(two);
            let [one, two] = halves(delayed);
            ended(one.blocking_release());
            drop(two);
            let refused = |error: AcquireError| {
                assert!(matches!(error, AcquireError::RuntimeEnded), "{error}")
            };
            refused(semaphore.acquire().blocking().unwrap_err());
            refused(redlock.read("reader").blocking().unwrap_err());
            refused(redlock.acquire_all(["u", "v"]).blocking().unwrap_err());
            refused(futures::executor::block_on(redlock.read("x").into_future()).unwrap_err());
            drop(redlock.blocking_shutdown());
        };
        let ending = if first { in_a_child(child, || ()) } else { in_a_child(|| (), child) };
        assert_eq!(ending, Ending::Well, "by the first thread: {first}");
    }
    for (node, before) in cluster.iter().zip(before) {
        for (value, key) in before {
            assert_eq!(node.get(&key), value, "{}", String::from_utf8_lossy(&key));
        }
    }
    let held = held.lock().unwrap().take().unwrap();
    assert!(held.sets.iter().chain(&held.writers).chain(&held.delayed).all(Lease::is_valid));
    assert!(held.permits.iter().all(|it| it.is_valid()));
    assert!(held.readers.iter().chain(&held.downgraded).all(ReadLease::is_valid));
    for (election, leadership) in elections.iter().zip(&held.leaderships) {
        let seen = election.blocking_leader().unwrap();
        let leader = seen.leader().unwrap();
        assert_eq!((leader.term, &*leader.text.to_string()), (leadership.term(), "parent"));
    }
    drop(held);
    redlock.blocking_close().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// Copies of waiting requests are dropped in children, and one is awaited there, while other threads of the parent have
/// locks all the time.
#[test]
fn children_of_a_busy_process_drop_its_requests_without_a_lock() {
    use futures::FutureExt;
    use std::future::IntoFuture;
    const CHILDREN: usize = 250;
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).wait(3 * SOON).blocking_connect().unwrap();
    let held = redlock.acquire("held").blocking().unwrap();
    let mut waiting: Vec<_> = (0..20).map(|_| redlock.acquire("held").into_future()).collect();
    for future in &mut waiting {
        assert!(future.now_or_never().is_none());
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let busy = [(); 3].map(|()| {
        let (redlock, stopped) = (redlock.clone(), Arc::clone(&stopped));
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // In line for what is held, and out of it again.
                let mut passing = redlock.acquire("held").into_future();
                assert!((&mut passing).now_or_never().is_none());
                drop(redlock.acquire("hot").blocking().unwrap());
            }
        })
    });
    let waiting = Arc::new(Mutex::new(Some(waiting)));
    for number in 0..CHILDREN {
        let in_the_child = Arc::clone(&waiting);
        let child = move || {
            let mut waiting = in_the_child.lock().unwrap().take().unwrap();
            let awaited = waiting.pop().unwrap();
            drop(waiting);
            let refused = futures::executor::block_on(awaited).unwrap_err();
            assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");
        };
        assert_eq!(in_a_child(|| (), child), Ending::Well, "child {number}");
    }
    stopped.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    held.check().unwrap();
    drop(waiting.lock().unwrap().take());
    held.blocking_release().unwrap();
    redlock.blocking_close().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// A grant that lingers is the parent's: the child does not end it, and asks for it like any other client.
#[test]
fn a_child_leaves_what_lingers_to_its_parent_and_asks_for_it() {
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).blocking_connect().unwrap();
    let take = || redlock.acquire("r").linger(50 * SECOND).blocking().unwrap();
    let first = take();
    let (owner, token) = (first.owner(), first.token().unwrap());
    first.blocking_release().unwrap();
    assert!(cluster.locks_left().len() >= 2, "it is kept");
    let copy = redlock.clone();
    let child = move || {
        let refused = copy.acquire("r").blocking().unwrap_err();
        assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");
        drop(copy.blocking_close());
        copy.blocking_shutdown().unwrap();
    };
    assert_eq!(in_a_child(|| (), child), Ending::Well);
    // The child has given nothing back: the parent has it again without asking the nodes.
    let next = take();
    assert_eq!(next.owner(), owner);
    assert!(next.token().unwrap() > token);
    futures::executor::block_on(next.extend()).unwrap();
    next.blocking_release().unwrap();

    // The key may be on its way to a node that was not free yet when it is released again: then that is seen to once more
    // behind the node timeout, and closing waits for it.
    let builder = settings(&cluster).close_timeout(SOON);
    let asks = move || {
        let redlock = builder.blocking_connect().unwrap();
        // The parent gives it back, long before it would end by itself.
        let lease = redlock.acquire("r").wait(SOON / 2).blocking().unwrap();
        assert!(lease.owner() != owner);
        lease.blocking_release().unwrap();
        redlock.blocking_close().unwrap();
    };
    assert_eq!(in_a_child(|| (), asks), Ending::Well);
    take().blocking_release().unwrap();
    redlock.blocking_close().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// A runtime of the caller's, forked on the very thread that runs it.
#[test]
fn a_child_of_a_process_with_one_thread_for_everything_is_told_at_once() {
    let cluster = Cluster::start(3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let current = TokioRuntime::current().unwrap();
        let redlock = settings(&cluster).runtime(current.clone()).connect().await.unwrap();
        let kept = redlock.acquire("parent").await.unwrap();
        let mut copied = Vec::new();
        for name in ["left here", "dropped here", "released here", "left", "released", "dropped"] {
            copied.push(redlock.acquire(name).await.unwrap());
        }
        let copied = Mutex::new(copied);
        let leases = || {
            let mut copied = copied.lock().unwrap();
            [(); 3].map(|()| copied.pop().unwrap())
        };
        let elsewhere = leases();
        let (copy, settings) = (redlock.clone(), settings(&cluster));
        let dir = tempfile::tempdir().unwrap();
        let owner = dir.path().join("owner");
        // On the thread that forked, inside the runtime, and then on another one.
        let first = || {
            is_told_that_its_parents_are_of_no_use(&redlock, leases());
            let at = current.now().saturating_add(60 * SECOND);
            futures::executor::block_on(current.sleep_until(at));
        };
        let elsewhere = Mutex::new(Some(elsewhere));
        let elsewhere = Arc::new(elsewhere);
        let in_the_child = Arc::clone(&elsewhere);
        let child = move || {
            let leases = in_the_child.lock().unwrap().take().unwrap();
            is_told_that_its_parents_are_of_no_use(&copy, leases);
            has_locks_of_its_own(settings, &owner);
        };
        assert_eq!(in_a_child(first, child), Ending::Well);
        // The parent's engine goes on, and its leases hold.
        kept.check().unwrap();
        for name in ["parent", "released", "dropped", "left", "released here", "left here"] {
            assert!(redlock.try_acquire(name).await.unwrap_err().is_contended(), "{name}");
        }
        kept.release().await.unwrap();
    });
}

/// A child has one thread at first, and that is enough, unless it is to have an engine thread.
#[cfg(target_os = "linux")]
#[test]
fn one_thread_is_enough_for_everything() {
    fn threads() -> usize {
        fs::read_dir("/proc/self/task").unwrap().count()
    }
    let cluster = Cluster::start(3);
    let first = || {
        assert_eq!(threads(), 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let current = TokioRuntime::current().unwrap();
            let redlock = settings(&cluster).runtime(current).connect().await.unwrap();
            let lease = redlock.acquire("r").ttl(SECOND / 2).await.unwrap();
            tokio::time::sleep(SECOND).await;
            lease.check().unwrap();
            assert!(redlock.try_acquire("r").await.unwrap_err().is_contended());
            lease.release().await.unwrap();
            redlock.close().await.unwrap();
            assert_eq!(threads(), 1);
        });
        // One of its own does need one, and here no other test has any.
        let redlock = settings(&cluster).blocking_connect().unwrap();
        assert!(threads() > 1);
        drop(redlock);
    };
    assert_eq!(in_a_child(first, || ()), Ending::Well);
}

/// Children look at the state behind the lock of a lease, while other threads of the parent have that lock.
#[test]
fn children_of_a_busy_process_look_at_its_leases_without_a_lock() {
    const CHILDREN: usize = 250;
    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).blocking_connect().unwrap();
    let lease = Arc::new(redlock.acquire("looked at").blocking().unwrap());
    let reentrant = redlock.reentrant();
    let again = Arc::new(reentrant.acquire("again").blocking().unwrap());
    let election = redlock.election("led");
    let leadership = Arc::new(election.blocking_campaign().unwrap());
    let writer = redlock.acquire("goes on").lock_delay(SECOND).ttl(SECOND * 30).blocking().unwrap();
    let resigns = redlock.election("resigns").blocking_campaign().unwrap();
    let signals = [writer.signal(), resigns.signal()];
    let owned = Arc::new(Mutex::new(Some((writer, resigns))));
    let stopped = Arc::new(AtomicBool::new(false));
    let busy = [(); 3].map(|()| {
        let (lease, stopped) = (Arc::clone(&lease), Arc::clone(&stopped));
        let (leadership, election) = (Arc::clone(&leadership), election.clone());
        let signals = signals.clone();
        let (reentrant, redlock) = (reentrant.clone(), redlock.clone());
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                lease.check().unwrap();
                lease.heartbeat();
                (0..200).for_each(|number| assert!(!signals[number % 2].is_lost()));
                drop(reentrant.acquire("again").blocking().unwrap());
                let permits = redlock.semaphore("api", 5).unwrap();
                drop(permits.acquire().blocking().unwrap());
                drop(redlock.read("read").blocking().unwrap());
                drop(redlock.try_acquire_all(["a", "b"]).blocking());
                leadership.check().unwrap();
                (0..50).for_each(|_| drop(redlock.nodes()));
                assert!(!election.health().is_wedged());
            }
        })
    });
    for number in 0..CHILDREN {
        let (looked_at, leadership, election) =
            (Arc::clone(&lease), Arc::clone(&leadership), election.clone());
        let (reentrant, again) = (reentrant.clone(), Arc::clone(&again));
        let (owned, redlock) = (Arc::clone(&owned), redlock.clone());
        let child = move || {
            let (writer, resigns) = owned.lock().unwrap().take().unwrap();
            assert_eq!(writer.lock_delay(), SECOND);
            let lease = writer.downgrade().unwrap();
            let _ = (lease.check(), lease.clone());
            if number % 2 == 0 {
                drop((lease, resigns));
            } else {
                assert!(lease.blocking_release().is_err() && resigns.blocking_resign().is_err());
            }
            let refused = reentrant.acquire("again").blocking().unwrap_err();
            assert!(matches!(refused, AcquireError::RuntimeEnded), "{refused}");

            let _ = format!("{redlock:?} {reentrant:?}");
            assert!(
                redlock.nodes().iter().all(|node| matches!(node.state, NodeState::Down { .. }))
            );
            let permits = redlock.semaphore("api", 5).unwrap();
            let refused = [
                permits.acquire().blocking().unwrap_err(),
                redlock.read("read").blocking().unwrap_err(),
                redlock.acquire_all(["a", "b"]).blocking().unwrap_err(),
            ];
            assert!(refused.iter().all(|error| matches!(error, AcquireError::RuntimeEnded)));
            let _ = (again.check(), again.ttl());
            let _ = (looked_at.check(), looked_at.validity(), looked_at.signal().check());
            let _ = looked_at.blocking_ending();
            looked_at.heartbeat();
            let _ = (leadership.check(), leadership.term(), election.health());
            assert!(leadership.blocking_proclaim("x").is_err());
            let _ = format!("{looked_at:?} {leadership:?} {election:?}");
        };
        assert_eq!(in_a_child(|| (), child), Ending::Well, "child {number}");
    }
    stopped.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Two requests of one handle: one asks the nodes, and the other waits for its turn. In a child the first is dropped, or polled
/// to its end. Neither wakes the other one, which is the parent's, by a lock that a thread of the parent had.
#[test]
fn a_turn_of_a_handle_is_not_passed_on_in_a_child() {
    use futures::FutureExt as _;

    struct Woken(Mutex<()>);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            // As the queue of a runtime has one.
            drop(self.0.lock().unwrap());
        }
    }

    let cluster = Cluster::start(3);
    let redlock = settings(&cluster).wait(SOON).blocking_connect().unwrap();
    let worker = redlock.reentrant();
    let _held = redlock.acquire("r").blocking().unwrap();
    for polls in [false, true] {
        let mut asks = Box::pin(worker.acquire("r").into_future());
        assert!((&mut asks).now_or_never().is_none());
        // The parent drops its own last, when no thread has the lock any more.
        let asks = Arc::new(Mutex::new(Some(asks)));
        let mut waits = Box::pin(worker.acquire("r").into_future());
        let woken = Arc::new(Woken(Mutex::new(())));
        let waker = std::task::Waker::from(Arc::clone(&woken));
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(waits.poll_unpin(&mut cx).is_pending());
        let (has_it, it_has) = mpsc::channel();
        let (lets_go, is_let_go) = mpsc::channel::<()>();
        let other = Arc::clone(&woken);
        let holds = thread::spawn(move || {
            let held = other.0.lock().unwrap();
            has_it.send(()).unwrap();
            let _ = is_let_go.recv();
            drop(held);
        });
        it_has.recv().unwrap();
        let of_child = Arc::clone(&asks);
        let ends = move || {
            let mut asks = of_child.lock().unwrap().take().unwrap();
            if polls {
                let told = (&mut asks).now_or_never();
                assert!(matches!(told, Some(Err(AcquireError::RuntimeEnded))));
            }
            drop(asks);
        };
        let ending = in_a_child(|| {}, ends);
        assert_eq!(ending, Ending::Well, "{polls}");
        drop(lets_go);
        holds.join().unwrap();
    }
}

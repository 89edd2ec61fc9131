//! Review: bursts of other shapes.
use std::{
    collections::BTreeMap,
    future::IntoFuture,
    time::{Duration, Instant},
};

use quorlock::{AcquireError, Lease, Redlock};

use super::{MS, SECOND, SOON, admitted, alone, ready, settings};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn kind(e: &AcquireError) -> String {
    format!("{e:?}").split([' ', '{', '(']).next().unwrap().to_owned()
}

async fn burst(
    redlock: &Redlock,
    names: impl Fn(usize) -> String,
    n: usize,
    wait: Duration,
) -> (Vec<Lease>, BTreeMap<String, usize>, Option<AcquireError>) {
    let tasks: Vec<_> =
        (0..n).map(|n| tokio::spawn(redlock.acquire(names(n)).wait(wait).into_future())).collect();
    let (mut leases, mut errors, mut sample) = (Vec::new(), BTreeMap::new(), None);
    for task in tasks {
        match task.await.unwrap() {
            Ok(lease) => leases.push(lease),
            Err(e) => {
                *errors.entry(kind(&e)).or_insert(0) += 1;
                if matches!(e, AcquireError::NoQuorum { .. }) {
                    sample = Some(e);
                }
            }
        }
    }
    (leases, errors, sample)
}

fn hold(redlock: &Redlock, ttl: Duration) -> Vec<Lease> {
    (0..50)
        .map(|n| redlock.acquire(format!("held:{n}")).ttl(ttl).wait(SOON).blocking().unwrap())
        .collect()
}

fn lost(held: &[Lease]) -> usize {
    held.iter().filter(|lease| lease.check().is_err()).count()
}

#[test]
fn single_rounds_in_a_burst() {
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock, 3 * SECOND);
    let mut bad = 0;
    runtime().block_on(async {
        for round in 0..30 {
            let n = [64, 200, 500, 1000, 2000][round % 5];
            let began = Instant::now();
            let (leases, errors, sample) =
                burst(&redlock, |i| format!("b{round}:{i}"), n, Duration::ZERO).await;
            println!(
                "{round} {n}: {:?} {} {errors:?} {:?}; lost {} {redlock:?}",
                began.elapsed(),
                leases.len(),
                sample.map(|e| e.to_string()),
                lost(&held)
            );
            bad += errors.get("NoQuorum").copied().unwrap_or(0);
            for lease in leases {
                let _ = lease.release().await;
            }
        }
    });
    assert_eq!(lost(&held), 0);
    assert_eq!(bad, 0);
}

#[test]
fn all_want_one() {
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock, 3 * SECOND);
    let mut bad = 0;
    runtime().block_on(async {
        for round in 0..2 {
            let first = redlock.acquire("one").await.unwrap();
            let began = Instant::now();
            let (leases, errors, sample) =
                burst(&redlock, |_| "one".to_owned(), 5000, 8 * SECOND).await;
            println!(
                "{round}: {:?} {} {errors:?} {:?}; lost {} {redlock:?}",
                began.elapsed(),
                leases.len(),
                sample.map(|e| e.to_string()),
                lost(&held)
            );
            bad += errors.get("NoQuorum").copied().unwrap_or(0);
            drop(leases);
            first.release().await.unwrap();
        }
    });
    assert_eq!(lost(&held), 0);
    assert_eq!(bad, 0);
}

#[test]
fn hung_minority() {
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock, 3 * SECOND);
    let mut bad = 0;
    runtime().block_on(async {
        for round in 0..6 {
            if round % 2 == 1 { cluster[0].pause(); }
            let began = Instant::now();
            let (leases, errors, sample) =
                burst(&redlock, |i| format!("b{round}:{i}"), 3000, 10 * SECOND).await;
            let took = began.elapsed();
            let began = Instant::now();
            let n = leases.len();
            let mut unconfirmed = 0;
            let releases: Vec<_> = leases.into_iter().map(Lease::release).collect();
            for r in releases { unconfirmed += usize::from(r.await.is_err()); }
            println!("{round}: {took:?} {n} {errors:?} {:?}; rel {:?} unconfirmed {unconfirmed}; lost {} {redlock:?}", sample.map(|e| e.to_string()), began.elapsed(), lost(&held));
            bad += errors.get("NoQuorum").copied().unwrap_or(0) + unconfirmed;
            if round % 2 == 1 { cluster[0].resume(); tokio::time::sleep(2 * SECOND).await; }
        }
    });
    assert_eq!(lost(&held), 0);
    assert_eq!(bad, 0);
}

#[test]
fn hung_majority_in_a_burst() {
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock, 30 * SECOND);
    runtime().block_on(async {
        for (round, hang) in [500u32, 2000, 4000].into_iter().enumerate() {
            cluster[0].pause();
            cluster[1].pause();
            let began = Instant::now();
            let (a, b) = tokio::join!(
                burst(&redlock, |i| format!("b{round}:{i}"), 3000, 30 * SECOND),
                async {
                    tokio::time::sleep(hang * MS).await;
                    cluster[0].resume();
                    cluster[1].resume();
                    println!("resumed at {:?}: {redlock:?}", began.elapsed());
                    let l = redlock.acquire(format!("x{round}")).wait(30 * SECOND).await;
                    println!("first {:?} at {:?}: {redlock:?}", l.is_ok(), began.elapsed());
                }
            );
            let (leases, errors, sample) = a;
            let () = b;
            println!(
                "{round}: {:?} {} {errors:?} {:?}; lost {} {redlock:?}",
                began.elapsed(),
                leases.len(),
                sample.map(|e| e.to_string()),
                lost(&held)
            );
            let began = Instant::now();
            let releases: Vec<_> = leases.into_iter().map(Lease::release).collect();
            let mut unconfirmed = 0;
            for r in releases {
                unconfirmed += usize::from(r.await.is_err());
            }
            println!("rel {:?} unconfirmed {unconfirmed}", began.elapsed());
        }
    });
    assert_eq!(lost(&held), 0);
    drop(held);
    redlock.close_blocking().unwrap();
    println!("left {}", cluster.locks_left().len());
}

/// Forwards to a server; once armed, a chunk that names `needle` is delivered this much later, and its client is cut off at
/// once.
mod interposer {
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
        sync::{Arc, Mutex},
        thread,
        time::Duration,
    };

    pub(super) struct Interposer {
        pub(super) port: u16,
        armed: Arc<Mutex<Option<(Vec<u8>, Duration)>>>,
    }

    impl Interposer {
        pub(super) fn start(target: u16) -> Self {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let armed: Arc<Mutex<Option<(Vec<u8>, Duration)>>> = Arc::default();
            let seen = Arc::clone(&armed);
            thread::spawn(move || {
                for client in listener.incoming() {
                    let client = client.unwrap();
                    let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                    for socket in [&client, &server] {
                        socket.set_nodelay(true).unwrap();
                    }
                    let (mut from, mut to) =
                        (server.try_clone().unwrap(), client.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                    let seen = Arc::clone(&seen);
                    let (mut from, mut to) = (client, server);
                    thread::spawn(move || {
                        let mut chunk = vec![0; 1 << 16];
                        while let Ok(length @ 1..) = from.read(&mut chunk) {
                            let chunk = &chunk[..length];
                            let held = {
                                let mut armed = seen.lock().unwrap();
                                let hit = armed.as_ref().is_some_and(|(needle, _)| {
                                    chunk.windows(needle.len()).any(|window| window == needle)
                                });
                                if hit { armed.take() } else { None }
                            };
                            if let Some((_, time)) = held {
                                from.shutdown(Shutdown::Both).unwrap();
                                thread::sleep(time);
                                let _ = to.write_all(chunk);
                                thread::sleep(Duration::from_secs(1));
                                return;
                            }
                            if to.write_all(chunk).is_err() {
                                return;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            });
            Self { port, armed }
        }

        pub(super) fn arm(&self, needle: &[u8], time: Duration) {
            *self.armed.lock().unwrap() = Some((needle.to_owned(), time));
        }
    }
}

#[test]
fn an_acquire_that_arrives_as_late_as_it_may_is_released() {
    let _turn = alone();
    const NODE_TIMEOUT: Duration = Duration::from_millis(400);
    let ttl = 20 * SECOND;
    let cluster = admitted(3, ttl);
    let proxy = interposer::Interposer::start(cluster[2].port());
    let nodes = [cluster[0].url(), cluster[1].url(), format!("redis://127.0.0.1:{}", proxy.port)];
    let redlock = ready(
        Redlock::builder()
            .nodes(nodes)
            .node_timeout(NODE_TIMEOUT)
            .max_ttl(ttl)
            .connect_timeout(10 * SECOND),
    );
    let mut left = Vec::new();
    for beyond in [0u32, 30, 50, 70, 90, 150] {
        super::all_ready(&redlock);
        let name = format!("late:{beyond}");
        (0..2).for_each(|node| cluster[node].set(&name, "somebody else", None));
        proxy.arm(name.as_bytes(), NODE_TIMEOUT + beyond * MS);
        let error = redlock.try_acquire(&name).ttl(ttl).blocking().unwrap_err();
        std::thread::sleep(3 * SECOND);
        let stands = cluster[2].get(&name).is_some();
        println!("{beyond} ms beyond the node timeout: stands {stands}; {error}");
        if stands {
            left.push(beyond);
        }
    }
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn releases_of_slow_servers() {
    use quorlock_harness::Proxy;
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let proxies: Vec<Proxy> = cluster.iter().map(|server| Proxy::start(server.port())).collect();
    let redlock = ready(
        Redlock::builder()
            .nodes(proxies.iter().map(Proxy::url))
            .connect_timeout(10 * SECOND)
            .node_timeout(100 * MS)
            .max_ttl(30 * SECOND)
            .close_timeout(60 * SECOND),
    );
    runtime().block_on(async {
        for how in ["slow", "stopped"] {
            let (leases, errors, _) =
                burst(&redlock, |i| format!("{how}:{i}"), 1000, 10 * SECOND).await;
            println!("{how}: {} {errors:?}", leases.len());
            if how == "slow" {
                proxies.iter().for_each(|proxy| proxy.delay(800 * MS));
            } else {
                (0..2).for_each(|node| cluster[node].pause());
            }
            let began = Instant::now();
            let releases: Vec<_> = leases.into_iter().map(Lease::release).collect();
            let (mut unconfirmed, mut last) = (0, Duration::ZERO);
            for r in releases {
                unconfirmed += usize::from(r.await.is_err());
                last = began.elapsed();
            }
            println!(
                "{how}: {unconfirmed} unconfirmed, the last after {last:?}; {:?}",
                redlock.nodes().iter().map(|n| format!("{:?}", n.state)).collect::<Vec<_>>()
            );
            proxies.iter().for_each(Proxy::heal);
            (0..2).for_each(|node| cluster[node].resume());
            super::all_ready(&redlock);
        }
    });
}

/// A user's runtime that ends.
mod ending {
    use std::time::Duration;

    use quorlock::{
        protocol::Timestamp,
        runtime::{Runtime, Task, TokioRuntime},
    };

    #[derive(Debug)]
    pub(super) struct Ending {
        pub(super) handle: tokio::runtime::Handle,
        pub(super) inner: TokioRuntime,
        pub(super) slow: Duration,
    }

    impl Runtime for Ending {
        fn now(&self) -> Timestamp {
            self.inner.now()
        }
        fn wall_us(&self) -> u64 {
            self.inner.wall_us()
        }
        fn sleep_until(&self, at: Timestamp) -> Task {
            let left = at.saturating_since(self.now()).min(Duration::from_secs(3600));
            let _entered = self.handle.enter();
            Box::pin(tokio::time::sleep(left))
        }
        fn spawn(&self, task: Task) {
            let slow = self.slow;
            drop(self.handle.spawn(async move {
                if !slow.is_zero() {
                    tokio::time::sleep(slow).await;
                }
                task.await;
            }));
        }
        fn random(&self) -> [u8; 16] {
            self.inner.random()
        }
    }
}

#[test]
fn a_runtime_that_ends_under_a_burst() {
    use quorlock::runtime::TokioRuntime;
    use std::sync::Arc;
    let _turn = alone();
    for round in 0..6 {
        let cluster = admitted(3, 30 * SECOND);
        let users = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let runtime_of_users = Arc::new(ending::Ending {
            handle: users.handle().clone(),
            inner: TokioRuntime::shared().unwrap(),
            slow: if round % 2 == 1 { 20 * MS } else { Duration::ZERO },
        });
        let redlock = ready(
            settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND).runtime(runtime_of_users),
        );
        runtime().block_on(async {
            let (leases, errors, sample) =
                burst(&redlock, |i| format!("held:{i}"), 500, 10 * SECOND).await;
            println!("{} {errors:?} {sample:?}", leases.len());
            cluster.iter().for_each(|server| server.pause());
            let releases: Vec<_> = leases.into_iter().map(Lease::release).collect();
            let acquires: Vec<_> = (0..500)
                .map(|n| {
                    tokio::spawn(
                        redlock.acquire(format!("r:{n}")).wait_without_deadline().into_future(),
                    )
                })
                .collect();
            tokio::time::sleep(150 * MS).await;
            if round < 4 {
                users.shutdown_background();
            } else {
                tokio::task::spawn_blocking(move || drop(users)).await.unwrap();
            }
            let mut ends: BTreeMap<String, usize> = BTreeMap::new();
            let all = async {
                for a in acquires {
                    *ends
                        .entry(a.await.unwrap().map_or_else(|e| kind(&e), |_| "Ok".into()))
                        .or_insert(0) += 1;
                }
                for r in releases {
                    *ends
                        .entry(format!(
                            "release {:?}",
                            r.await
                                .map_err(|e| format!("{e:?}").chars().take(14).collect::<String>())
                        ))
                        .or_insert(0) += 1;
                }
            };
            let hung = tokio::time::timeout(10 * SECOND, all).await.is_err();
            println!("{round}: hung {hung} {ends:?}");
            let after =
                tokio::time::timeout(5 * SECOND, redlock.acquire("after").into_future()).await;
            println!("{round}: after {after:?}");
            assert!(!hung && after.is_ok());
        });
        cluster.iter().for_each(|server| server.resume());
    }
}

#[test]
fn closing_while_thousands_wait() {
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock, 3 * SECOND);
    runtime().block_on(async {
        let acquires: Vec<_> = (0..5000)
            .map(|n| {
                tokio::spawn(
                    redlock.acquire(format!("r:{}", n % 50)).wait_without_deadline().into_future(),
                )
            })
            .collect();
        tokio::time::sleep(300 * MS).await;
        let began = Instant::now();
        println!("closed {:?} in {:?}", redlock.close().await, began.elapsed());
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for a in acquires {
            *ends
                .entry(a.await.unwrap().map_or_else(|e| kind(&e), |_| "Ok".into()))
                .or_insert(0) += 1;
        }
        println!("{ends:?} {:?}", began.elapsed());
        tokio::time::sleep(4 * SECOND).await;
        println!("lost {}", lost(&held));
    });
    assert_eq!(lost(&held), 0);
    drop(held);
    super::eventually("no key is left", SOON, || cluster.locks_left().is_empty());
}

/// A user's runtime whose random numbers fail now and then.
mod unlucky {
    use std::sync::atomic::{AtomicBool, Ordering};

    use quorlock::{
        protocol::Timestamp,
        runtime::{Runtime, Task, TokioRuntime},
    };

    #[derive(Debug)]
    pub(super) struct Unlucky {
        pub(super) inner: TokioRuntime,
        pub(super) armed: AtomicBool,
    }

    impl Runtime for Unlucky {
        fn now(&self) -> Timestamp {
            self.inner.now()
        }
        fn steady(&self) -> Timestamp {
            self.inner.steady()
        }
        fn wall_us(&self) -> u64 {
            self.inner.wall_us()
        }
        fn sleep_until(&self, at: Timestamp) -> Task {
            self.inner.sleep_until(at)
        }
        fn spawn(&self, task: Task) {
            self.inner.spawn(task);
        }
        fn random(&self) -> [u8; 16] {
            assert!(!self.armed.swap(false, Ordering::SeqCst), "no random numbers");
            self.inner.random()
        }
    }
}

#[test]
fn a_runtime_that_panics_once_costs_no_node_for_good() {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use quorlock::{node::NodeState, runtime::TokioRuntime};
    let _turn = alone();
    let cluster = admitted(3, SECOND);
    let runtime = Arc::new(unlucky::Unlucky {
        inner: TokioRuntime::shared().unwrap(),
        armed: AtomicBool::new(false),
    });
    let redlock = ready(settings(&cluster, SECOND).runtime(Arc::clone(&runtime) as _));
    runtime.armed.store(true, Ordering::SeqCst);
    // Its connection ends, and the pause before the next attempt is drawn.
    cluster[0].run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    super::eventually("it has panicked", SOON, || !runtime.armed.load(Ordering::SeqCst));
    std::thread::sleep(5 * SECOND);
    let state = redlock.nodes()[0].state.clone();
    assert_eq!(state, NodeState::Ready);
}

#[test]
fn one_node_after_the_other_hangs() {
    let _turn = alone();
    let cluster = admitted(3, 30 * SECOND);
    let redlock = ready(settings(&cluster, 30 * SECOND).close_timeout(60 * SECOND));
    let held = hold(&redlock, 6 * SECOND);
    let mut bad = 0;
    runtime().block_on(async {
        let hanging = async {
            for round in 0..24 {
                cluster[round % 3].pause();
                tokio::time::sleep(1500 * MS).await;
                cluster[round % 3].resume();
                println!(
                    "{round}: lost {}, first {:?}, states {:?}",
                    lost(&held),
                    held.iter().find_map(|l| l.check().err()),
                    redlock.nodes().iter().map(|n| format!("{:?}", n.state)).collect::<Vec<_>>()
                );
                tokio::time::sleep(60 * MS).await;
            }
        };
        let working = async {
            let mut n = 0;
            let mut longest = Duration::ZERO;
            loop {
                n += 1;
                let began = Instant::now();
                match redlock.try_acquire(format!("w:{n}")).await {
                    Ok(lease) => {
                        if let Err(e) = lease.release().await {
                            println!("{n}: release {e}");
                            bad += 1;
                        }
                    }
                    Err(e) => {
                        println!("{n}: {e}");
                        bad += 1;
                    }
                }
                if began.elapsed() > longest {
                    longest = began.elapsed();
                    println!("{n}: longest {longest:?}");
                }
                if n % 200 == 0 {
                    let (leases, errors, s) =
                        burst(&redlock, |i| format!("b{n}:{i}"), 300, 5 * SECOND).await;
                    if !errors.is_empty() {
                        println!("{} {errors:?} {s:?}", leases.len());
                        bad += 1;
                    }
                }
                tokio::time::sleep(3 * MS).await;
            }
        };
        let mut working = Box::pin(working);
        tokio::select! { _ = hanging => {}, _ = &mut working => {} }
        drop(working);
    });
    println!("bad {bad}, lost {}", lost(&held));
    assert_eq!((bad, lost(&held)), (0, 0));
}

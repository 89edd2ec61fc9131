//! Goal: every kind of lease holds what it promises while other things happen to the nodes: a minority forgets, another
//! fleet works on the same server, clocks are stepped there and back, bursts of all kinds come at once, and the process
//! ends.
//!
//! Method: one of each kind is held at once, on real servers, and an adversary asks for the same all the time.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use futures::{FutureExt as _, future::BoxFuture};
use quorlock::{
    AcquireError, Leadership, Lease, LossReason, Observed, Permit, ReadLease, ReadToken,
};

use super::{clock::Clocks, *};

/// One of each kind.
struct Held {
    one: Lease,
    set: Lease,
    permit: Permit,
    reader: ReadLease,
    lowered: ReadLease,
    leadership: Leadership,
    delayed: Lease,
}

/// Whether a reader's entry stands at a node.
fn reads(server: &Server, key: &str, lease: &ReadLease) -> bool {
    let (readers, owner) = (format!("quorlock:readers:{key}"), lease.owner().to_string());
    server.get(key).is_some() && server.run(&["ZSCORE", &readers, &owner]) != redis::Value::Nil
}

const SET: [&str; 3] = ["set:a", "set:b", "set:c"];

impl Held {
    /// The longest ttl is `max_ttl`.
    fn by(redlock: &Redlock, ttl: Duration, max_ttl: Duration) -> Self {
        Self {
            one: redlock.acquire("one").ttl(ttl).blocking().unwrap(),
            set: redlock.acquire_all(SET).ttl(ttl).blocking().unwrap(),
            permit: redlock.semaphore("permit", 1).unwrap().acquire().ttl(ttl).blocking().unwrap(),
            reader: redlock.read("reader").ttl(ttl).blocking().unwrap(),
            lowered: redlock.write("lowered").ttl(ttl).blocking().unwrap().downgrade().unwrap(),
            leadership: redlock
                .election("leader")
                .ttl(ttl)
                .text("here")
                .blocking_campaign()
                .unwrap(),
            delayed: redlock
                .acquire("delayed")
                .ttl(ttl)
                .lock_delay(max_ttl - ttl)
                .blocking()
                .unwrap(),
        }
    }

    fn checks(&self) -> [(&'static str, Option<LossReason>); 7] {
        let of = |check: Result<_, quorlock::LeaseLost>| check.err().map(|lost| lost.reason);
        [
            ("one", of(self.one.check())),
            ("set", of(self.set.check())),
            ("permit", of(self.permit.check())),
            ("reader", of(self.reader.check())),
            ("lowered", of(self.lowered.check())),
            ("leadership", of(self.leadership.check())),
            ("delayed", of(self.delayed.check())),
        ]
    }

    #[track_caller]
    fn all_hold(&self, when: &str) {
        for (what, lost) in self.checks() {
            assert_eq!(lost, None, "{what}, {when}");
        }
    }

    /// Whether each key stands there with its own owner, though others ask there meanwhile.
    fn stands_at(&self, server: &Server) -> bool {
        let of = |key: &str, owner: quorlock::protocol::Owner| {
            server.get(key).as_deref() == Some(owner.to_hex().as_slice())
        };
        of("one", self.one.owner())
            && SET.into_iter().all(|key| of(key, self.set.owner()))
            && of("permit/0", self.permit.owner())
            && of("leader", self.leadership.owner())
            && of("delayed", self.delayed.owner())
            && reads(server, "reader", &self.reader)
            && reads(server, "lowered", &self.lowered)
    }

    fn release(self) {
        self.one.blocking_release().unwrap();
        self.set.blocking_release().unwrap();
        self.permit.blocking_release().unwrap();
        self.reader.blocking_release().unwrap();
        self.lowered.blocking_release().unwrap();
        self.leadership.blocking_resign().unwrap();
        self.delayed.blocking_release().unwrap();
    }
}

/// The held resources that another client is granted, asked for once each.
fn stolen(by: &Redlock) -> Vec<&'static str> {
    let mut stolen = Vec::new();
    let mut ask = |what, lease: Result<(), AcquireError>| {
        if lease.is_ok() {
            stolen.push(what);
        }
    };
    let of = |lease: Result<Lease, _>| lease.map(drop);
    ask("one", of(by.try_acquire("one").blocking()));
    ask("read of one", by.try_read("one").blocking().map(drop));
    ask("a part of the set", of(by.try_acquire("set:b").blocking()));
    ask("a set", of(by.try_acquire_all(["set:c", "other"]).blocking()));
    let semaphore = by.semaphore("permit", 1).unwrap();
    ask("permit", semaphore.try_acquire().blocking().map(drop));
    ask("reader", of(by.try_write("reader").blocking()));
    ask("a set of what is read", of(by.try_acquire_all(["reader", "other"]).blocking()));
    ask("lowered", of(by.try_write("lowered").blocking()));
    ask("leader", of(by.try_acquire("leader").blocking()));
    ask("delayed", of(by.try_acquire("delayed").blocking()));
    stolen
}

/// While this does its work, another client and one that has seen nothing ask for all that is held. An observer of the
/// election sees no smaller term and no other leader.
fn under_attack(settings: impl Fn() -> Builder + Sync, held: &Held, work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let (asked, looks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let term = held.leadership.term();
    thread::scope(|scope| {
        let attackers: Vec<_> = [false, true]
            .map(|fresh| {
                let (over, asked, settings) = (&over, &asked, &settings);
                scope.spawn(move || {
                    let known = ready(settings());
                    while !over.load(Ordering::Relaxed) {
                        let client = if fresh {
                            settings().blocking_connect().ok()
                        } else {
                            Some(known.clone())
                        };
                        let got = client.as_ref().map(stolen).unwrap_or_default();
                        assert!(
                            got.is_empty(),
                            "{got:?} by a client that is fresh: {fresh}; {:?}",
                            held.checks()
                        );
                        asked.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(5 * MS);
                    }
                })
            })
            .into_iter()
            .collect();
        let watcher = {
            let (over, looks, settings) = (&over, &looks, &settings);
            scope.spawn(move || {
                let redlock = ready(settings());
                let election = redlock.election("leader");
                while !over.load(Ordering::Relaxed) {
                    match election.blocking_leader().unwrap() {
                        Observed::Leads(leader) => {
                            assert_eq!((leader.term, &*leader.text.to_string()), (term, "here"));
                            looks.fetch_add(1, Ordering::Relaxed);
                        }
                        Observed::Nobody => panic!("somebody leads"),
                        _ => {}
                    }
                    thread::sleep(5 * MS);
                }
            })
        };
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        attackers.into_iter().for_each(|it| it.join().unwrap());
        watcher.join().unwrap();
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    println!("asked {asked:?} times, and seen to lead {looks:?} times");
    assert!(asked.into_inner() > 2 && looks.into_inner() > 2);
}

/// A node that forgot gets the term and the readers' entries again, and no other client gets in meanwhile.
#[test]
fn each_node_in_turn_forgets_all_that_is_held() {
    let (ttl, max_ttl) = (3 * SECOND, 4 * SECOND);
    let cluster = admitted(3, max_ttl);
    let settings = || settings(&cluster, max_ttl);
    let redlock = ready(settings());
    let held = Held::by(&redlock, ttl, max_ttl);
    let two = ready(settings());
    let beside = two.read("reader").ttl(ttl).blocking().unwrap();
    let recorded = |server: &Server| {
        let entry = server.run(&["HGET", "quorlock:counters", "leader"]);
        redis::from_redis_value::<Option<String>>(entry)
            .unwrap()
            .is_some_and(|it| it.contains("here"))
    };
    eventually("it is proclaimed", SOON, || cluster.iter().all(recorded));
    under_attack(settings, &held, || {
        for round in 0..6 {
            let node = &cluster[round % 3];
            if round < 3 {
                node.flush();
            } else {
                node.restart_empty();
            }
            eventually("it is seen", SOON, || {
                is_quarantined(&redlock, round % 3) && is_quarantined(&two, round % 3)
            });
            held.all_hold("while a node is kept from voting");
            all_ready(&redlock);
            all_ready(&two);
            eventually("all is set again", SOON, || {
                held.stands_at(node) && recorded(node) && reads(node, "reader", &beside)
            });
            held.all_hold("behind that");
            beside.check().unwrap();
        }
    });
    let (read, term) = (held.reader.token(), held.leadership.term());
    held.release();
    beside.blocking_release().unwrap();
    let next = two.try_write("reader").blocking().unwrap();
    assert!(ReadToken::from(next.token().unwrap()) > read);
    next.blocking_release().unwrap();
    let next = two.election("leader").blocking_campaign().unwrap();
    assert!(next.term() > term);
    next.blocking_resign().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// Each node's clock in turn jumps ahead or back, by a minute or a little more than a lease, and soon after back again, also
/// between two looks.
#[test]
fn each_clock_in_turn_is_stepped_there_and_back_under_all_that_is_held() {
    let (ttl, max_ttl) = (6 * SECOND, 8 * SECOND);
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, max_ttl);
    let settings = || settings(cluster, max_ttl);
    let redlock = ready(settings());
    let held = Held::by(&redlock, ttl, max_ttl);
    under_attack(settings, &held, || {
        for (round, offset) in
            [60_000, -60_000, 6_300, -6_300, 3_600_000, -3_600_000].into_iter().enumerate()
        {
            let node = round % 3;
            clocks.jump(node, 1_000 * offset);
            if round % 2 == 0 {
                thread::sleep(300 * MS);
            }
            clocks.jump(node, 0);
            held.all_hold("right behind a step there and back");
            thread::sleep(300 * MS);
            all_ready(&redlock);
            // Another client may have seen the step that this one has not, and has the node in quarantine.
            eventually("the node is admitted", SOON, || {
                let state = cluster[node].run(&["HGET", MARKER, "state"]);
                redis::from_redis_value::<String>(state).unwrap() == "ready"
            });
            all_ready(&redlock);
            eventually("all is set again", SOON, || held.stands_at(&cluster[node]));
            held.all_hold("behind a step there and back");
        }
    });
    held.release();
    let since = Instant::now();
    drop(redlock.write("reader").wait(SOON).blocking().unwrap());
    drop(redlock.write("lowered").wait(SOON).blocking().unwrap());
    println!("written {:?} behind the readers", since.elapsed());
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

/// A lock-delay covers a step of a node's clock that is shorter, also for a client that knows nothing of it.
#[test]
fn a_delay_covers_a_step_ahead_that_nobody_has_seen() {
    let (ttl, delay) = (40 * SECOND, 60 * SECOND);
    let max_ttl = ttl + delay;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, max_ttl);
    let first = ready(settings(cluster, max_ttl));
    cluster[2].set("r", "somebody else", None);
    let request = first.try_acquire("r").ttl(ttl).lock_delay(delay).without_renewal();
    let held = request.blocking().unwrap();
    cluster[2].del("r");
    clocks.jump(1, 50_000_000);
    let fresh = ready(settings(cluster, max_ttl));
    let asked = fresh.try_acquire("r").blocking();
    assert!(held.is_valid(), "in time");
    assert!(asked.unwrap_err().is_contended(), "a quorum is somebody's");
    clocks.jump(1, 0);
}

/// Two fleets of one name and one size that have one server in common by mistake. Neither keeps the other from anything, since
/// each has a quorum of its own, and neither loses what it holds.
#[test]
fn two_fleets_of_one_name_that_share_a_server_harm_each_other_in_nothing_but_its_vote() {
    let (ttl, max_ttl) = (SECOND, 2 * SECOND);
    let (servers, shared) = (Cluster::start(4), Server::start());
    let fleet = |at: usize| {
        let nodes = [shared.url(), servers[at].url(), servers[at + 1].url()];
        Redlock::builder()
            .nodes(nodes)
            .connect_timeout(10 * SECOND)
            .node_timeout(100 * MS)
            .ttl(max_ttl)
            .max_ttl(max_ttl)
    };
    // It is away while both begin: nothing else lets two lists that share a node be used.
    let begin = |at| {
        let redlock = fleet(at).danger_skip_quarantine().blocking_connect().unwrap();
        redlock.blocking_ready(10 * SECOND).unwrap();
        redlock
    };
    shared.kill();
    for at in [0, 2] {
        begin(at).blocking_close().unwrap();
    }
    shared.restart_empty();
    let connected = |at| {
        let redlock = fleet(at).build().unwrap();
        redlock.blocking_ready(10 * SECOND).unwrap();
        redlock
    };
    let (one, two) = (connected(0), connected(2));
    let by_one = Held::by(&one, ttl, max_ttl);
    let by_two = Held::by(&two, ttl, max_ttl);
    let (again_one, again_two) = (connected(0), connected(2));
    let since = Instant::now();
    let mut turns = 0;
    while since.elapsed() < 3 * max_ttl {
        assert_eq!(stolen(&again_one), Vec::<&str>::new());
        assert_eq!(stolen(&again_two), Vec::<&str>::new());
        // What both want over and over.
        for (redlock, wait) in [(&again_one, SECOND), (&again_two, SECOND)] {
            redlock.acquire("free").wait(wait).blocking().unwrap().blocking_release().unwrap();
            redlock.read("free").wait(wait).blocking().unwrap().blocking_release().unwrap();
            let semaphore = redlock.semaphore("free", 2).unwrap();
            semaphore.acquire().wait(wait).blocking().unwrap().blocking_release().unwrap();
        }
        turns += 1;
        if turns == 5 {
            shared.restart_empty();
        }
    }
    println!("{turns} turns");
    by_one.all_hold("of one fleet");
    by_two.all_hold("of the other");
    by_one.release();
    by_two.release();
    eventually("nothing is left", SOON, || {
        servers.locks_left().is_empty() && shared.locks().is_empty()
    });
}

/// Waits until each of these lines has a waiter, on every node.
fn stand_in_line(cluster: &Cluster, names: &[&str]) {
    eventually("they stand in line", SOON, || {
        cluster.iter().all(|server| {
            let keys = server.keys();
            names.iter().all(|name| keys.contains(&format!("quorlock:line:{name}").into_bytes()))
        })
    });
}

/// All that a process holds is given up, and waiters elsewhere are served.
#[test]
fn a_close_counts_one_of_each_kind_and_a_shutdown_ends_them() {
    let (ttl, max_ttl) = (2 * SECOND, 5 * SECOND);
    let cluster = admitted(3, max_ttl);
    let settings = || settings(&cluster, max_ttl).wait(SOON).close_timeout(SOON);
    for shut_down in [false, true] {
        let (redlock, two) = (ready(settings()), ready(settings()));
        let held = Held::by(&redlock, ttl, max_ttl);
        drop(redlock.acquire("lingers").linger(ttl).blocking().unwrap());
        let waits =
            |redlock: &Redlock| -> Vec<(&'static str, BoxFuture<'static, Result<(), String>>)> {
                let text = |error: AcquireError| format!("{error:?}");
                let acquire = |request: quorlock::Acquire| {
                    request.into_future().map(move |got| got.map(drop).map_err(text)).boxed()
                };
                let semaphore = redlock.semaphore("permit", 1).unwrap();
                let election = redlock.election("leader");
                vec![
                    ("one", acquire(redlock.acquire("one"))),
                    ("set", acquire(redlock.acquire_all(["set:a", "set:c"]))),
                    ("writer", acquire(redlock.write("reader"))),
                    ("lowered", acquire(redlock.write("lowered"))),
                    ("delayed", acquire(redlock.acquire("delayed"))),
                    ("lingers", acquire(redlock.acquire("lingers"))),
                    (
                        "permit",
                        semaphore
                            .acquire()
                            .into_future()
                            .map(move |got| got.map(drop).map_err(text))
                            .boxed(),
                    ),
                    (
                        "reads one",
                        redlock
                            .read("one")
                            .into_future()
                            .map(move |got| got.map(drop).map_err(text))
                            .boxed(),
                    ),
                    (
                        "leader",
                        async move {
                            election
                                .campaign()
                                .await
                                .map(drop)
                                .map_err(|error| format!("{error:?}"))
                        }
                        .boxed(),
                    ),
                ]
            };
        let run = |waits: Vec<(&'static str, BoxFuture<'static, Result<(), String>>)>| -> Vec<_> {
            waits
                .into_iter()
                .map(|(what, future)| (what, thread::spawn(|| futures::executor::block_on(future))))
                .collect()
        };
        let (here, there) = (run(waits(&redlock)), run(waits(&two)));
        let of_two = [
            "one",
            "set:a",
            "set:c",
            "reader",
            "lowered",
            "delayed",
            "leader",
            "quorlock:slots:permit",
        ];
        stand_in_line(&cluster, &of_two);
        if shut_down {
            let done = redlock.blocking_shutdown().unwrap();
            println!("{done:?}");
            assert_eq!((done.released, done.gone), (7, 0));
            for (what, lost) in held.checks() {
                // A writer that reads since, as a reader.
                assert_eq!(lost, Some(LossReason::ShutDown), "{what}");
            }
        } else {
            let closed = redlock.blocking_close().unwrap();
            assert_eq!(closed.held, 7);
            held.all_hold("behind a close");
            thread::sleep(2 * ttl);
            held.all_hold("behind a close, for longer than a ttl");
            held.release();
        }
        for (what, waits) in here {
            let said = waits.join().unwrap();
            // What lingered was free for the taking.
            let is_told = said.as_ref().is_err_and(|error| error.contains("is closed"));
            assert!(is_told || what == "lingers" && said.is_ok(), "{what}: {said:?}");
        }
        for (what, waits) in there {
            assert_eq!(waits.join().unwrap(), Ok(()), "{what}");
        }
        eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
        two.blocking_close().unwrap();
    }
}

/// Bursts of all kinds, one beside the other, that want what is free and what is held.
#[test]
fn a_burst_of_all_kinds_loses_nothing_that_is_held() {
    const BURST: usize = 5_000;
    let (ttl, max_ttl) = (8 * SECOND, 16 * SECOND);
    let cluster = admitted(3, max_ttl);
    // A request of a single round would be told that nodes are late, which are busy and not broken.
    let settings =
        || settings(&cluster, max_ttl).node_timeout(5 * SECOND).close_timeout(60 * SECOND);
    let redlock = ready(settings());
    let held = Held::by(&redlock, ttl, max_ttl);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let since = Instant::now();
    while since.elapsed() < ttl + ttl / 2 {
        let (granted, busy, crowded, failed) = runtime.block_on(async {
            let semaphore = redlock.semaphore("burst", 10).unwrap();
            let taken = redlock.semaphore("permit", 1).unwrap();
            let tasks: Vec<_> = (0..BURST)
                .map(|n| {
                    let redlock = redlock.clone();
                    let (semaphore, taken) = (semaphore.clone(), taken.clone());
                    let wait = 5 * SECOND;
                    tokio::spawn(async move {
                        match n % 10 {
                            0 => redlock.acquire(format!("burst:{n}")).wait(wait).await.map(drop),
                            1 => redlock
                                .acquire_all([format!("burst:{n}"), format!("b:{}", n / 100)])
                                .wait(wait)
                                .await
                                .map(drop),
                            2 => redlock.read("burst").wait(wait).await.map(drop),
                            3 => redlock.write("burst").wait(wait).await.map(drop),
                            4 => semaphore.acquire().wait(wait).await.map(drop),
                            5 => taken.try_acquire().await.map(drop),
                            6 => redlock.try_write("reader").await.map(drop),
                            7 => redlock.read("reader").wait(wait).await.map(drop),
                            8 => redlock.try_acquire_all(["set:b", "burst:x"]).await.map(drop),
                            _ => redlock
                                .acquire(format!("delayed:{n}"))
                                .ttl(ttl)
                                .lock_delay(SECOND)
                                .wait(wait)
                                .await
                                .map(drop),
                        }
                    })
                })
                .collect();
            let mut ended = (0, 0, 0, Vec::new());
            for task in tasks {
                match task.await.unwrap() {
                    Ok(()) => ended.0 += 1,
                    Err(AcquireError::Contended { .. }) => ended.1 += 1,
                    Err(AcquireError::Crowded { .. }) => ended.2 += 1,
                    Err(error) => ended.3.push(error),
                }
            }
            ended
        });
        println!(
            "{granted} granted, {busy} busy, {crowded} crowded, {} failed after {:?}",
            failed.len(),
            since.elapsed()
        );
        assert!(failed.is_empty(), "{}", failed[0]);
        assert!(granted > 0);
        held.all_hold("beside a burst");
    }
    held.release();
    redlock.blocking_close().unwrap();
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
    eventually("nobody stands anywhere", SOON, || {
        let left = |key: &Vec<u8>| {
            key.starts_with(b"quorlock:line:") || key.starts_with(b"quorlock:readers:")
        };
        cluster.iter().all(|server| !server.keys().iter().any(left))
    });
}

/// A lock, a semaphore, an election and a resource that is read may have the same name: waiters of one kind are not in
/// the way of requests of another.
#[test]
fn a_semaphore_and_a_lock_of_one_name_do_not_wait_for_each_other() {
    let max_ttl = 10 * SECOND;
    let cluster = admitted(3, max_ttl);
    let settings = || settings(&cluster, max_ttl).wait(60 * SECOND);
    let took = |what: &str, ask: &mut dyn FnMut()| {
        let mut took: Vec<Duration> = (0..40)
            .map(|_| {
                let since = Instant::now();
                ask();
                since.elapsed()
            })
            .collect();
        took.sort_unstable();
        println!("{what}: {:?} (median), {:?} (longest)", took[20], took[39]);
        took[20]
    };
    let (one, two, three) = (ready(settings()), ready(settings()), ready(settings()));
    let semaphore = |of: &Redlock| of.semaphore("same", 2).unwrap();
    let mut acquire = || drop(three.acquire("same").blocking().unwrap());
    let alone = took("a lock alone", &mut acquire);
    let permits = [(); 2].map(|()| semaphore(&one).acquire().blocking().unwrap());
    let waits = {
        let request = semaphore(&two).acquire();
        thread::spawn(|| request.blocking().unwrap())
    };
    stand_in_line(&cluster, &["quorlock:slots:same"]);
    let beside = took("a lock beside one who waits for a permit", &mut acquire);
    drop(permits);
    drop(waits.join().unwrap());
    let mut permit = || drop(semaphore(&three).acquire().blocking().unwrap());
    let permit_alone = took("a permit alone", &mut permit);
    let lock = one.acquire("same").blocking().unwrap();
    let waits = {
        let request = two.acquire("same");
        thread::spawn(|| request.blocking().unwrap())
    };
    stand_in_line(&cluster, &["same"]);
    let permit_beside = took("a permit beside one who waits for the lock", &mut permit);
    drop(lock);
    drop(waits.join().unwrap());
    // A waiter that waits for the other kind asks again only after a poll, of a second at the least.
    assert!(beside < alone + SECOND / 2 && permit_beside < permit_alone + SECOND / 2);
}

//! Goal: work that is passed along a chain of processes goes on while a minority of the nodes is stopped, killed and emptied:
//! one holder, tokens that rise, nobody in between, and of two who adopt one.
//!
//! Method: chains of five handles with connections of their own, on three servers with real quarantines; a rival of each
//! chain, which takes what is free; and the keys past the code under test.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use quorlock::{AcquireError, DetachedLease, Lease, NotAdopted, Redlock};
use quorlock_harness::{Cluster, all_ready, connected, eventually};

use super::{MS, SECOND, SOON, connect, fail_one_by_one, plain};

const CHAINS: usize = 4;
const HANDLES: usize = 5;

/// The one thing that a chain works on.
#[derive(Default)]
struct Work {
    is_held: AtomicBool,
    last: AtomicU64,
    /// How often the rival had it.
    rivals: AtomicUsize,
    /// When somebody worked last, and the longest time in which nobody did.
    rests: Mutex<(Option<Instant>, Duration)>,
    /// The longest time from the end of a lease that nobody could adopt until the chain had the next one.
    stuck: Mutex<Duration>,
}

impl Work {
    /// Works under a lease that holds, whose end is its holder's.
    fn under(&self, lease: &Lease) {
        if lease.check().is_err() {
            return;
        }
        assert!(!self.is_held.swap(true, Ordering::SeqCst), "two hold {}", lease.resource());
        let (token, last) = (lease.token().unwrap().get(), self.last.load(Ordering::SeqCst));
        assert!(token > last, "{}: {token} behind {last}", lease.resource());
        self.last.store(token, Ordering::SeqCst);
        {
            let mut rests = self.rests.lock().unwrap();
            let now = Instant::now();
            rests.1 = rests.1.max(rests.0.map_or(Duration::ZERO, |last| now - last));
            rests.0 = Some(now);
        }
        thread::yield_now();
        // Whoever has lost it has not worked until now.
        self.is_held.store(false, Ordering::SeqCst);
    }
}

/// Passes the work on so often. Returns how often a lease could not be adopted.
fn pass_on(name: &str, handles: &[Redlock], work: &Work, passes: usize) -> usize {
    let acquire =
        |at: usize| handles[at % HANDLES].acquire(name).wait(60 * SECOND).blocking().unwrap();
    let (mut lease, mut failed) = (acquire(0), 0);
    for pass in 1..=passes {
        work.under(&lease);
        let before = work.rivals.load(Ordering::SeqCst);
        let Ok(detached) = lease.detach() else {
            failed += 1;
            lease = acquire(pass);
            continue;
        };
        let (text, end) = (detached.to_string(), Instant::now() + detached.left());
        let adopt = |at: usize| {
            let detached: DetachedLease = text.parse().unwrap();
            handles[at % HANDLES].adopt(&detached).wait(SECOND).blocking()
        };
        let adopted = if pass % 16 == 0 {
            // Two have the text.
            let both = thread::scope(|scope| {
                let other = scope.spawn(|| adopt(pass + 1));
                [adopt(pass), other.join().unwrap()]
            });
            let [one, other] = both;
            assert!(one.is_err() || other.is_err(), "both have {name}");
            one.or(other)
        } else {
            adopt(pass)
        };
        lease = match adopted {
            Ok(lease) => {
                assert_eq!(work.rivals.load(Ordering::SeqCst), before, "{name} was somebody's");
                lease
            }
            // The end of the lease that was detached ends a wait for it.
            Err(
                AcquireError::NotAdopted { .. }
                | AcquireError::NoQuorum { .. }
                | AcquireError::Quarantined { .. }
                | AcquireError::TooLate { .. },
            ) => {
                failed += 1;
                let lease = acquire(pass);
                let mut stuck = work.stuck.lock().unwrap();
                *stuck = stuck.max(Instant::now().saturating_duration_since(end));
                lease
            }
            Err(other) => panic!("{other}"),
        };
    }
    failed
}

#[test]
fn work_goes_on_along_a_chain_while_a_minority_of_the_nodes_fails() {
    let passes = std::env::var("QUORLOCK_DETACHED_PASSES").ok();
    let passes: usize = passes.map_or(400, |passes| passes.parse().expect("a number"));
    let cluster = Cluster::start(3);
    let settings = || plain().nodes(cluster.urls()).ttl(2 * SECOND).max_ttl(2 * SECOND);
    let handle = |_| connected(settings().node_timeout(300 * MS));
    let handles: Vec<Redlock> = (0..HANDLES + 1).map(handle).collect();
    handles.iter().for_each(all_ready);
    let (work, is_over) = ([(); CHAINS].map(|()| Work::default()), AtomicBool::new(false));
    let (faults, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let chains: Vec<_> = work
            .iter()
            .enumerate()
            .map(|(at, work)| {
                let (handles, failed) = (&handles, &failed);
                scope.spawn(move || {
                    let all = pass_on(&format!("job:{at}"), handles, work, passes / CHAINS);
                    failed.fetch_add(all, Ordering::Relaxed);
                })
            })
            .collect();
        for (at, work) in work.iter().enumerate() {
            let (rival, is_over) = (&handles[HANDLES], &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if let Ok(lease) = rival.try_acquire(format!("job:{at}")).blocking() {
                        work.rivals.fetch_add(1, Ordering::SeqCst);
                        work.under(&lease);
                        drop(lease);
                    }
                    thread::sleep(5 * MS);
                }
            });
        }
        scope.spawn(|| {
            let done = fail_one_by_one(&cluster, &is_over, || handles.iter().for_each(all_ready));
            faults.store(done, Ordering::Relaxed);
        });
        let ended: Vec<_> = chains.into_iter().map(|chain| chain.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let (faults, failed) = (faults.into_inner(), failed.into_inner());
    let longest = work.iter().map(|work| work.rests.lock().unwrap().1).max().unwrap();
    let stuck = work.iter().map(|work| *work.stuck.lock().unwrap()).max().unwrap();
    println!(
        "{passes} passes, {failed} leases not adopted, {faults} faults, nobody worked for {longest:?} at most; the next \
         lease came {stuck:?} behind the end of one that nobody could adopt, at most"
    );
    assert!(longest < SOON, "nobody could work");
    assert!(failed * 10 <= passes, "{failed} of {passes} were not adopted");
}

#[test]
fn what_was_adopted_is_renewed_and_what_nobody_adopts_ends() {
    let cluster = Cluster::start(3);
    let (one, other) = (connect(&cluster), connect(&cluster));
    let names = ["b", "a"];
    let lease = one.acquire_all(names).ttl(SECOND).blocking().unwrap();
    let (token, owner) = (lease.token().unwrap(), lease.owner());
    let detached = futures::executor::block_on(lease.detach_for(60 * SECOND)).unwrap();
    assert!(detached.left() > 50 * SECOND);
    let values = || cluster.iter().map(|server| server.get("a")).collect::<Vec<_>>();
    assert_eq!(values(), vec![Some(owner.to_string().into_bytes()); 3]);
    let lease = other.adopt(&detached).ttl(SECOND).blocking().unwrap();
    assert!(lease.token().unwrap() > token && lease.owner() != owner);
    eventually("all have the new owner, and end no sooner", SOON, || {
        let value = Some(lease.owner().to_string().into_bytes());
        let ends = cluster.iter().all(|server| server.pttl("b") > 40_000);
        values().into_iter().all(|it| it == value) && ends
    });
    let refused = one.adopt(&detached).blocking().unwrap_err();
    let AcquireError::NotAdopted { reason, .. } = refused else { panic!("{refused}") };
    assert_eq!(reason, NotAdopted::Taken);
    thread::sleep(2 * SECOND);
    lease.check().unwrap();
    lease.blocking_release().unwrap();
    let lease = other.acquire("b").ttl(SECOND).blocking().unwrap();
    let detached = lease.detach().unwrap();
    eventually("its time is over", SOON, || cluster.locks_left().is_empty());
    let refused = one.adopt(&detached).blocking().unwrap_err();
    let AcquireError::NotAdopted { reason, .. } = refused else { panic!("{refused}") };
    assert_eq!(reason, NotAdopted::Over);
}

/// Adopters that try again and again on a minority do not keep it from everybody else.
#[test]
fn what_cannot_be_adopted_ends_when_it_would_have() {
    let cluster = Cluster::start(3);
    let settings = || plain().nodes(cluster.urls()).node_timeout(100 * MS);
    let (one, other) = (connected(settings()), connected(settings()));
    for long in [false, true] {
        let lease = one.acquire("job").ttl(3 * SECOND).blocking().unwrap();
        let owner = lease.owner();
        let detached = futures::executor::block_on(lease.detach_for(3 * SECOND)).unwrap();
        let end = Instant::now() + detached.left();
        // Only on the last node it could be adopted, and that is a minority.
        assert!(cluster[0].del("job"));
        cluster[1].pause();
        let ttl = if long { 9 * SECOND } else { SECOND };
        let refused = other.adopt(&detached).ttl(ttl).wait(SECOND).blocking().unwrap_err();
        assert!(matches!(refused, AcquireError::NotAdopted { .. }), "{refused}");
        let given_back = || cluster[2].get("job") == Some(owner.to_string().into_bytes());
        eventually("it is given back", SOON, given_back);
        let left = Duration::from_millis(u64::try_from(cluster[2].pttl("job")).unwrap());
        let would = end.saturating_duration_since(Instant::now());
        assert!(left < would + 200 * MS, "{left:?} in place of {would:?}");
        assert!(left + SECOND > would, "{left:?} in place of {would:?}");
        cluster[1].resume();
        eventually("it ends", SOON, || cluster.locks_left().is_empty());
    }
}

/// What gives a key back needs the note of its end: where that cannot be written, nothing is taken.
#[test]
fn an_adopter_who_may_not_note_the_end_takes_nothing() {
    let cluster = Cluster::start(3);
    let own =
        ["node", "counters", "older", "line:*", "holder:*"].map(|it| format!("~quorlock:{it}"));
    let rights = || own.iter().map(String::as_str).chain(["~lock:*", "&*", "+@all"]);
    let urls: Vec<String> = cluster.iter().map(|server| server.user(rights())).collect();
    let (one, other) = (connect(&cluster), connected(plain().nodes(urls)));
    let lease = one.acquire("lock:job").ttl(5 * SECOND).blocking().unwrap();
    let value = Some(lease.owner().to_string().into_bytes());
    let detached = lease.detach().unwrap();
    let refused = other.adopt(&detached).ttl(10 * SECOND).wait(SECOND).blocking().unwrap_err();
    let AcquireError::NoQuorum { .. } = refused else { panic!("{refused}") };
    assert!(refused.to_string().contains("the server refused the command"), "{refused}");
    for server in &cluster {
        assert_eq!(server.get("lock:job"), value);
        assert!(server.pttl("lock:job") <= 5_100, "{}", server.pttl("lock:job"));
    }
    drop(one.adopt(&detached).blocking().unwrap());
}

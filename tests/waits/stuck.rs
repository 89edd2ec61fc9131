//! Places that cannot go on because of another key: they keep out no request that asks once. And two kinds of leases on
//! one name, neither of which keeps the other out for ever.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use quorlock::{AcquireError, CampaignError, Redlock};

use super::{MS, SECOND, admitted, lines, settings};

const TTL: Duration = Duration::from_secs(10);
const TRIES: usize = 20;

fn clients<const N: usize>(urls: &[String]) -> [Redlock; N] {
    [(); N].map(|()| settings(urls, TTL).blocking_connect().unwrap())
}

/// Asks once.
type Try<'a> = dyn Fn() -> Result<(), AcquireError> + 'a;

#[test]
fn who_waits_for_a_set_keeps_nobody_who_asks_once_from_the_rest_of_it() {
    let cluster = admitted(TTL);
    let [holder, waits, tries] = clients(&cluster.urls());
    let held = holder.acquire("b").blocking().unwrap();
    let election = tries.election("job");
    let is_granted: [(&str, &Try<'_>); 4] = [
        ("try_acquire", &|| tries.try_acquire("job").blocking().map(drop)),
        ("try_read", &|| tries.try_read("job").blocking().map(drop)),
        ("try_campaign", &|| match election.blocking_try_campaign() {
            Ok(_) => Ok(()),
            Err(CampaignError::Acquire(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }),
        ("try_acquire_all", &|| tries.try_acquire_all(["job", "c"]).blocking().map(drop)),
    ];
    thread::scope(|scope| {
        let set = scope.spawn(|| waits.acquire_all(["job", "b"]).blocking().unwrap());
        lines::stand(&cluster, 2);
        let granted = is_granted.map(|(kind, is_granted)| {
            let granted = (0..TRIES).filter(|_| is_granted().is_ok()).count();
            println!("{kind}: {granted} of {TRIES}");
            granted
        });
        held.blocking_release().unwrap();
        let set = set.join().unwrap();
        let is_refused = |error: AcquireError| error.is_contended();
        let refused = is_granted.map(|(_, is_granted)| is_granted().is_err_and(is_refused));
        set.blocking_release().unwrap();
        assert_eq!((granted, refused), ([TRIES; 4], [true; 4]));
    });
    lines::nothing_left(&cluster);
}

#[test]
fn who_waits_for_one_of_fewer_slots_keeps_nobody_who_asks_once_from_the_others() {
    let cluster = admitted(TTL);
    let [holder, waits, tries] = clients(&cluster.urls());
    let [three, waited] = [&holder, &waits].map(|client| client.semaphore("api", 3).unwrap());
    let five = tries.semaphore("api", 5).unwrap();
    let held = [(); 3].map(|()| three.try_acquire().blocking().unwrap());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waited.acquire().blocking().unwrap());
        lines::stand(&cluster, 1);
        let granted = (0..TRIES).filter(|_| five.try_acquire().blocking().is_ok()).count();
        held.into_iter().for_each(|permit| permit.blocking_release().unwrap());
        waiting.join().unwrap().blocking_release().unwrap();
        assert_eq!(granted, TRIES);
    });
    lines::nothing_left(&cluster);
}

/// Nobody holds it, and the error does not say so.
#[test]
fn whoever_is_refused_for_a_line_is_told_that() {
    let cluster = admitted(TTL);
    let [tries] = clients(&cluster.urls());
    for server in &cluster {
        server.run(&["ZADD", "quorlock:line:job", "100", "aaaaaaaaaaaaaaaa"]);
        server.run(&["PEXPIRE", "quorlock:line:job", "4000"]);
    }
    let error = tries.try_acquire("job").blocking().unwrap_err();
    assert!(error.is_contended(), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("the resource `job` is free but reserved for waiting clients"),
        "{text}"
    );
    assert!(!text.contains("held by"), "{text}");
}

/// How many times two tasks of another process have done their work while one waits.
fn overtaken(work: &(dyn Fn() + Sync), wait: &dyn Fn() -> bool) -> usize {
    let (over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    work();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while done.load(Ordering::Relaxed) < 50 {
            thread::sleep(MS);
        }
        let before = done.load(Ordering::Relaxed);
        let is_granted = wait();
        let overtaken = done.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        assert!(is_granted, "it has waited for ever, beside {overtaken}");
        overtaken
    })
}

/// A plain lease may have the name of a slot. A grant is handed on inside its process 63 times at most.
#[test]
fn permits_and_leases_on_the_name_of_a_slot_let_those_in_who_came_before() {
    let cluster = admitted(TTL);
    let [one, other] = clients(&cluster.urls());
    let permits = one.semaphore("api", 1).unwrap();
    let permit = || {
        let permit = permits.acquire().blocking().unwrap();
        thread::sleep(MS);
        permit.blocking_release().unwrap();
    };
    let plain = || {
        let lease = one.acquire("api/0").blocking().unwrap();
        thread::sleep(MS);
        lease.blocking_release().unwrap();
    };
    for (place, waits) in [("another process", &other), ("the same process", &one)] {
        let waited = waits.semaphore("api", 1).unwrap();
        let by_permits =
            overtaken(&permit, &|| waits.acquire("api/0").wait(5 * SECOND).blocking().is_ok());
        let by_leases = overtaken(&plain, &|| waited.acquire().wait(5 * SECOND).blocking().is_ok());
        println!("{place}: overtaken by {by_permits} permits, and by {by_leases} leases");
        assert!(by_permits <= 10 && by_leases <= 64 + 10, "{place}: {by_permits} {by_leases}");
    }
    lines::nothing_left(&cluster);
}

//! Goal: ten hosts with clocks of their own do the work of each period once, while a minority of the servers is killed,
//! emptied and stopped.
//!
//! Method: a handle with a wall clock of its own for each host, on three servers with real quarantines. Each host's timer
//! fires at each multiple of the period by its own clock.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use quorlock::{
    Once, Redlock,
    runtime::{Runtime, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, all_ready, connected, eventually};

use super::{MS, SECOND, SOON, connect, fail_one_by_one, plain};

const HOSTS: usize = 10;
const EVERY: Duration = Duration::from_secs(2);

/// A wall clock that is off by so many microseconds.
#[derive(Debug)]
struct Off(TokioRuntime, i64);

impl Alter for Off {
    fn inner(&self) -> &dyn Runtime {
        &self.0
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us().saturating_add_signed(self.1)
    }
}

type Clock = Arc<Altered<Off>>;

/// What was done of one period.
#[derive(Clone, Debug, Default)]
struct Period {
    /// How many hosts asked in time: one that was woken late may ask in the next.
    asked: usize,
    /// How many could not be told, since too few nodes answered.
    failed: usize,
    done: usize,
    /// How many of those could not say so to a quorum.
    unsaid: usize,
}

fn length_us() -> u64 {
    u64::try_from(EVERY.as_micros()).unwrap()
}

fn live(host: &Redlock, clock: &Clock, first: u64, periods: &Mutex<Vec<Period>>) {
    let count = periods.lock().unwrap().len();
    for at in 0..count {
        let fires = (first + at as u64) * length_us();
        loop {
            let left = fires.saturating_sub(clock.wall_us());
            if left == 0 {
                break;
            }
            thread::sleep(Duration::from_micros(left));
        }
        let in_time = || clock.wall_us() - fires < length_us() / 4;
        if !in_time() {
            continue;
        }
        let note = |note: fn(&mut Period)| note(&mut periods.lock().unwrap()[at]);
        note(|period| period.asked += 1);
        // It tries again where the nodes do not answer, and while it is the same period.
        let once = loop {
            let request = host.acquire("job").min_validity(SECOND / 2).wait(SECOND);
            match request.once_per(EVERY).blocking() {
                Ok(once) => break Some(once),
                Err(_) if in_time() => thread::sleep(20 * MS),
                Err(_) => break None,
            }
        };
        match once {
            Some(Once::Due(lease)) => {
                thread::sleep(10 * MS);
                if lease.blocking_done().is_err() {
                    note(|period| period.unsaid += 1);
                }
                note(|period| period.done += 1);
                drop(lease.blocking_release());
            }
            Some(_) => {}
            None => note(|period| period.failed += 1),
        }
    }
}

#[test]
fn ten_hosts_do_the_work_of_each_period_once_while_a_minority_of_the_nodes_fails() {
    let count = std::env::var("QUORLOCK_ONCE_PERIODS").ok();
    let count: usize = count.map_or(6, |count| count.parse().expect("a number"));
    let cluster = Cluster::start(3);
    let host = |number: i64| {
        // Up to 0.9 s apart.
        let off = (number - 5) * 100_000;
        let clock: Clock = Arc::new(Altered(Off(TokioRuntime::dedicated().unwrap(), off)));
        let settings = plain().nodes(cluster.urls()).ttl(SECOND).max_ttl(SECOND);
        let runtime: Arc<dyn Runtime> = clock.clone();
        (connected(settings.node_timeout(300 * MS).runtime(runtime)), clock)
    };
    let hosts: Vec<(Redlock, Clock)> = (0..HOSTS as i64).map(host).collect();
    hosts.iter().for_each(|(host, _)| all_ready(host));
    let first = hosts[9].1.wall_us() / length_us() + 1;
    let (periods, is_over) = (Mutex::new(vec![Period::default(); count]), AtomicBool::new(false));
    let faults = AtomicUsize::new(0);
    thread::scope(|scope| {
        let lives: Vec<_> = hosts
            .iter()
            .map(|(host, clock)| scope.spawn(|| live(host, clock, first, &periods)))
            .collect();
        scope.spawn(|| {
            let done = fail_one_by_one(&cluster, &is_over, || {
                hosts.iter().for_each(|(host, _)| all_ready(host))
            });
            faults.store(done, Ordering::Relaxed);
        });
        let ended: Vec<_> = lives.into_iter().map(|life| life.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let (periods, faults) = (periods.into_inner().unwrap(), faults.into_inner());
    let sum = |of: fn(&Period) -> usize| periods.iter().map(of).sum::<usize>();
    let (asked, failed) = (sum(|period| period.asked), sum(|period| period.failed));
    let (done, unsaid) = (sum(|period| period.done), sum(|period| period.unsaid));
    println!(
        "{count} periods, asked {asked} times, done {done} times, {failed} without an answer, {unsaid} not said, {faults} faults"
    );
    for (at, period) in periods.iter().enumerate() {
        // Nobody who could not say that it is done keeps others from it.
        assert!(period.done <= 1 + period.unsaid, "period {at}: {period:?}");
        assert!(period.done > 0 || period.failed == period.asked, "period {at}: {period:?}");
    }
    assert!(done * 10 >= count * 9, "{done} of {count}");
}

#[test]
fn what_is_done_stands_beside_the_resource_and_ends_by_itself() {
    let cluster = Cluster::start(3);
    let (one, other) = (connect(&cluster), connect(&cluster));
    let every = Duration::from_millis(500);
    let ask = |host: &Redlock| host.acquire("job").once_per(every).blocking().unwrap();
    // In the middle of a period.
    let Once::Due(lease) = ask(&one) else { panic!("nobody has done it") };
    lease.blocking_done().unwrap();
    let owner = lease.owner().to_string();
    for server in cluster.iter() {
        let text = String::from_utf8(server.get("quorlock:done:500:job").unwrap()).unwrap();
        assert_eq!(text[32..64], owner);
        let left = server.pttl("quorlock:done:500:job");
        assert!((1..=1_000).contains(&left), "{left} ms");
    }
    lease.blocking_release().unwrap();
    // What another program writes there is no completion, and is replaced.
    eventually("it is over", SOON, || cluster[0].get("quorlock:done:500:job").is_none());
    cluster.iter().for_each(|server| server.set("quorlock:done:500:job", b"theirs", None));
    let Once::Due(lease) = ask(&other) else { panic!("nothing is done") };
    lease.blocking_done().unwrap();
    assert!(cluster.iter().all(|server| server.pttl("quorlock:done:500:job") > 0));
}

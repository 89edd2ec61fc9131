//! Readers that come again at once, beside writers: neither side is kept out by the other.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock::Redlock;
use quorlock_harness::{Server, eventually, redis::from_redis_value};

use super::{MS, RESOURCE, SECOND, SOON, admitted, lines, run_time, settings};

const TTL: Duration = Duration::from_secs(10);
const PROCESSES: usize = 4;
const WRITERS: usize = 2;

/// How long one kind has waited, and how many writes there were meanwhile at most.
#[derive(Clone, Debug, Default)]
struct Waits {
    times: Vec<Duration>,
    writes: u64,
}

impl Waits {
    fn add(mut self, other: Self) -> Self {
        self.times.extend(other.times);
        self.writes = self.writes.max(other.writes);
        self
    }

    fn percentile(&self, of_hundred: usize) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted[(sorted.len() * of_hundred / 100).min(sorted.len() - 1)]
    }
}

/// So many readers on each of several clients, each with its connections, and writers, for a while.
fn contend(urls: &[String], readers: usize, holds: Duration) -> [Waits; 2] {
    let clients: Vec<Redlock> =
        (0..PROCESSES).map(|_| settings(urls, TTL).blocking_connect().unwrap()).collect();
    let writers: Vec<Redlock> =
        (0..WRITERS).map(|_| settings(urls, TTL).blocking_connect().unwrap()).collect();
    // How many read; below zero while one writes.
    let inside = AtomicI64::new(0);
    let written = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let run = |client: &Redlock, reads: bool, think: Duration| {
        let mut waits = Waits::default();
        while !over.load(Ordering::Relaxed) {
            let (asked, before) = (Instant::now(), written.load(Ordering::SeqCst));
            if reads {
                let lease = client.read(RESOURCE).wait(60 * SECOND).blocking().unwrap();
                waits.times.push(asked.elapsed());
                waits.writes = waits.writes.max(written.load(Ordering::SeqCst) - before);
                assert!(inside.fetch_add(1, Ordering::SeqCst) >= 0, "a reader beside a writer");
                thread::sleep(holds);
                assert!(lease.check().is_ok());
                inside.fetch_sub(1, Ordering::SeqCst);
                lease.blocking_release().unwrap();
            } else {
                let lease = client.write(RESOURCE).wait(60 * SECOND).blocking().unwrap();
                waits.times.push(asked.elapsed());
                let others = inside.fetch_sub(1000, Ordering::SeqCst);
                assert_eq!(others, 0, "a writer beside others");
                thread::sleep(holds);
                written.fetch_add(1, Ordering::SeqCst);
                inside.fetch_add(1000, Ordering::SeqCst);
                lease.blocking_release().unwrap();
            }
            thread::sleep(think);
        }
        waits
    };
    let (run, over) = (&run, &over);
    let waits = thread::scope(|scope| {
        let of_readers: Vec<_> = clients
            .iter()
            .cycle()
            .take(readers)
            .map(|client| scope.spawn(move || run(client, true, Duration::ZERO)))
            .collect();
        let of_writers: Vec<_> =
            writers.iter().map(|client| scope.spawn(move || run(client, false, MS))).collect();
        let (since, time) = (Instant::now(), run_time(6));
        // On a busy machine until there is enough to judge.
        let is_enough = || since.elapsed() >= time && written.load(Ordering::SeqCst) > 100;
        while !is_enough() && since.elapsed() < SOON {
            thread::sleep(10 * MS);
        }
        over.store(true, Ordering::Relaxed);
        [of_readers, of_writers].map(|threads| {
            let each = threads.into_iter().map(|thread| thread.join().unwrap());
            each.fold(Waits::default(), Waits::add)
        })
    });
    clients.iter().chain(&writers).for_each(|client| drop(client.blocking_close()));
    waits
}

#[test]
fn readers_that_come_again_at_once_and_writers_do_not_keep_each_other_out() {
    let cluster = admitted(TTL);
    let holds = 5 * MS;
    let [readers, writers] = contend(&cluster.urls(), 16, holds);
    for (name, waits) in [("readers", &readers), ("writers", &writers)] {
        println!(
            "{name}: {} times, waits p50 {:?}, p99 {:?}, longest {:?}; {} writes while a reader waited at most",
            waits.times.len(),
            waits.percentile(50),
            waits.percentile(99),
            waits.percentile(100),
            waits.writes,
        );
        assert!(waits.times.len() > 50, "{name} are kept out: {}", waits.times.len());
    }
    assert!(writers.percentile(99) < SECOND && readers.percentile(99) < SECOND);
    // Those that were under way when it asked count too.
    assert!(readers.writes <= 4, "{}", readers.writes);
    lines::nothing_left(&cluster);
}

/// One round trip to read where nobody writes, as for a plain lease, and one to release.
#[test]
fn a_reader_costs_the_nodes_as_many_commands_as_a_plain_lease() {
    const TURNS: u64 = 200;
    let cluster = admitted(TTL);
    let client = settings(&cluster.urls(), TTL).blocking_connect().unwrap();
    client.blocking_ready(SECOND * 20).unwrap();
    let scripts = || cluster.iter().map(|server| server.command_calls("evalsha")).sum::<u64>();
    let turn = |reads: bool| {
        if reads {
            client.read(RESOURCE).blocking().unwrap().blocking_release().unwrap();
        } else {
            client.acquire(RESOURCE).blocking().unwrap().blocking_release().unwrap();
        }
    };
    let mut took = [Duration::ZERO; 2];
    // A quorum was enough to be ready: the looks at the others come to their end first.
    eventually("nobody looks any more", 5 * SECOND, || {
        let seen = scripts();
        thread::sleep(Duration::from_millis(50));
        scripts() == seen
    });
    let before = scripts();
    // Side by side, so that both meet the same machine.
    for _ in 0..TURNS {
        for (reads, took) in [false, true].into_iter().zip(&mut took) {
            let began = Instant::now();
            turn(reads);
            *took += began.elapsed();
        }
    }
    client.blocking_close().unwrap();
    let commands = scripts() - before;
    let each = took.map(|took| took / u32::try_from(TURNS).unwrap());
    println!("plain {:?}, read {:?}, {commands} commands", each[0], each[1]);
    assert_eq!(commands, 2 * 2 * 5 * TURNS);
    lines::nothing_left(&cluster);
}

/// The command that gives up a place is sent once. Where it is lost, the place stands for as long as readers come.
#[test]
fn a_writer_that_gave_up_keeps_no_reader_out_also_where_its_place_still_stands() {
    let cluster = admitted(TTL);
    let connect = || settings(&cluster.urls(), TTL).blocking_connect().unwrap();
    let (client, other) = (connect(), connect());
    let inside = other.read(RESOURCE).blocking().unwrap();
    let line = format!("quorlock:line:{RESOURCE}");
    let places = || -> Vec<Vec<String>> {
        let of = |server: &Server| server.run(&["ZRANGE", &line, "0", "-1", "WITHSCORES"]);
        cluster.iter().map(|server| from_redis_value(of(server)).unwrap()).collect()
    };
    let stood = thread::scope(|scope| {
        let writer = scope.spawn(|| client.write(RESOURCE).wait(SECOND).blocking().unwrap_err());
        eventually("it stands in line", SOON, || places().iter().all(|place| place.len() == 2));
        let stood = places();
        assert!(writer.join().unwrap().is_contended());
        stood
    });
    eventually("it has left", SOON, || places().iter().all(Vec::is_empty));
    for (server, place) in cluster.iter().zip(&stood) {
        server.run(&["ZADD", &line, &place[1], &place[0]]);
    }
    let late = other.read(RESOURCE).wait(SOON).blocking().unwrap();
    inside.check().unwrap();
    late.blocking_release().unwrap();
    inside.blocking_release().unwrap();
    lines::nothing_left(&cluster);
}

/// As above, for another request of the same process: its client must not be kept out by its own place.
#[test]
fn a_place_that_still_stands_keeps_nobody_of_its_own_process_out() {
    let cluster = admitted(TTL);
    let connect = || settings(&cluster.urls(), TTL).blocking_connect().unwrap();
    let line = format!("quorlock:line:{RESOURCE}");
    let places = || -> Vec<Vec<String>> {
        let of = |server: &Server| server.run(&["ZRANGE", &line, "0", "-1", "WITHSCORES"]);
        cluster.iter().map(|server| from_redis_value(of(server)).unwrap()).collect()
    };
    for reads in [true, false] {
        let (client, other) = (connect(), connect());
        let inside = other.write(RESOURCE).blocking().unwrap();
        let stood = thread::scope(|scope| {
            let gives_up = scope.spawn(|| {
                let contended = if reads {
                    client.read(RESOURCE).wait(SECOND).blocking().unwrap_err()
                } else {
                    client.write(RESOURCE).wait(SECOND).blocking().unwrap_err()
                };
                assert!(contended.is_contended());
            });
            eventually("it stands in line", SOON, || places().iter().all(|it| it.len() == 2));
            let stood = places();
            gives_up.join().unwrap();
            stood
        });
        eventually("it has left", SOON, || places().iter().all(Vec::is_empty));
        for (server, place) in cluster.iter().zip(&stood) {
            server.run(&["ZADD", &line, &place[1], &place[0]]);
        }
        inside.blocking_release().unwrap();
        if reads {
            client.write(RESOURCE).wait(SOON).blocking().unwrap().blocking_release().unwrap();
        } else {
            client.read(RESOURCE).wait(SOON).blocking().unwrap().blocking_release().unwrap();
        }
    }
    lines::nothing_left(&cluster);
}

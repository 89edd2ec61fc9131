//! Goal: an admission that cannot be finished disturbs nobody.
//!
//! Method: a node that is joining dies, hangs, or is out of memory when its quarantine ends, in a fleet of several
//! clients.

use std::time::{Duration, Instant};

use quorlock::{Builder, Redlock};
use quorlock_harness::{Cluster, eventually, redis};

use super::{MARKER, MS, SECOND, SOON, admitted, is_quarantined, ready, settings};

/// A stall of a busy machine outlasts neither this nor the node timeout.
const TTL: Duration = Duration::from_secs(3);

/// Longer than the quarantine: a ttl, a tenth of it, and two node timeouts.
const OVER: Duration = Duration::from_secs(6);

fn unhurried(cluster: &Cluster) -> Builder {
    settings(cluster, TTL).node_timeout(SECOND)
}

fn seal(cluster: &Cluster, node: usize) -> u64 {
    redis::from_redis_value(cluster[node].run(&["HGET", MARKER, "seal"])).unwrap()
}

/// What single rounds of one client came to in some seconds, and how often a node was sealed meanwhile.
fn observe(cluster: &Cluster, client: &Redlock, during: Duration) -> (u32, u32, u64, String) {
    let before = seal(cluster, 0);
    let began = Instant::now();
    let (mut granted, mut failed, mut last) = (0, 0, String::new());
    while began.elapsed() < during {
        match client.try_acquire("r").without_renewal().blocking() {
            Ok(lease) => {
                granted += 1;
                drop(lease.blocking_release());
            }
            Err(error) => {
                failed += 1;
                last = format!("{error}");
            }
        }
        std::thread::sleep(10 * MS);
    }
    (granted, failed, seal(cluster, 0) - before, last)
}

fn joining_and_then(clients: usize, what: impl FnOnce(&Cluster)) -> (u32, u32, u64) {
    let cluster = admitted(3, TTL);
    let clients: Vec<Redlock> = (0..clients).map(|_| ready(unhurried(&cluster))).collect();
    cluster[2].restart_empty();
    eventually("it is seen", SOON, || clients.iter().all(|client| is_quarantined(client, 2)));
    what(&cluster);
    std::thread::sleep(OVER);
    let (granted, failed, seals, last) = observe(&cluster, &clients[0], 5 * SECOND);
    println!(
        "clients={} granted={granted} failed={failed} seals={seals} last={last}",
        clients.len()
    );
    if cluster[2].is_paused() {
        cluster[2].resume();
    }
    (granted, failed, seals)
}

#[test]
fn a_node_that_died_while_it_was_joining_disturbs_nobody() {
    let (_, failed, seals) = joining_and_then(10, |cluster| cluster[2].kill());
    assert!(failed == 0 && seals < 5, "{failed} failed, {seals} seals in 5 s");
}

#[test]
fn a_node_that_hangs_while_it_is_joining_disturbs_nobody() {
    let (_, failed, seals) = joining_and_then(10, |cluster| cluster[2].pause());
    assert!(failed == 0 && seals < 5, "{failed} failed, {seals} seals in 5 s");
}

#[test]
fn a_node_that_is_out_of_memory_while_it_is_joining_disturbs_nobody() {
    let (_, failed, seals) = joining_and_then(10, |cluster| {
        cluster[2].run(&["CONFIG", "SET", "maxmemory", "1"]);
    });
    assert!(failed == 0 && seals < 5, "{failed} failed, {seals} seals in 5 s");
}

/// What each of many clients, with a resource of its own, gets while a node is dead.
fn crowd(clients: usize, joining: bool, end: fn(&Cluster)) -> (usize, usize, Duration, Duration) {
    let cluster = admitted(3, TTL);
    let clients: Vec<Redlock> = (0..clients).map(|_| ready(unhurried(&cluster))).collect();
    if joining {
        cluster[2].restart_empty();
        eventually("it is seen", SOON, || clients.iter().all(|client| is_quarantined(client, 2)));
    }
    end(&cluster);
    std::thread::sleep(OVER);
    let before = seal(&cluster, 0);
    let (mut times, mut failed) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let run = |(index, client): (usize, &Redlock)| {
            let resource = format!("r{index}");
            let (mut times, mut failed) = (Vec::new(), 0);
            let began = Instant::now();
            while began.elapsed() < 5 * SECOND {
                let asked = Instant::now();
                match client.try_acquire(&*resource).without_renewal().blocking() {
                    Ok(lease) => {
                        times.push(asked.elapsed());
                        drop(lease.blocking_release());
                    }
                    Err(error) => {
                        if failed == 0 && index == 0 {
                            println!("{error}");
                        }
                        failed += 1;
                    }
                }
                std::thread::sleep(50 * MS);
            }
            (times, failed)
        };
        let threads: Vec<_> =
            clients.iter().enumerate().map(|client| scope.spawn(move || run(client))).collect();
        for thread in threads {
            let (some, few) = thread.join().unwrap();
            times.extend(some);
            failed += few;
        }
    });
    times.sort();
    let (half, most) = (super::quantile(&times, 0.5), super::quantile(&times, 0.99));
    println!(
        "joining={joining} granted={} failed={failed} half={half:?} most={most:?} seals={}",
        times.len(),
        seal(&cluster, 0) - before
    );
    (times.len(), failed, half, most)
}

#[test]
fn a_crowd_is_not_disturbed() {
    let clients = std::env::var("CROWD").map_or(20, |clients| clients.parse().unwrap());
    let (_, before, ..) = crowd(clients, false, |cluster| cluster[2].kill());
    let (_, failed, ..) = crowd(clients, true, |cluster| cluster[2].kill());
    assert!(failed <= before, "{failed} failed");
}

/// It says that it is joining, and cannot be admitted: it is out of memory.
#[test]
fn a_crowd_is_not_disturbed_by_a_node_that_cannot_be_written_to() {
    let clients = std::env::var("CROWD").map_or(20, |clients| clients.parse().unwrap());
    let full = |cluster: &Cluster| {
        cluster[2].run(&["CONFIG", "SET", "maxmemory", "1"]);
    };
    let (_, failed, ..) = crowd(clients, true, full);
    assert!(failed == 0, "{failed} failed");
}

/// Clients that did not admit it hear soon of the others' new state.
#[test]
fn nobody_is_shut_out_for_long_by_an_admission() {
    let ttl = 300 * MS;
    let cluster = admitted(3, ttl);
    let clients = std::env::var("CROWD").map_or(20, |clients| clients.parse().unwrap());
    let clients: Vec<Redlock> = (0..clients).map(|_| ready(settings(&cluster, ttl))).collect();
    let mut longest = Duration::ZERO;
    for round in 0..8 {
        cluster[2].restart_empty();
        eventually("it is admitted", SOON, || {
            let state: Option<String> =
                redis::from_redis_value(cluster[2].run(&["HGET", MARKER, "state"])).unwrap();
            state.as_deref() == Some("ready")
        });
        std::thread::sleep(300 * MS);
        std::thread::scope(|scope| {
            let run = |(index, client): (usize, &Redlock)| {
                let began = Instant::now();
                let mut text = String::new();
                loop {
                    match client.try_acquire(format!("r{index}")).without_renewal().blocking() {
                        Ok(lease) => {
                            drop(lease.blocking_release());
                            break;
                        }
                        Err(error) => text = error.to_string(),
                    }
                    std::thread::sleep(20 * MS);
                }
                if began.elapsed() > SECOND {
                    println!("round {round} client {index} {:?}: {text}", began.elapsed());
                }
                began.elapsed()
            };
            let threads: Vec<_> =
                clients.iter().enumerate().map(|client| scope.spawn(move || run(client))).collect();
            for thread in threads {
                longest = longest.max(thread.join().unwrap());
            }
        });
        for client in &clients {
            super::all_ready(client);
        }
    }
    println!("longest={longest:?}");
    assert!(longest < 2 * SECOND, "{longest:?}");
}

/// A new deployment of which one node is not up yet: a majority is.
#[test]
fn a_new_deployment_works_although_one_node_is_down() {
    let ttl = 300 * MS;
    let cluster = Cluster::start(3);
    cluster[2].kill();
    let client = settings(&cluster, ttl).build().unwrap();
    let granted = client.acquire("r").wait(10 * SECOND).blocking();
    println!("{:?}", client.nodes());
    assert!(granted.is_ok(), "{}", granted.unwrap_err());
}

/// All restarted, and one does not come back.
#[test]
fn a_fleet_that_was_restarted_works_although_one_node_stays_down() {
    let cluster = admitted(5, TTL);
    let client = ready(unhurried(&cluster));
    cluster.iter().for_each(quorlock_harness::Server::restart_empty);
    cluster[4].kill();
    cluster[3].kill();
    eventually("they are seen", SOON, || is_quarantined(&client, 0));
    let granted = client.acquire("r").wait(10 * SECOND).blocking();
    println!("{:?}", client.nodes());
    assert!(granted.is_ok(), "{}", granted.unwrap_err());
}

/// Forty clients seal the others one after the other, and no round is lost to that: a round is repeated for a node timeout,
/// which is long here beside the time that all of them take on a busy machine.
#[test]
fn seals_of_one_admission() {
    let cluster = admitted(3, TTL);
    let clients = std::env::var("CROWD").map_or(40, |clients| clients.parse().unwrap());
    let clients: Vec<Redlock> =
        (0..clients).map(|_| ready(unhurried(&cluster).node_timeout(2 * SECOND))).collect();
    let (mut failed, mut asked) = (0, 0);
    for round in 0..3 {
        let before = seal(&cluster, 0);
        cluster[2].restart_empty();
        std::thread::scope(|scope| {
            let run = |(index, client): (usize, &Redlock)| {
                let (mut failed, mut asked) = (0, 0);
                let began = Instant::now();
                while began.elapsed() < 3 * SECOND {
                    asked += 1;
                    match client.try_acquire(format!("r{index}")).without_renewal().blocking() {
                        Ok(lease) => drop(lease.blocking_release()),
                        Err(error) => {
                            println!("{index} {:?} {error}", began.elapsed());
                            failed += 1;
                        }
                    }
                    std::thread::sleep(50 * MS);
                }
                (failed, asked)
            };
            let threads: Vec<_> =
                clients.iter().enumerate().map(|client| scope.spawn(move || run(client))).collect();
            for thread in threads {
                let (some, of) = thread.join().unwrap();
                failed += some;
                asked += of;
            }
        });
        println!("round {round}: failed={failed} of {asked} seals={}", seal(&cluster, 0) - before);
        clients.iter().for_each(super::all_ready);
    }
    assert_eq!(failed, 0);
}

//! Permits: one round where there are more of them than clients, each in use nearly all of the time where there are fewer,
//! and a fair share for each client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use quorlock::{Permit, Redlock, Semaphore};

use super::{MS, POLL, ROOM, admitted, lines, run_time, settings, together::jain};

const TTL: Duration = Duration::from_secs(10);
const PERMITS: usize = 10;

/// Each with connections and a place in the lines of its own.
fn clients(urls: &[String], count: usize) -> (Vec<Redlock>, Vec<Semaphore>) {
    let client = |_| settings(urls, TTL).blocking_connect().unwrap();
    let clients: Vec<Redlock> = (0..count).map(client).collect();
    let semaphores = clients.iter().map(|it| it.semaphore("api", PERMITS).unwrap()).collect();
    (clients, semaphores)
}

/// Holds that differ, so that clients do not go in step.
fn hold(least: Duration) -> Duration {
    least + least.mul_f64(f64::from(rand::random::<u8>()) / 255.0)
}

#[test]
fn where_there_are_more_permits_than_clients_one_round_is_the_rule() {
    let cluster = admitted(TTL);
    let (clients, semaphores) = clients(&cluster.urls(), 8);
    let over = AtomicBool::new(false);
    let counted: Vec<[usize; 2]> = thread::scope(|scope| {
        let client = |semaphore: &Semaphore| {
            let mut counted = [0; 2];
            while !over.load(Ordering::Relaxed) {
                // An acquire of one round; where it is lost, a waiter would need another.
                let (permit, rounds) = match semaphore.try_acquire().blocking() {
                    Ok(permit) => (permit, 0),
                    Err(error) => {
                        assert!(error.is_contended(), "{error}");
                        (semaphore.acquire().blocking().unwrap(), 1)
                    }
                };
                counted[rounds] += 1;
                thread::sleep(hold(MS));
                permit.blocking_release().unwrap();
            }
            counted
        };
        let threads: Vec<_> = semaphores.iter().map(|it| scope.spawn(move || client(it))).collect();
        thread::sleep(run_time(4));
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let [one, more] = [0, 1].map(|at| counted.iter().map(|it| it[at]).sum::<usize>());
    let share = one as f64 / (one + more) as f64;
    println!("{} acquires, {:.2} % in one round", one + more, 100.0 * share);
    assert!(share >= 0.95, "{one} {more}");
    clients.iter().for_each(|client| drop(client.blocking_close()));
    lines::nothing_left(&cluster);
}

#[test]
fn where_there_are_fewer_than_clients_each_is_in_use_and_each_client_has_its_share() {
    let cluster = admitted(TTL);
    let (clients, semaphores) = clients(&cluster.urls(), 12);
    let over = AtomicBool::new(false);
    let held: Vec<AtomicUsize> = (0..PERMITS).map(|_| AtomicUsize::new(0)).collect();
    let (held, at_once) = (Arc::new(held), AtomicUsize::new(0));
    let began = Instant::now();
    let got: Vec<(usize, Duration)> = thread::scope(|scope| {
        let client = |semaphore: &Semaphore| {
            let (mut got, mut longest) = (0, Duration::ZERO);
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let permit: Permit = semaphore.acquire().blocking().unwrap();
                longest = longest.max(asked.elapsed());
                let since = Instant::now();
                assert!(at_once.fetch_add(1, Ordering::SeqCst) < PERMITS, "too many");
                thread::sleep(hold(40 * MS));
                at_once.fetch_sub(1, Ordering::SeqCst);
                let used = usize::try_from(since.elapsed().as_micros()).unwrap();
                held[usize::from(permit.slot())].fetch_add(used, Ordering::Relaxed);
                permit.blocking_release().unwrap();
                got += 1;
            }
            (got, longest)
        };
        let threads: Vec<_> = semaphores.iter().map(|it| scope.spawn(move || client(it))).collect();
        thread::sleep(run_time(6));
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = began.elapsed().as_micros() as f64;
    let used: Vec<f64> =
        held.iter().map(|used| used.load(Ordering::Relaxed) as f64 / took).collect();
    let shares: Vec<usize> = got.iter().map(|(got, _)| *got).collect();
    let longest = got.iter().map(|(_, longest)| *longest).max().unwrap();
    let least = used.iter().copied().fold(1.0, f64::min);
    println!(
        "permits in use for {:.1} % at least, {:.1} % on average; {shares:?}, Jain {:.3}; longest wait {longest:?}",
        100.0 * least,
        100.0 * used.iter().sum::<f64>() / PERMITS as f64,
        jain(&shares),
    );
    // On a busy machine it is the threads that come late, to all permits alike.
    assert!(least >= 0.5 * used.iter().sum::<f64>() / PERMITS as f64, "{used:?}");
    assert!(jain(&shares) >= 0.95, "{shares:?}");
    assert!(longest < POLL + ROOM, "{longest:?}");
    clients.iter().for_each(|client| drop(client.blocking_close()));
    lines::nothing_left(&cluster);
}

/// Side by side, by turns: a permit of ten is one more script of the same kind.
#[test]
fn a_permit_costs_little_more_than_a_lease() {
    let cluster = admitted(TTL);
    let (clients, semaphores) = clients(&cluster.urls(), 1);
    let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..1_000 {
        let began = Instant::now();
        clients[0].acquire("plain").blocking().unwrap().blocking_release().unwrap();
        times[0].push(began.elapsed());
        let began = Instant::now();
        semaphores[0].acquire().blocking().unwrap().blocking_release().unwrap();
        times[1].push(began.elapsed());
    }
    let [plain, permit] = times.map(|times| super::median(&times));
    let ratio = permit.as_secs_f64() / plain.as_secs_f64();
    println!(
        "acquire and release: a lease {plain:?}, a permit of ten {permit:?}, {ratio:.2} times"
    );
    assert!(ratio < 2.0, "{ratio}");
}

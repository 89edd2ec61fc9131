//! Very many permits, while processes are killed and stopped and a minority of the nodes is killed, stopped and emptied:
//! never more at once than there are, and in each slot one holder and rising tokens.
//!
//! `QUORLOCK_CHAOS_PERMITS` says how many. The search is tested by planted histories, and by a fleet that has forgotten.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Server, all_ready, eventually};

use super::{
    Defer, MAX_TTL, MS, QUARANTINE, SECOND, SHORT_TTL,
    checker::{self, Held},
    faults::{self, Fault, Scene, random},
    fleet::{self, Fleet},
    settings,
    verdict::Verdict,
    worker::{PERMITS, Wants},
};

const PROCESSES: usize = 4;
const NODES: usize = 5;
const FAULTS: [Fault; 4] = [Fault::EmptyRestart, Fault::Restart, Fault::Stop, Fault::KillClients];

#[test]
fn never_more_permits_are_held_than_there_are_whoever_is_killed() {
    let test = "permits::never_more_permits_are_held_than_there_are_whoever_is_killed";
    if fleet::played_a_part() {
        return;
    }
    let text = std::env::var("QUORLOCK_CHAOS_PERMITS").ok();
    let wanted: usize = text.map_or(4_000, |text| text.parse().expect("a number of permits"));
    let (cluster, register) = (faults::servers(NODES), Server::start());
    let mut parts = fleet::parts(PROCESSES, &cluster.urls(), &register, SHORT_TTL, Some(MAX_TTL));
    parts.iter_mut().for_each(|part| part.wants = Wants::Permits);
    (parts[0].wall_ahead, parts[1].wall_ahead) = (20_000, -20_000);
    let observer = parts[2].builder().blocking_connect().unwrap();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);

    let began = Instant::now();
    let over = AtomicBool::new(false);
    let (kills, stops, strikes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let scene = Scene::new(&cluster, SHORT_TTL, Duration::ZERO, QUARANTINE);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let latest = fleet.latest().filter(|_| random(2) == 0);
                let victim = latest.unwrap_or_else(|| random(PROCESSES));
                if random(2) == 0 {
                    fleet.kill(victim);
                    kills.fetch_add(1, Ordering::Relaxed);
                } else {
                    let long = random(2) == 0;
                    let time = if long { SHORT_TTL + 200 * MS } else { 50 * MS };
                    fleet.pause(&[victim], long, || thread::sleep(time));
                    stops.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(MS * u32::try_from(300 + random(1500)).unwrap());
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // One or two at a time, and nobody else before they are back.
                let (first, fault) = (random(NODES), FAULTS[random(FAULTS.len())]);
                for node in first..=first + random(2) {
                    scene.strike(fault, node % NODES);
                    strikes.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(QUARANTINE);
                all_ready(&observer);
            }
        });
        let _over = Defer(&over);
        while fleet.record().granted() < wanted {
            let granted = fleet.record().granted();
            eventually("the work goes on", 30 * SECOND, || fleet.record().granted() > granted);
        }
    });
    let took = began.elapsed();
    let history = fleet.end();
    let (most, verdict) =
        (checker::most_at_once(&history.leases), Verdict::on(&history, &register));
    println!(
        "{} permits in {took:?}, {most} of {PERMITS} at once at most; {} kills, {} stops, {} faults of nodes",
        history.leases.len(),
        kills.load(Ordering::Relaxed),
        stops.load(Ordering::Relaxed),
        strikes.load(Ordering::Relaxed),
    );
    println!("{history}\n{verdict}");
    assert_eq!(most, PERMITS);
    assert!(verdict.overlaps.is_empty(), "two holders: {:#?}", verdict.overlaps.first());
    assert!(verdict.wrong_tokens.is_empty(), "{:#?}", verdict.wrong_tokens.first());
    assert!(verdict.stale.is_empty(), "a stale effect: {:#?}", verdict.stale.first());
    assert!(verdict.falls.is_empty(), "tokens fall: {:?}", verdict.falls.first());
    assert!(verdict.refused.is_empty(), "a holder was refused: {:#?}", verdict.refused.first());
    assert!(history.leases.len() + 100 * PROCESSES > wanted, "{history}");
    assert!(history.workers_served() > PROCESSES, "{history}");

    eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
    let semaphore = observer.semaphore("permits", PERMITS).unwrap();
    let all = [(); PERMITS].map(|()| semaphore.acquire().blocking().expect("all is well again"));
    drop(all);
    observer.blocking_close().expect("nothing is left to be done");
}

fn held(worker: usize, slot: usize, start: u64, end: u64) -> Held {
    let time = Duration::from_millis;
    Held {
        owner: "0af1".repeat(8),
        worker,
        resource: slot,
        reads: false,
        token: Some(start + 1),
        asked: time(start),
        start: time(start),
        end: time(end),
    }
}

#[test]
fn one_permit_too_many_is_found_in_a_history() {
    let three = [held(0, 0, 0, 10), held(1, 1, 5, 15), held(2, 2, 9, 20)];
    assert_eq!(checker::most_at_once(&three), 3);
    // As one ends the next begins, and one that was over before its holder saw it was none.
    let more = [three.as_slice(), &[held(3, 0, 10, 30), held(4, 1, 12, 12)]].concat();
    assert_eq!(checker::most_at_once(&more), 3);
    let too_many = [three.as_slice(), &[held(3, 3, 9, 10)]].concat();
    assert_eq!(checker::most_at_once(&too_many), 4);
}

/// Permits of two fleets that do not know of each other are twice as many.
#[test]
fn too_many_permits_are_found_in_a_workload() {
    let cluster = Cluster::start(4);
    let urls = cluster.urls();
    let client = |urls: &[String]| {
        settings().danger_skip_quarantine().nodes(urls).blocking_connect().unwrap()
    };
    let clients = [client(&urls[..3]), client(&urls[3..])];
    let semaphores = clients.each_ref().map(|it| it.semaphore("permits", PERMITS).unwrap());
    let history: Vec<Held> = thread::scope(|scope| {
        let works = |worker: usize| {
            let semaphore = &semaphores[worker % 2];
            let work = move || {
                let one = move |_| {
                    let asked = super::record::now();
                    let permit = semaphore.acquire().blocking().unwrap();
                    let start = super::record::now();
                    thread::sleep(MS);
                    let (end, resource) = (super::record::now(), usize::from(permit.slot()));
                    let (owner, token) =
                        (permit.owner().to_string(), permit.token().unwrap().get());
                    let _ = permit.blocking_release();
                    Held {
                        owner,
                        worker,
                        resource,
                        reads: false,
                        token: Some(token),
                        asked,
                        start,
                        end,
                    }
                };
                (0..40).map(one).collect::<Vec<_>>()
            };
            scope.spawn(work)
        };
        let threads: Vec<_> = (0..8).map(works).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let most = checker::most_at_once(&history);
    println!("{most} of {PERMITS} at once, {} overlaps", checker::overlaps(&history).len());
    assert!(most > PERMITS && !checker::overlaps(&history).is_empty());
}

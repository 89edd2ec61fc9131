//! Very many grants of one resource, most of them handed over inside a process, while processes are killed and a minority of the
//! nodes comes back empty: no token twice, none that falls, never two holders.
//!
//! `QUORLOCK_CHAOS_GRANTS` says how many.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Evidence, Server, all_ready, eventually};

use super::{
    Defer, MAX_TTL, MS, QUARANTINE, RESOURCE, SECOND, SHORT_TTL, checker,
    faults::{Fault, Scene, random},
    fleet::{self, Fleet},
    record::History,
    wants::Wants,
};

const PROCESSES: usize = 8;
const NODES: usize = 5;

#[test]
fn many_grants_have_rising_tokens_and_one_holder_whoever_is_killed() {
    let test = "grants::many_grants_have_rising_tokens_and_one_holder_whoever_is_killed";
    if fleet::played_a_part() {
        return;
    }
    let text = std::env::var("QUORLOCK_CHAOS_GRANTS").ok();
    let wanted: usize = text.map_or(6_000, |text| text.parse().expect("a number of grants"));
    let (cluster, unused) = (Cluster::start(NODES), Server::start());
    let mut parts = fleet::parts(PROCESSES, &cluster.urls(), &unused, SHORT_TTL, Some(MAX_TTL));
    parts.iter_mut().for_each(|part| part.wants = Wants::Brisk);
    // Counters go on from wall clocks, and must not rest on them.
    (parts[0].wall_ahead, parts[1].wall_ahead) = (20_000, -20_000);
    let observer = parts[2].connected();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 100);

    let began = Instant::now();
    let over = AtomicBool::new(false);
    let (kills, restarts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let scene = Scene::new(&cluster, SHORT_TTL, Duration::ZERO, QUARANTINE);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Every other time the one that holds the lock, or has just had it.
                let latest = fleet.latest().filter(|_| random(2) == 0);
                fleet.kill(latest.unwrap_or_else(|| random(PROCESSES)));
                kills.fetch_add(1, Ordering::Relaxed);
                thread::sleep(MS * u32::try_from(500 + random(2000)).unwrap());
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // One or two forget, and no other does before they have been admitted again.
                let first = random(NODES);
                for node in first..=first + random(2) {
                    scene.strike(Fault::EmptyRestart, node % NODES);
                    restarts.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(QUARANTINE);
                all_ready(&observer);
            }
        });
        // The other threads must end also when this one panics.
        let _over = Defer(&over);
        while fleet.record().granted() < wanted {
            let granted = fleet.record().granted();
            eventually("the work goes on", 30 * SECOND, || fleet.record().granted() > granted);
        }
    });
    let took = began.elapsed();
    let history = fleet.end();
    let checked = Instant::now();
    // The looser searches must agree with the strict one.
    let overlaps = checker::overlaps(&history.leases);
    assert!(overlaps.is_empty(), "two holders at once: {:#?}", overlaps.first());
    let wrong = checker::wrong_tokens(&history.leases);
    assert!(wrong.is_empty(), "tokens that repeat or fall: {:#?}", wrong.first());
    println!("{history}");
    assert!(kills.load(Ordering::Relaxed) > 0 && restarts.load(Ordering::Relaxed) > 0);
    assert!(history.workers_served() > 2 * PROCESSES, "{history}");
    one_holder(&history, wanted, took, [kills, restarts].map(AtomicUsize::into_inner), checked);

    eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
    let lease = observer.acquire(RESOURCE).blocking().expect("all is well again");
    lease.blocking_release().unwrap();
    observer.blocking_close().expect("nothing is left to be done");
}

fn one_holder(
    history: &History,
    wanted: usize,
    took: Duration,
    [kills, restarts]: [usize; 2],
    checked: Instant,
) {
    let found = checker::turns(&history.leases);
    println!(
        "{} grants in {took:?}, {} of them handed over inside a process; {kills} kills, {restarts} empty restarts; checked in {:?}",
        found.leases,
        found.handed_over,
        checked.elapsed(),
    );
    let violations = found.duplicates.len() + found.falls.len() + found.overlaps.len();
    Evidence::new("grants", "grants of one resource", "5 nodes, 8 processes")
        .count("grants", found.leases)
        .count("handed over", found.handed_over)
        .count("kills", kills)
        .count("empty restarts", restarts)
        .count("violations", violations)
        .seconds(took)
        .tell();
    assert!(found.duplicates.is_empty(), "a token twice: {:#?}", found.duplicates.first());
    assert!(found.falls.is_empty(), "a token that falls: {:#?}", found.falls.first());
    assert!(found.overlaps.is_empty(), "two holders at once: {:#?}", found.overlaps.first());
    assert!(found.leases + 100 * PROCESSES > wanted, "{} of {wanted}", found.leases);
    assert!(found.handed_over * 4 > found.leases, "few were handed over: {}", found.handed_over);
}

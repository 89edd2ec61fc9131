//! A majority forgets within one quarantine: exclusion holds, and tokens go on rising.
//!
//! Nodes come back empty one right after the other, by the default policy: no operator has to act. The holder has lost
//! the lock, and all wait.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Evidence, Server, all_ready, eventually};

use super::{
    MAX_TTL, MS, QUARANTINE, SECOND, SHORT_TTL,
    faults::{random, short},
    fleet::{self, Fleet},
    nemesis::Strikes,
    record::Count,
    run_time, verdict,
};

const NODES: usize = 5;
/// How many nodes forget within one quarantine, by turns.
const ROLLS: [usize; 3] = [NODES, 3, 4];

#[test]
fn a_majority_that_forgets_leaves_one_holder_and_rising_tokens() {
    let test = "majority::a_majority_that_forgets_leaves_one_holder_and_rising_tokens";
    if fleet::played_a_part() {
        return;
    }
    let (cluster, register) = (Cluster::start(NODES), Server::start());
    let parts = fleet::parts(3, &cluster.urls(), &register, SHORT_TTL, Some(MAX_TTL));
    let observer = parts[0].connected();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    let (time, began) = (run_time(5), Instant::now());
    let (mut single, mut majority, mut all) = (0, 0, 0);
    // A worker that waits through a quarantine records nothing: it goes on until one's time was up before.
    let nobody_waited = || fleet.record().lock().count(Count::NoQuorum) == 0;
    let more = time + 30 * SECOND;
    while began.elapsed() < time || all == 0 || nobody_waited() && began.elapsed() < more {
        let granted = fleet.record().granted();
        eventually("leases are granted", 30 * SECOND, || fleet.record().granted() > granted + 10);
        // One that forgets alone goes on above the others' counters, which are ahead of the clock by then.
        roll(&cluster, 1);
        single += 1;
        let granted = fleet.record().granted();
        eventually("leases are granted", 30 * SECOND, || fleet.record().granted() > granted + 10);
        all_ready(&observer);
        thread::sleep(MS * u32::try_from(random(500)).unwrap());
        let nodes = ROLLS[majority % ROLLS.len()];
        roll(&cluster, nodes);
        majority += 1;
        if random(2) == 0 {
            // The holder of before may come back with its effects when others hold the lock.
            let process = fleet.latest().unwrap_or(0);
            fleet.pause(&[process], true, || thread::sleep(QUARANTINE + short()));
        }
        all += usize::from(nodes == NODES);
    }
    eventually("the work goes on", 30 * SECOND, || {
        let granted = fleet.record().granted();
        thread::sleep(100 * MS);
        fleet.record().granted() > granted
    });
    let (_, stopped) = fleet.stops();
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    println!("{test}, in {:?}", began.elapsed());
    println!(
        "forgot: one node {single} times, a majority {majority} times, all of them {all} times"
    );
    println!("clients stopped past the ttl: {stopped}\n{history}\n{verdict}");
    Evidence::new("majority", "history", "5 nodes, most of which forget at once")
        .count("leases", history.leases.len())
        .count("a majority forgot", majority)
        .count("violations", verdict.found())
        .seconds(time)
        .tell();
    verdict::assert_clean(&verdict, &Strikes::default());
    assert!(history.count(Count::NoQuorum) > 0, "nobody ever waited for a quarantine: {history}");
}

/// Restarts so many nodes without their data, one right after the other.
fn roll(cluster: &Cluster, nodes: usize) {
    let first = random(cluster.len());
    for node in first..first + nodes {
        cluster[node % cluster.len()].restart_empty();
        thread::sleep(Duration::from_millis(random(60) as u64));
    }
}

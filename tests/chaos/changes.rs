//! A fleet changes its list of nodes while eight processes acquire, renew, hand over, read and take permits. Processes are
//! rolled one by one, some of them killed; nodes of a minority of each list are killed, stopped and emptied; and a process
//! that ends the change is killed at any moment, again and again.
//!
//! `QUORLOCK_CHAOS_CHANGES` says how many histories, and `QUORLOCK_CHAOS_CHANGE_SECONDS` how long the processes are rolled in
//! each; the changes and the kinds of leases take turns.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock::{Redlock, node::NodeState};
use quorlock_harness::{Cluster, Evidence, Server, all_ready, eventually, redis};

use super::{
    Defer, MAX_TTL, MS, QUARANTINE, RESOURCE, SECOND, SHORT_TTL,
    faults::{self, Fault, Scene, random},
    fleet::{self, Fleet, Part},
    verdict,
    wants::Wants,
};

const PROCESSES: usize = 8;
const FAULTS: [Fault; 4] = [Fault::EmptyRestart, Fault::Restart, Fault::Stop, Fault::KillClients];

/// From which nodes to which.
const CHANGES: [(&[usize], &[usize]); 5] = [
    (&[0, 1, 2], &[0, 1, 2, 3, 4]),
    (&[0, 1, 2, 3, 4], &[0, 1, 2]),
    (&[0, 1, 2, 3, 4], &[0, 1, 2, 3, 5]),
    (&[0, 1, 2, 3, 4], &[5, 6, 7, 8, 9]),
    (&[0], &[0, 1, 2]),
];
const KINDS: [Wants; 3] = [Wants::One, Wants::Readers, Wants::Permits];

#[test]
fn a_list_of_nodes_changes_while_processes_are_rolled_and_nodes_and_changers_are_killed() {
    if fleet::played_a_part() {
        return;
    }
    let number = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let seconds = number("QUORLOCK_CHAOS_CHANGE_SECONDS", 13);
    for number in 0..number("QUORLOCK_CHAOS_CHANGES", 1) as usize {
        history(CHANGES[number % CHANGES.len()], KINDS[number % KINDS.len()], seconds * SECOND);
    }
}

const TEST: &str =
    "changes::a_list_of_nodes_changes_while_processes_are_rolled_and_nodes_and_changers_are_killed";

fn history((before, after): (&[usize], &[usize]), wants: Wants, rolls: Duration) {
    let began = Instant::now();
    let nodes = before.iter().chain(after).max().expect("a node") + 1;
    let (cluster, register) = (faults::servers(nodes), Server::start());
    let urls = |list: &[usize]| list.iter().map(|node| cluster[*node].url()).collect::<Vec<_>>();
    let mut parts = fleet::parts(PROCESSES, &urls(before), &register, SHORT_TTL, Some(MAX_TTL));
    for part in &mut parts {
        part.wants = wants;
    }
    (parts[0].wall_ahead, parts[1].wall_ahead) = (20_000, -20_000);
    all_ready(&parts[2].connected());
    let of = |part: &Part, nodes: &[usize], before: &[usize]| Part {
        nodes: urls(nodes),
        before: urls(before),
        ..part.clone()
    };
    let fleet = Fleet::start(TEST, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);

    let (over, rolled) = (AtomicBool::new(false), AtomicBool::new(false));
    let (strikes, changers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let scene = Scene::new(&cluster, SHORT_TTL, Duration::ZERO, QUARANTINE);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if strike(&scene, [before, after]) {
                    strikes.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(100 * MS);
                if rolled.load(Ordering::Relaxed) {
                    let changer = of(&parts[2], after, before).builder().build().expect("a handle");
                    changer.end_change();
                    thread::sleep(MS * u32::try_from(random(2_500)).unwrap());
                    changers.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let _over = Defer(&over);
        let works = || {
            let granted = fleet.record().granted();
            eventually("the work goes on", 60 * SECOND, || fleet.record().granted() > granted + 5);
        };
        for (number, part) in parts.iter().enumerate() {
            fleet.replace(number, of(part, after, before));
            pause(rolls);
        }
        works();
        rolled.store(true, Ordering::Relaxed);
        thread::sleep(MS * u32::try_from(random(2_000)).unwrap());
        for (number, part) in parts.iter().enumerate() {
            fleet.replace(number, of(part, after, &[]));
            pause(rolls);
        }
        works();
        works();
    });
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    let mut starts: Vec<Duration> = history.leases.iter().map(|held| held.start).collect();
    starts.sort_unstable();
    let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().expect("grants");
    println!(
        "{before:?} to {after:?}, {wants:?}: {} granted in {:?}, {longest:?} without a grant at most, {strikes:?} faults of \
         nodes, {changers:?} changers killed",
        history.granted,
        began.elapsed()
    );
    println!("{history}\n{verdict}");
    Evidence::new("changes", "a list of nodes that changes", &format!("{before:?} to {after:?}"))
        .count("leases", history.granted)
        .count("longest time without a grant ms", longest.as_millis())
        .count("faults of nodes", strikes.into_inner())
        .count("violations", verdict.found())
        .seconds(began.elapsed())
        .tell();
    assert_eq!(verdict.found(), 0, "{verdict}");
    let new = of(&parts[2], after, &[]).connected();
    end(&cluster, &new);
}

/// Between one process and the next: each of them is rolled twice.
fn pause(rolls: Duration) {
    let mean = rolls / (2 * u32::try_from(PROCESSES).unwrap());
    thread::sleep(mean.mul_f64((random(1_000) as f64).mul_add(0.0015, 0.25)));
}

/// Harms a node that is in no list without which that has no majority, and waits until it votes again.
fn strike(scene: &Scene<'_>, lists: [&[usize]; 2]) -> bool {
    let of_some = lists[random(2)];
    let node = of_some[random(of_some.len())];
    let is_spare = |list: &&[usize]| !list.contains(&node) || list.len() >= 3;
    if !lists.iter().all(is_spare) {
        thread::sleep(100 * MS);
        return false;
    }
    scene.strike(FAULTS[random(FAULTS.len())], node);
    thread::sleep(QUARANTINE);
    let votes = || {
        let state = scene.cluster()[node].run(&["HGET", "quorlock:node", "state"]);
        redis::from_redis_value::<Option<String>>(state).ok().flatten().as_deref() == Some("ready")
    };
    // A node that is in no list any more is nobody's to admit.
    let deadline = Instant::now() + 5 * SECOND;
    while !votes() && Instant::now() < deadline {
        thread::sleep(20 * MS);
    }
    true
}

fn end(cluster: &Cluster, new: &Redlock) {
    let ready =
        |redlock: &Redlock| redlock.nodes().iter().all(|node| node.state == NodeState::Ready);
    eventually("all nodes of the new list vote", 60 * SECOND, || ready(new));
    eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
    let lease = new.acquire(RESOURCE).blocking().expect("all is well again");
    lease.blocking_release().unwrap();
}

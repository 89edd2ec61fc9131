//! Workloads with a planted bug, which the checker must find: one that sees nothing proves nothing.

use std::time::Instant;

use quorlock::Redlock;
use quorlock_harness::{Cluster, Server, all_ready, eventually, history::Verdict};

use super::{
    MAX_TTL, MS, SECOND, SHORT_TTL, TTL, checker,
    fleet::{self, Fleet},
    nemesis::Strikes,
    record::{History, process_of},
    settings, verdict,
    wants::Wants,
    worker::Workload,
};

const WORKERS: usize = 8;

/// Locks of two fleets that do not know of each other do not exclude each other.
#[test]
fn two_holders_at_once_are_found_in_a_workload() {
    let cluster = Cluster::start(4);
    let urls = cluster.urls();
    let clients = [
        settings().danger_skip_quarantine().nodes(&urls[..3]).blocking_connect().unwrap(),
        settings().danger_skip_quarantine().nodes(&urls[3..]).blocking_connect().unwrap(),
    ];
    let workload = Workload::start(&clients, WORKERS, TTL);
    eventually("enough leases", 30 * SECOND, || workload.record().granted() > 200);
    let history = workload.stop();
    let overlaps = checker::overlaps(&history.leases);
    println!("{history}; {} overlaps found", overlaps.len());
    assert!(!overlaps.is_empty(), "a checker that sees nothing proves nothing");
    for (earlier, later) in &overlaps {
        assert!(earlier.worker % 2 != later.worker % 2, "only the two fleets overlap");
    }
}

/// Nodes that come back empty vote at once, by `danger_skip_quarantine`. Each is restarted as soon as the one before is
/// back, so that the keys of a lease are gone before its time is up.
#[test]
fn two_holders_at_once_are_found_where_nodes_that_forgot_vote_at_once() {
    let cluster = Cluster::start(5);
    // Some leases are held for all of that.
    let ttl = 3 * SECOND;
    let builder = settings().ttl(ttl).max_ttl(ttl).danger_skip_quarantine();
    let client = || builder.clone().nodes(cluster.urls()).blocking_connect().unwrap();
    let clients: Vec<Redlock> = (0..3).map(|_| client()).collect();
    clients.iter().for_each(all_ready);
    let workload = Workload::start(&clients, WORKERS, ttl);
    let began = Instant::now();
    let overlaps = loop {
        for server in &cluster {
            server.restart_empty();
            clients.iter().for_each(all_ready);
        }
        let overlaps = checker::overlaps(&workload.record().lock().leases);
        if !overlaps.is_empty() || began.elapsed() > 60 * SECOND {
            break overlaps;
        }
    };
    println!("{}; {} overlaps after {:?}", workload.stop(), overlaps.len(), began.elapsed());
    assert!(!overlaps.is_empty(), "a checker that sees nothing proves nothing");
}

/// The workers of the first process look at no clock and write past the fence. The process is stopped past the ttl
/// of its leases, over and over, so that it goes on as if nothing had happened while another holds the lock.
fn stopped_workers(test: &'static str, careless: bool, wants: Wants) -> Option<(History, Verdict)> {
    if fleet::played_a_part() {
        return None;
    }
    let (cluster, register) = (Cluster::start(3), Server::start());
    let mut parts = fleet::parts(3, &cluster.urls(), &register, SHORT_TTL, Some(MAX_TTL));
    parts[0].careless = careless;
    parts.iter_mut().for_each(|part| part.wants = wants);
    let observer = parts[0].connected();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);
    let enough = |history: &History| {
        let overlaps = checker::overlaps(&history.leases).len();
        let (stale, refused) = (checker::stale(&history.effects).len(), history.refused_late());
        if careless { overlaps > 0 && stale > 0 } else { refused > 0 }
    };
    let began = Instant::now();
    while !enough(&fleet.record().lock()) && began.elapsed() < 60 * SECOND {
        eventually("it holds the lock", 20 * SECOND, || fleet.latest() == Some(0));
        let granted = fleet.record().granted();
        fleet.pause(&[0], true, || {
            std::thread::sleep(SHORT_TTL + 50 * MS);
            eventually("others go on", 20 * SECOND, || fleet.record().granted() > granted + 5);
        });
    }
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    println!("{history}\n{verdict}");
    Some((history, verdict))
}

#[test]
fn workers_that_go_on_after_they_were_stopped_are_found() {
    let test = "planted::workers_that_go_on_after_they_were_stopped_are_found";
    let Some((_, verdict)) = stopped_workers(test, true, Wants::One) else { return };
    careless_workers_are_found(&verdict);
}

/// The same of workers that hold several resources at once.
#[test]
fn workers_that_go_on_with_a_set_after_they_were_stopped_are_found() {
    let test = "planted::workers_that_go_on_with_a_set_after_they_were_stopped_are_found";
    let Some((_, verdict)) = stopped_workers(test, true, Wants::Sets) else { return };
    careless_workers_are_found(&verdict);
}

/// Leaders that go on behind their term.
#[test]
fn leaders_that_go_on_after_they_were_stopped_are_found() {
    let test = "planted::leaders_that_go_on_after_they_were_stopped_are_found";
    let Some((_, verdict)) = stopped_workers(test, true, Wants::Elections) else { return };
    careless_workers_are_found(&verdict);
}

#[track_caller]
fn careless_workers_are_found(verdict: &Verdict) {
    assert!(!verdict.overlaps.is_empty(), "it held what was somebody else's");
    assert!(!verdict.stale.is_empty(), "it wrote behind somebody else");
    assert!(!verdict.falls.is_empty(), "and the register has it so");
    assert!(verdict.wrong_tokens.is_empty(), "the tokens are as they should be");
    let first_process = |worker| process_of(worker) == 0;
    let (mut overlaps, mut stale) = (verdict.overlaps.iter(), verdict.stale.iter());
    assert!(overlaps.all(|(a, b)| first_process(a.worker) || first_process(b.worker)));
    assert!(stale.all(|(_, late)| first_process(late.worker)));
}

/// The same without the bug.
#[test]
fn workers_that_were_stopped_are_refused_and_know_that_they_lost() {
    let test = "planted::workers_that_were_stopped_are_refused_and_know_that_they_lost";
    let Some((history, verdict)) = stopped_workers(test, false, Wants::One) else { return };
    verdict::assert_clean(&verdict, &Strikes::default());
    assert!(history.refused_late() > 0, "nobody was late: {history}");
}

//! Every fault of a minority, while clients are stopped: exclusion and tokens hold, and work goes on.

use std::time::{Duration, Instant};

use quorlock_harness::{Evidence, Server, all_ready, eventually};

use super::{
    LONG_RUN, MAX_TTL, MS, QUARANTINE, RESOURCE, SECOND, SHORT_TTL, TTL, checker,
    faults::{self, Fault, Scene},
    fleet::{self, Fleet},
    links::{LinkFault, Links},
    nemesis::{Nemesis, Stops},
    record::{Count, History},
    run_time, verdict,
    wants::{PERMITS, Wants},
};

/// Processes of clients.
const PROCESSES: usize = 3;
/// By how many milliseconds their wall clocks are ahead: less than the nodes cut a hint to.
const WALLS_AHEAD: [i64; PROCESSES] = [-20_000, 20_000, 0];
/// Of each chain.
const LINKED: usize = 5;

/// What a run is about.
struct Mode {
    nodes: usize,
    ttl: Duration,
    /// None in classic mode.
    max_ttl: Option<Duration>,
    kinds: Vec<Fault>,
    time: Duration,
    /// Whether each kind has a turn however long that takes.
    each_kind: bool,
    wants: Wants,
}

/// Rages against one cluster, and judges what came of it.
fn chaos(test: &'static str, mode: &Mode) {
    if fleet::played_a_part() {
        return;
    }
    let began = Instant::now();
    let (cluster, register) = (faults::servers(mode.nodes), Server::start());
    let processes = if mode.wants == Wants::Chains { LINKED } else { PROCESSES };
    let links = Links::start(&cluster, PROCESSES - 1);
    let mut parts = fleet::parts(processes, &cluster.urls(), &register, mode.ttl, mode.max_ttl);
    let observer = parts[0].connected();
    all_ready(&observer);
    for (process, part) in parts.iter_mut().enumerate() {
        part.nodes = links.urls(process).unwrap_or_else(|| cluster.urls());
        (part.wall_ahead, part.wants) = (WALLS_AHEAD[process % PROCESSES], mode.wants);
    }
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);

    // Any lease that a node had voted for is over when it comes back empty, after the ttl: the clocks are ours.
    let away = if mode.max_ttl.is_some() { Duration::ZERO } else { mode.ttl + mode.ttl / 4 };
    let nemesis = Nemesis {
        scene: Scene::new(&cluster, mode.ttl, away, QUARANTINE),
        kinds: &mode.kinds,
        quarantine: mode.max_ttl.map(|_| QUARANTINE),
        peace: 300 * MS,
        observer: &observer,
        fleet: &fleet,
        links: &links,
        stops: Stops::Often,
    };
    let strikes = nemesis.rage(mode.time, mode.each_kind);
    let (stopped, stopped_long) = fleet.stops();
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    println!("{test}, in {:?}\n{strikes}", began.elapsed());
    println!("clients stopped: {stopped} for less than the ttl, {stopped_long} for more");
    println!("links broken: {:?}", links.done());
    println!("{history}\n{verdict}");
    let mode_words = if mode.max_ttl.is_some() { "" } else { ", classic mode" };
    let configuration = format!("{} nodes, {:?}{mode_words}", mode.nodes, mode.wants);
    let figures = Evidence::new("chaos", "history", &configuration)
        .count("leases", history.leases.len())
        .count("effects", history.effects.len())
        .count("late effects refused", history.refused_late())
        .count("workers", history.workers_served())
        .count("violations", verdict.found());
    links
        .told(strikes.told(figures))
        .count("fault StopClient", stopped)
        .count("fault StopClientPastTtl", stopped_long)
        .seconds(mode.time)
        .tell();
    verdict::assert_clean(&verdict, &strikes);

    let unknown = |kind: &&Fault| strikes.count(**kind) == 0;
    let missing: Vec<_> = mode.kinds.iter().filter(unknown).collect();
    assert!(!mode.each_kind || missing.is_empty(), "never happened: {missing:?}");
    if mode.time >= LONG_RUN {
        let missing: Vec<_> = mode.kinds.iter().filter(|kind| strikes.felt(**kind) == 0).collect();
        assert!(missing.is_empty(), "never felt: {missing:?}");
        assert_eq!(links.done().len(), LinkFault::ALL.len(), "{:?}", links.done());
        assert!(stopped > 0 && stopped_long > 0, "clients were not stopped");
        assert!(history.count(Count::Lost) > 0, "no lease was ever lost: {history}");
        assert!(mode.max_ttl.is_none() || history.refused_late() > 0, "nobody was late: {history}");
    }
    if mode.wants == Wants::Permits {
        let most = checker::most_at_once(&history.leases);
        println!("{most} permits of {PERMITS} at once at most");
        assert_eq!(most, PERMITS);
    }
    if mode.wants == Wants::Chains {
        let wrong = checker::wrongly_passed(&history.leases, &history.passed);
        let free = checker::longest_free(&history.leases);
        println!(
            "{} leases passed along, nobody had one for {free:?} at most",
            history.passed.len()
        );
        assert!(wrong.is_empty(), "passed along wrongly: {wrong:#?}");
        assert!(
            history.passed.len() * 2 > history.leases.len(),
            "few were passed along: {history}"
        );
    }
    alive(mode, &history);
    assert!(strikes.granted() > 0, "nothing was granted while nodes were away: {strikes}");

    eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
    let is_well = || {
        let lease = observer.acquire(RESOURCE).blocking();
        lease.is_ok_and(|lease| lease.blocking_release().is_ok())
    };
    eventually("all is well again", 60 * SECOND, is_well);
    observer.blocking_close().expect("nothing is left to be done");
}

/// Leases are held for some 10 ms on average, so this is far below what a healthy run gives.
#[track_caller]
fn alive(mode: &Mode, history: &History) {
    let least = mode.time.as_secs() as usize * 2;
    assert!(history.leases.len() > least, "only {} leases", history.leases.len());
    // No process has the lock to itself.
    assert!(history.workers_served() > PROCESSES, "{history}");
    assert!(history.leases.iter().all(|held| held.token.is_some() == mode.max_ttl.is_some()));
}

#[test]
fn any_fault_of_a_minority_of_five_leaves_one_holder_and_rising_tokens() {
    let test = "minority::any_fault_of_a_minority_of_five_leaves_one_holder_and_rising_tokens";
    let mode = Mode {
        nodes: 5,
        ttl: SHORT_TTL,
        max_ttl: Some(MAX_TTL),
        kinds: faults::chosen(&Fault::ALL),
        time: run_time(8),
        each_kind: true,
        wants: Wants::One,
    };
    chaos(test, &mode);
}

/// With one of three nodes away, the other two make every quorum: what one forgets, no other remembers.
#[test]
fn any_fault_of_one_of_three_leaves_one_holder_and_rising_tokens() {
    let test = "minority::any_fault_of_one_of_three_leaves_one_holder_and_rising_tokens";
    let mode = Mode {
        nodes: 3,
        ttl: SHORT_TTL,
        max_ttl: Some(MAX_TTL),
        kinds: faults::chosen(&Fault::ALL),
        time: run_time(3),
        each_kind: false,
        wants: Wants::One,
    };
    chaos(test, &mode);
}

/// Every kind of fault that a minority of three may have, for workers who want such leases.
fn any_fault_of_one_of_three(test: &'static str, wants: Wants) {
    let mode = Mode {
        nodes: 3,
        ttl: SHORT_TTL,
        max_ttl: Some(MAX_TTL),
        kinds: faults::chosen(&Fault::ALL),
        time: run_time(6),
        each_kind: false,
        wants,
    };
    chaos(test, &mode);
}

/// Sets that overlap, in any order, beside leases on one resource of them. The checker looks at each resource by itself.
#[test]
fn any_fault_of_one_of_three_leaves_one_holder_of_each_of_several_resources() {
    let test = "minority::any_fault_of_one_of_three_leaves_one_holder_of_each_of_several_resources";
    any_fault_of_one_of_three(test, Wants::Sets);
}

/// Readers beside writers of one resource, and a register that refuses readers that a writer came after, and writers that a
/// reader came after.
#[test]
fn any_fault_of_one_of_three_leaves_readers_and_writers_apart() {
    let test = "minority::any_fault_of_one_of_three_leaves_readers_and_writers_apart";
    any_fault_of_one_of_three(test, Wants::Readers);
}

/// More workers than permits. Each slot has one holder, and a register of its own.
#[test]
fn any_fault_of_one_of_three_leaves_no_more_holders_than_there_are_permits() {
    let test = "minority::any_fault_of_one_of_three_leaves_no_more_holders_than_there_are_permits";
    any_fault_of_one_of_three(test, Wants::Permits);
}

/// Five processes pass leases along, some of them to two at once: `chains` says how.
#[test]
fn any_fault_of_one_of_three_leaves_one_holder_of_what_processes_pass_along() {
    let test = "minority::any_fault_of_one_of_three_leaves_one_holder_of_what_processes_pass_along";
    any_fault_of_one_of_three(test, Wants::Chains);
}

#[test]
fn plain_redlock_has_one_holder_where_nodes_that_forget_stay_away() {
    let test = "minority::plain_redlock_has_one_holder_where_nodes_that_forget_stay_away";
    let mode = Mode {
        nodes: 5,
        ttl: TTL,
        max_ttl: None,
        kinds: faults::chosen(&Fault::classic()),
        time: run_time(3),
        each_kind: false,
        wants: Wants::One,
    };
    chaos(test, &mode);
}

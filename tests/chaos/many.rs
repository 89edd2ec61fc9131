//! Very many operations of one kind of lease by eight clients in four processes, while processes are killed and stopped and a
//! minority of the nodes is killed, stopped and emptied: sets, readers and writers, permits, elections, leases with a lock-delay.
//!
//! `QUORLOCK_CHAOS_MANY` says how many; a set is one, and so is a writer that reads on. Each search is tested by histories written by hand, and by workloads with a planted bug:
//! those of elections and lock-delay are here.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock::Redlock;
use quorlock_harness::{Cluster, Evidence, Server, all_ready, eventually};

use super::{
    Defer, MAX_TTL, MS, QUARANTINE, RESOURCE, SECOND, SHORT_TTL, checker,
    faults::{self, Fault, Scene, random},
    fleet::{self, Fleet},
    nemesis::Strikes,
    record::{Count, History, first_of},
    verdict,
    wants::{DELAY, Wants},
};

const PROCESSES: usize = 4;
const CLIENTS: usize = 8;
const NODES: usize = 5;
const FAULTS: [Fault; 4] = [Fault::EmptyRestart, Fault::Restart, Fault::Stop, Fault::KillClients];

/// What to do, and for how long leases last.
pub(crate) struct Many {
    pub(crate) wants: Wants,
    pub(crate) wanted: usize,
    pub(crate) ttl: Duration,
    /// What the search needs and chance brings: it goes on until that has happened, for five times as many at most.
    pub(crate) until: fn(&History) -> bool,
}

/// What came of it.
pub(crate) struct Done {
    pub(crate) history: History,
    /// A client that watches. It is dropped before the servers are.
    pub(crate) observer: Redlock,
    cluster: Cluster,
}

impl Done {
    /// All is well again: nothing is left, and nothing is left to be done.
    pub(crate) fn end(self) {
        let Self { cluster, observer, .. } = self;
        eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
        let lease = observer.acquire(RESOURCE).blocking().expect("all is well again");
        lease.blocking_release().unwrap();
        observer.blocking_close().expect("nothing is left to be done");
    }
}

/// Does so many. Whatever the kind, each resource has one holder at a time, with rising tokens, and the register has nothing
/// stale; in the end all is well again.
pub(crate) fn many(test: &'static str, many: &Many) -> Option<Done> {
    if fleet::played_a_part() {
        return None;
    }
    let text = std::env::var("QUORLOCK_CHAOS_MANY").ok();
    let wanted = text.map_or(many.wanted, |text| text.parse().expect("how many"));
    let (cluster, register) = (faults::servers(NODES), Server::start());
    let mut parts = fleet::parts(PROCESSES, &cluster.urls(), &register, many.ttl, Some(MAX_TTL));
    for part in &mut parts {
        (part.wants, part.clients) = (many.wants, CLIENTS / PROCESSES);
    }
    (parts[0].wall_ahead, parts[1].wall_ahead) = (20_000, -20_000);
    let observer = parts[2].connected();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);

    let began = Instant::now();
    let over = AtomicBool::new(false);
    let (kills, stops, strikes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let scene = Scene::new(&cluster, many.ttl, Duration::ZERO, QUARANTINE);
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
                    let time = if long { many.ttl + 200 * MS } else { 50 * MS };
                    fleet.pause(&[victim], long, || thread::sleep(time));
                    stops.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(MS * u32::try_from(300 + random(1500)).unwrap());
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // One or two at a time, and no other node before they are back.
                let (first, fault) = (random(NODES), FAULTS[random(FAULTS.len())]);
                for node in first..=first + random(2) {
                    scene.strike(fault, node % NODES);
                    strikes.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(QUARANTINE);
                all_ready(&observer);
            }
        });
        // The other threads must end also when this one panics.
        let _over = Defer(&over);
        loop {
            let granted = fleet.record().granted();
            let is_enough = granted >= wanted && (many.until)(&fleet.record().lock());
            if is_enough || granted >= 5 * wanted {
                break;
            }
            eventually("the work goes on", 30 * SECOND, || fleet.record().granted() > granted);
        }
    });
    let (took, (_, stopped_long)) = (began.elapsed(), fleet.stops());
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    println!(
        "{} granted in {took:?}; {} kills, {} stops, {stopped_long} of them past the ttl, {} faults of nodes",
        history.granted,
        kills.load(Ordering::Relaxed),
        stops.load(Ordering::Relaxed),
        strikes.load(Ordering::Relaxed),
    );
    println!("{history}\n{verdict}");
    Evidence::new("many", "leases of one kind", &format!("{:?}", many.wants))
        .count("leases", history.granted)
        .count("kills", kills.load(Ordering::Relaxed))
        .count("stops", stops.load(Ordering::Relaxed))
        .count("faults of nodes", strikes.load(Ordering::Relaxed))
        .count("violations", verdict.found())
        .seconds(took)
        .tell();
    verdict::assert_clean(&verdict, &Strikes::default());
    assert!(history.workers_served() > CLIENTS, "{history}");
    drop(scene);
    Some(Done { history, observer, cluster })
}

#[test]
fn many_sets_have_one_holder_of_each_resource_whoever_is_killed() {
    let test = "many::many_sets_have_one_holder_of_each_resource_whoever_is_killed";
    let sets = Many { wants: Wants::Sets, wanted: 300, ttl: SHORT_TTL, until: |_| true };
    let Some(done) = many(test, &sets) else { return };
    // A lease of several resources is as many lines of the history.
    let mut owners: Vec<&str> =
        done.history.leases.iter().map(|held| held.owner.as_str()).collect();
    owners.sort_unstable();
    let several = owners.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).count();
    println!("{several} sets of several resources");
    assert!(several > done.history.granted / 10, "{several}");
    done.end();
}

/// Writers that read on are among them: no other writes before these have released.
#[test]
fn many_readers_and_writers_are_in_order_whoever_is_killed() {
    let test = "many::many_readers_and_writers_are_in_order_whoever_is_killed";
    let shared = Many { wants: Wants::Readers, wanted: 600, ttl: SHORT_TTL, until: |_| true };
    let Some(done) = many(test, &shared) else { return };
    let reads = done.history.leases.iter().filter(|held| held.reads).count();
    let (writes, downgraded) =
        (done.history.leases.len() - reads, done.history.count(Count::ReadsOn));
    println!("{writes} writes, {reads} reads, {downgraded} of them by writers that read on");
    assert!(writes > shared.wanted / 20 && reads > writes, "{reads} {writes}");
    assert!(downgraded > writes / 10, "{downgraded}");
    done.end();
}

/// The writers claim to read on, but have released their leases: others write meanwhile.
#[test]
fn writers_that_read_on_and_hold_nothing_are_found() {
    let test = "many::writers_that_read_on_and_hold_nothing_are_found";
    if fleet::played_a_part() {
        return;
    }
    let (cluster, register) = (Cluster::start(3), Server::start());
    let mut parts = fleet::parts(3, &cluster.urls(), &register, SHORT_TTL, Some(MAX_TTL));
    parts.iter_mut().for_each(|part| part.wants = Wants::Unheld);
    let observer = parts[0].connected();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    let found = || checker::overlaps(&fleet.record().lock().leases).len();
    eventually("a writer beside one of them is found", 60 * SECOND, || found() > 0);
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    println!("{history}\n{verdict}");
    let readers = || verdict.overlaps.iter().map(|(earlier, _)| earlier);
    assert!(readers().all(|held| held.reads), "nobody else is met");
    assert!(verdict.wrong_tokens.is_empty(), "the tokens are as they should be");
}

#[test]
fn many_elections_have_one_leader_and_observers_see_who_was_elected() {
    let test = "many::many_elections_have_one_leader_and_observers_see_who_was_elected";
    let until = |history: &History| history.seen.len() > PROCESSES;
    let elections = Many { wants: Wants::Elections, wanted: 400, ttl: SHORT_TTL, until };
    let Some(done) = many(test, &elections) else { return };
    let wrong = wrong_leaders(&done.history);
    println!(
        "{} times observers saw another leader, {} of them wrong",
        done.history.seen.len(),
        wrong
    );
    assert_eq!(wrong, 0);
    assert!(done.history.seen.len() > PROCESSES, "nobody has seen a leader");
    done.end();
}

pub(crate) fn wrong_leaders(history: &History) -> usize {
    let killed = |process| history.kills.get(&first_of(process)).copied().unwrap_or(0);
    let found = checker::wrong_leaders(&history.leases, &history.seen, killed);
    if let Some(first) = found.first() {
        println!("{first:?}");
    }
    found.len()
}

/// How many resources were to be left alone behind a lease.
fn kept(history: &History) -> usize {
    history.leases.iter().filter(|held| !held.kept.is_zero()).count()
}

#[test]
fn many_leases_with_a_lock_delay_leave_their_resource_alone_when_they_are_lost() {
    let test = "many::many_leases_with_a_lock_delay_leave_their_resource_alone_when_they_are_lost";
    let delayed = Many {
        wants: Wants::Delayed,
        wanted: 1_000,
        ttl: MAX_TTL - DELAY,
        until: |history| kept(history) > 0,
    };
    let Some(done) = many(test, &delayed) else { return };
    let too_soon = checker::too_soon(&done.history.leases);
    let kept = kept(&done.history);
    let lost = done.history.count(Count::Lost);
    println!("{kept} resources were to be left alone, {lost} leases were lost under their work");
    assert!(too_soon.is_empty(), "it was not left alone: {:#?}", too_soon.first());
    assert!(kept > 0, "nothing was lost");
    // Were they kept behind releases, so many would have taken minutes.
    let kept_for: Duration = done.history.leases.iter().map(|held| held.kept).sum();
    assert!(
        kept_for < DELAY * u32::try_from(done.history.leases.len() / 4).unwrap(),
        "{kept_for:?}"
    );
    done.end();
}

/// The holders claim a lock-delay, but the nodes have not been told of it.
#[test]
fn resources_that_are_not_left_alone_are_found() {
    let test = "many::resources_that_are_not_left_alone_are_found";
    if fleet::played_a_part() {
        return;
    }
    let (cluster, register) = (Cluster::start(3), Server::start());
    let ttl = MAX_TTL - DELAY;
    let mut parts = fleet::parts(3, &cluster.urls(), &register, ttl, Some(MAX_TTL));
    parts.iter_mut().for_each(|part| part.wants = Wants::Undelayed);
    let observer = parts[0].connected();
    all_ready(&observer);
    let fleet = Fleet::start(test, &parts);
    let (began, mut found) = (Instant::now(), 0);
    while found == 0 && began.elapsed() < 60 * SECOND {
        eventually("it holds the lock", 20 * SECOND, || fleet.latest() == Some(0));
        fleet.kill(0);
        let granted = fleet.record().granted();
        eventually("others go on", 20 * SECOND, || fleet.record().granted() > granted + 5);
        found = checker::too_soon(&fleet.record().lock().leases).len();
    }
    let history = fleet.end();
    let verdict = verdict::on(&history, &register);
    println!("{history}\n{verdict}, {found} not left alone");
    verdict::assert_clean(&verdict, &Strikes::default());
    assert!(found > 0, "a checker that sees nothing proves nothing");
}

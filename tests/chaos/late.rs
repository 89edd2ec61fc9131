//! Commands arrive long after their connection has ended: none lessens what clients rely on by then.
//!
//! For climbers they arrive at the worst moment, when the lease that they were sent for has become a longer one of the
//! same owner; for others at any moment.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Evidence, Server, admit, all_ready, eventually, history::Verdict};

use super::{
    Defer, MAX_TTL, MS, SECOND, TTL, checker,
    climb::{LONGEST, RESOURCES},
    faults::{random, short},
    fleet::{self, Fleet},
    links::Links,
    many::wrong_leaders,
    nemesis::Strikes,
    record::{Count, History, process_of},
    run_time,
    texts::EXTEND,
    verdict,
    wants::Wants,
    worker::name,
};

const PROCESSES: usize = 3;

/// For how long the last lease of a climb is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any before it has left, in ms.
const LAST: i64 = 2_000;

/// How often at least a late command met a longer lease, in a run that is to prove something.
const OFTEN: usize = 5;
/// Within this time all of that has happened, or the planted bug was found, on however busy a machine.
const AT_LAST: Duration = Duration::from_secs(240);

/// The lines by which an extension lets no key end sooner.
const MEND: &str = "    local left = redis.call('PTTL', key)
    local life = no_less(ttl, left)
    if life ~= left then redis.call('PEXPIRE', key, life) end
";

/// The planted bug: without it.
fn shortening() -> String {
    let shortens = "    redis.call('PEXPIRE', key, ttl)\n";
    let planted = EXTEND.replace(MEND, shortens);
    assert_eq!(planted.len() + MEND.len(), EXTEND.len() + shortens.len(), "it was there, once");
    planted
}

/// What is done, and for how long.
struct Story {
    wants: Wants,
    ttl: Duration,
    longest: Duration,
    time: Duration,
    planted: bool,
}

/// What came of it.
struct Run {
    history: History,
    verdict: Verdict,
    /// Leases that began while no one was to have the resource.
    too_soon: usize,
}

/// Who has a key on the first node, and for how many ms.
fn stands(cluster: &Cluster, resource: usize) -> Option<(Vec<u8>, i64)> {
    let name = name(resource);
    let left = cluster[0].pttl(&name);
    cluster[0].get(&name).map(|owner| (owner, left))
}

fn holds(fleet: &Fleet, process: usize) -> bool {
    let history = fleet.record().lock();
    history.held_now().any(|held| process_of(held.worker) == process)
}

/// Waits until some owner has its last lease, and had one before; says whether one has.
fn reaches_the_top(cluster: &Cluster, before: &[Option<(Vec<u8>, i64)>]) -> bool {
    let is_at_the_top = |(resource, before): (usize, &Option<(Vec<u8>, i64)>)| {
        let Some(((owner, left), (now, left_now))) = before.as_ref().zip(stands(cluster, resource))
        else {
            return false;
        };
        *owner == now && *left <= LAST && left_now > LAST
    };
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if before.iter().enumerate().any(is_at_the_top) {
            // Others may follow at once, and the late command is to come after them.
            thread::sleep(MS * u32::try_from(random(200)).unwrap());
            return true;
        }
        thread::sleep(2 * MS);
    }
    false
}

/// A writer has read on, a lease was let go of before its least time, and one was lost with a lock-delay.
fn is_promised(history: &History) -> bool {
    [Count::ReadsOn, Count::KeptBehind, Count::Delayed].iter().all(|it| history.count(*it) > 0)
}

/// Goes on for so long; with climbers, until late commands have met longer leases often, or the planted bug is found.
fn late(test: &'static str, story: &Story) -> Run {
    let Story { wants, ttl, longest, time, planted } = *story;
    let climbs = wants == Wants::Climbs;
    let (cluster, register) = (Cluster::start(3), Server::start());
    let mut parts = fleet::parts(PROCESSES, &cluster.urls(), &register, ttl, Some(longest));
    admit(parts[0].builder());
    let observer = parts[0].connected();
    all_ready(&observer);
    let links = Links::start(&cluster, PROCESSES);
    if planted {
        links.exchange_script(EXTEND, &shortening());
    }
    for (process, part) in parts.iter_mut().enumerate() {
        (part.nodes, part.wants) = (links.urls(process).expect("it has links"), wants);
    }
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);

    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let (struck, met, kills) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for process in 0..PROCESSES {
            let (cluster, links, fleet) = (&cluster, &links, &fleet);
            let (over, struck, met) = (&over, &struck, &met);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if climbs && !holds(fleet, process) {
                        thread::sleep(2 * MS);
                        continue;
                    }
                    let before: Vec<_> =
                        (0..RESOURCES).map(|resource| stands(cluster, resource)).collect();
                    let time = MS * u32::try_from(20 + random(150)).unwrap();
                    links.delay_beyond_the_end(process, time, || {
                        if climbs {
                            let is_met = reaches_the_top(cluster, &before);
                            met.fetch_add(usize::from(is_met), Ordering::Relaxed);
                        } else {
                            thread::sleep(short());
                        }
                    });
                    struck.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(MS * u32::try_from(random(300)).unwrap());
                }
            });
        }
        // The promise after a loss, and after the end of a process, has to be kept too.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(2 * SECOND + 4 * short());
                let latest = fleet.latest().unwrap_or(0);
                if random(4) == 0 {
                    fleet.kill(latest);
                    kills.fetch_add(1, Ordering::Relaxed);
                } else {
                    fleet.pause(&[latest], true, || thread::sleep(ttl + short()));
                }
            }
        });
        // The other threads must end also when this one panics.
        let _over = Defer(&over);
        let is_enough = || {
            let history = fleet.record().lock();
            let is_met = met.load(Ordering::Relaxed) >= OFTEN && is_promised(&history);
            let found = || !checker::overlaps(&history.leases).is_empty();
            if planted { found() } else { (is_met || !climbs) && began.elapsed() >= time }
        };
        while !is_enough() && began.elapsed() < time.max(AT_LAST) {
            thread::sleep(50 * MS);
        }
    });
    let (took, (_, stops)) = (began.elapsed(), fleet.stops());
    let history = fleet.end();
    let (verdict, too_soon) =
        (verdict::on(&history, &register), checker::too_soon(&history.leases).len());
    let (struck, met) = (struck.into_inner(), met.into_inner());
    let (kills, kept) =
        (kills.into_inner(), history.leases.iter().filter(|held| !held.kept.is_zero()));
    let kept = kept.count();
    println!("{test}, in {took:?}");
    println!("connections delayed: {struck} times, {met} of them until the last lease of a climb");
    println!("{kills} kills, {stops} stops; {kept} resources were to be left alone");
    println!("{history}\n{verdict}, {too_soon} too soon");
    if !planted {
        let figures =
            Evidence::new("chaos", "history", &format!("3 nodes, {wants:?}, late connections"))
                .count("leases", history.leases.len())
                .count("effects", history.effects.len())
                .count("late effects refused", history.refused_late())
                .count("workers", history.workers_served())
                .count("violations", verdict.found() + too_soon);
        links
            .told(figures)
            .count("fault KillClient", kills)
            .count("fault StopClientPastTtl", stops)
            .seconds(took)
            .tell();
        assert!(met >= OFTEN || !climbs, "what was late met the last of a climb only {met} times");
    }
    eventually("every key has gone", 20 * SECOND, || cluster.locks_left().is_empty());
    drop(observer);
    Run { history, verdict, too_soon }
}

fn climbing(time: Duration, planted: bool) -> Story {
    Story { wants: Wants::Climbs, ttl: TTL, longest: LONGEST, time, planted }
}

#[test]
fn what_is_late_by_its_connection_lessens_no_longer_lease() {
    let test = "late::what_is_late_by_its_connection_lessens_no_longer_lease";
    if fleet::played_a_part() {
        return;
    }
    let Run { history, verdict, too_soon } = late(test, &climbing(run_time(6), false));
    verdict::assert_clean(&verdict, &Strikes::default());
    let first = checker::too_soon(&history.leases);
    assert_eq!(too_soon, 0, "it was not left alone: {:#?}", first.first());
    // Leases with the owner of an earlier one are of a grant that went on.
    let mut owners: Vec<&str> = history.leases.iter().map(|held| held.owner.as_str()).collect();
    let leases = owners.len();
    owners.sort_unstable();
    owners.dedup();
    println!("{} leases under the owner of one before", leases - owners.len());
    assert!(leases - owners.len() > leases / 10, "{} owners of {leases} leases", owners.len());
    assert!(is_promised(&history), "not all that has to outlive what is late was there: {history}");
}

/// Every other kind of lease: acquires, confirms, restores, releases, records of leaders and farewells are late as well.
#[test]
fn what_is_late_by_its_connection_lessens_no_lease_of_another_kind() {
    let test = "late::what_is_late_by_its_connection_lessens_no_lease_of_another_kind";
    if fleet::played_a_part() {
        return;
    }
    let kinds = [Wants::Readers, Wants::Sets, Wants::Permits, Wants::Elections, Wants::Delayed];
    for wants in kinds {
        let delay = wants.promised();
        let (ttl, longest, time) = (MAX_TTL - delay, MAX_TTL, run_time(10) / 5);
        let story = Story { wants, ttl, longest, time, planted: false };
        let Run { history, verdict, too_soon } = late(test, &story);
        verdict::assert_clean(&verdict, &Strikes::default());
        assert_eq!((too_soon, wrong_leaders(&history)), (0, 0), "{wants:?}");
    }
}

/// Extensions let a key end as soon as they say, as they once did.
#[test]
fn extensions_that_shorten_are_found() {
    let test = "late::extensions_that_shorten_are_found";
    if fleet::played_a_part() {
        return;
    }
    let Run { verdict, .. } = late(test, &climbing(Duration::ZERO, true));
    assert!(!verdict.overlaps.is_empty(), "a nemesis that finds nothing proves nothing");
}

//! Jepsen's "locking set": read a set, sleep, and write it with one element more, under a lock; how many additions that the
//! store has acknowledged are missing in the end?
//!
//! Five processes add to the same sets under rslock, under plain Redlock as this crate does it, under leases that are checked
//! right before the write, and under leases whose tokens the store compares; all side by side, on the same nodes, under the
//! same faults and stops; one of the processes has links that are cut and silent by turns. Every five seconds one process is stopped for longer than the ttl of 2 s. With tokens none may be
//! lost. Of the others it is printed how many were: a lock alone cannot keep out a write that is on its way.
//! The second test stops them where the loss is certain.

mod adder;
mod store;

use std::{
    collections::BTreeMap,
    fmt,
    io::Read as _,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Evidence, Server, admit, connected, eventually};
use rslock::LockManager;

use self::{adder::Adder, store::Store};
use super::{
    MS, SECOND, checker,
    faults::{self, Fault, Scene},
    fleet::{self, Fleet, Part},
    links::Links,
    nemesis::{Nemesis, Stops},
    record::{AdditionEnd, History, first_of},
    run_time,
    wants::{Stand, Wants},
};

const PROCESSES: usize = 5;
/// How many sets there are under each kind of lock.
const SETS: usize = 4;
const TTL: Duration = Duration::from_secs(2);
/// Longer than nodes are quarantined by this longest ttl, which is 2.4 s.
const QUARANTINE: Duration = Duration::from_millis(2600);
/// From one stop of a process to the next.
const STOPS: Duration = Duration::from_secs(5);

/// What guards a set.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Guard {
    /// A lease, looked at right before the write.
    Checked,
    /// A lease, by whose token the store compares.
    Fenced,
    /// Plain Redlock by this crate, looked at right before the write.
    Classic,
    Rslock,
}

impl Guard {
    const ALL: [Self; 4] = [Self::Checked, Self::Fenced, Self::Classic, Self::Rslock];

    /// That of a set.
    const fn of(set: usize) -> Self {
        Self::ALL[set % Self::ALL.len()]
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Checked => "quorlock, check() before the write",
            Self::Fenced => "quorlock, the store compares tokens",
            Self::Classic => "quorlock in classic mode, check() before the write",
            Self::Rslock => "rslock 0.10, in using()",
        }
    }
}

/// The sets of one process: a process that is to be stopped at a given point takes one of each kind.
const fn sets(stand: Stand) -> Range<usize> {
    let kinds = Guard::ALL.len();
    match stand {
        Stand::Nowhere => 0..SETS * kinds,
        Stand::Read => 0..kinds,
        Stand::Checked => kinds..2 * kinds,
    }
}

/// What one process does: a thread for each set, until the input ends.
pub(super) fn play(part: &Part, number: usize, stand: Stand) {
    let ours = part.connected();
    let classic = Part { max_ttl: None, ..part.clone() }.connected();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for resource in sets(stand) {
            let mut adder = Adder {
                number: first_of(number) + resource,
                resource,
                stand,
                store: Store::open(&part.register),
                ttl: part.ttl,
                stop: &stop,
                turns: 0,
            };
            let (ours, classic) = (&ours, &classic);
            scope.spawn(move || match Guard::of(resource) {
                Guard::Checked | Guard::Fenced => adder.by_quorlock(ours),
                Guard::Classic => adder.by_quorlock(classic),
                Guard::Rslock => {
                    let manager = LockManager::new(part.nodes.clone());
                    let runtime = tokio::runtime::Builder::new_current_thread();
                    let runtime = { runtime }.enable_all().build().unwrap();
                    runtime.block_on(adder.by_rslock(&manager));
                }
            });
        }
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    for client in [ours, classic] {
        // Some nodes may be down at the end, and then a key stays for its ttl.
        let _ = client.blocking_close();
    }
}

/// What became of the additions under one kind of lock.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acknowledged: usize,
    lost: usize,
    refused: usize,
    not_sent: usize,
    /// Two that held at once, each by its own clock; rslock does not say until when it holds.
    overlaps: usize,
}

impl Tally {
    /// Hundredths of a percent.
    fn lost_in_10_000(&self) -> usize {
        (self.lost * 10_000).checked_div(self.acknowledged).unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, lost, refused, not_sent, overlaps } = self;
        let share = self.lost_in_10_000();
        write!(
            f,
            "{lost} lost of {acknowledged} acknowledged ({}.{:02} %); {refused} refused by the store, \
             {not_sent} not sent; two holders at once {overlaps} times",
            share / 100,
            share % 100,
        )
    }
}

/// Compares what was acknowledged with what is in these sets.
fn tallies(history: &History, store: &Server, sets: Range<usize>) -> BTreeMap<Guard, Tally> {
    let mut store = Store::open(&store.url());
    let there: BTreeMap<_, _> = sets.map(|set| (set, store.elements(set))).collect();
    let mut tallies: BTreeMap<Guard, Tally> = BTreeMap::new();
    for addition in &history.added {
        let Some(elements) = there.get(&addition.resource) else { continue };
        let tally = tallies.entry(Guard::of(addition.resource)).or_default();
        match addition.end {
            AdditionEnd::Acknowledged => {
                tally.acknowledged += 1;
                tally.lost += usize::from(!elements.contains(&addition.element));
            }
            AdditionEnd::Refused => tally.refused += 1,
            AdditionEnd::NotSent => tally.not_sent += 1,
        }
    }
    let overlaps = checker::overlaps(&history.leases);
    for (earlier, _) in overlaps.iter().filter(|(it, _)| there.contains_key(&it.resource)) {
        tallies.entry(Guard::of(earlier.resource)).or_default().overlaps += 1;
    }
    tallies
}

#[test]
fn no_addition_to_a_set_is_lost_where_the_store_compares_tokens() {
    let test = "locking_set::no_addition_to_a_set_is_lost_where_the_store_compares_tokens";
    if fleet::played_a_part() {
        return;
    }
    let began = Instant::now();
    let (cluster, store) = (faults::servers(5), Server::start());
    let links = Links::start(&cluster, 1);
    let mut parts = fleet::parts(PROCESSES, &cluster.urls(), &store, TTL, Some(TTL));
    admit(parts[0].builder());
    let observer = connected(parts[0].builder());
    for (process, part) in parts.iter_mut().enumerate() {
        part.nodes = links.urls(process).unwrap_or_else(|| cluster.urls());
        part.wants = Wants::Additions(Stand::Nowhere);
    }
    let fleet = Fleet::start(test, &parts);
    eventually("the work has begun", 20 * SECOND, || fleet.record().granted() > 20);
    let nemesis = Nemesis {
        scene: Scene::new(&cluster, TTL, Duration::ZERO, QUARANTINE),
        kinds: &faults::chosen(&Fault::ALL),
        quarantine: Some(QUARANTINE),
        peace: 300 * MS,
        observer: &observer,
        fleet: &fleet,
        links: &links,
        stops: Stops::OneEach(STOPS),
    };
    let strikes = nemesis.rage(run_time(6), false);
    let (_, stopped) = fleet.stops();
    println!("raged until {:?}", began.elapsed());
    let history = fleet.end();
    println!("{test}, in {:?}\n{strikes}{stopped} stops past the ttl\n{history}", began.elapsed());
    let tallies = tallies(&history, &store, sets(Stand::Nowhere));
    for (guard, tally) in &tallies {
        println!("{}: {tally}", guard.words());
        Evidence::new("locking-set", "locking set", guard.words())
            .count("acknowledged", tally.acknowledged)
            .count("lost", tally.lost)
            .count("refused", tally.refused)
            .count("not sent", tally.not_sent)
            .count("stops", stopped)
            .count("violations", if *guard == Guard::Fenced { tally.lost } else { 0 })
            .seconds(began.elapsed())
            .tell();
    }
    assert!(stopped > 0, "nobody was stopped");
    assert!(Guard::ALL.iter().all(|guard| tallies[guard].acknowledged > 20), "{tallies:?}");
    assert_eq!(tallies[&Guard::Fenced].lost, 0, "the store took a write that came too late");
    let ours = |set: usize| matches!(Guard::of(set), Guard::Checked | Guard::Fenced);
    let leases: Vec<_> = history.leases.iter().filter(|it| ours(it.resource)).cloned().collect();
    let overlaps = checker::overlaps(&leases);
    assert!(overlaps.is_empty(), "two holders at once: {:#?}", overlaps.first());
    let wrong = checker::wrong_tokens(&leases);
    assert!(wrong.is_empty(), "tokens that repeat or fall: {:#?}", wrong.first());
}

/// Two processes have taken a lock of each kind and read the set; one of them has looked whether it holds the lock, too. They
/// are stopped for longer than the ttl while a third one adds to all of these sets, and go on.
#[test]
fn only_a_store_that_compares_tokens_loses_nothing_wherever_its_holder_is_stopped() {
    let test = "locking_set::only_a_store_that_compares_tokens_loses_nothing_wherever_its_holder_is_stopped";
    if fleet::played_a_part() {
        return;
    }
    let (cluster, store) = (Cluster::start(3), Server::start());
    let mut parts = fleet::parts(3, &cluster.urls(), &store, TTL, Some(TTL));
    admit(parts[0].builder());
    let stands = [Stand::Read, Stand::Checked, Stand::Nowhere];
    parts.iter_mut().zip(stands).for_each(|(part, stand)| part.wants = Wants::Additions(stand));
    let fleet = Fleet::start(test, &parts);
    let theirs: Vec<(usize, usize)> =
        (0..2).flat_map(|process| sets(stands[process]).map(move |set| (process, set))).collect();
    let holds = |(process, set): &(usize, usize)| {
        let worker = first_of(*process) + set;
        fleet.record().lock().held_now().any(|it| it.worker == worker)
    };
    eventually("they hold each", 60 * SECOND, || theirs.iter().all(holds));
    fleet.pause(&[0, 1], true, || {
        thread::sleep(TTL + TTL / 4);
        let added = || -> Vec<usize> {
            let history = fleet.record().lock();
            let of = |set| history.added.iter().filter(|it| it.resource == set).count();
            theirs.iter().map(|(_, set)| of(*set)).collect()
        };
        let before = added();
        let more = || added().iter().zip(&before).all(|(now, before)| *now > before + 2);
        eventually("the third one has added", 60 * SECOND, more);
    });
    let goes_on = |(process, set): &(usize, usize)| {
        let worker = first_of(*process) + set;
        fleet.record().lock().added.iter().any(|it| it.worker == worker)
    };
    eventually("they have gone on", 60 * SECOND, || theirs.iter().all(goes_on));
    let history = fleet.end();
    let [unchecked, checked] = [Stand::Read, Stand::Checked].map(|stand| {
        let tallies = tallies(&history, &store, sets(stand));
        for (guard, tally) in &tallies {
            println!("{stand:?}, {}: {tally}", guard.words());
            assert_eq!(tally.overlaps, 0, "the lock itself is not to blame: {guard:?}");
        }
        move |guard: Guard| tallies[&guard]
    });
    // A look after the stop finds the lock lost; rslock has nothing to look at.
    assert!(unchecked(Guard::Rslock).lost > 0);
    for guard in [Guard::Checked, Guard::Classic] {
        assert_eq!((unchecked(guard).lost, unchecked(guard).not_sent), (0, 1), "{guard:?}");
        assert!(checked(guard).lost > 0, "{guard:?}");
    }
    assert!(checked(Guard::Rslock).lost > 0);
    for found in [unchecked(Guard::Fenced), checked(Guard::Fenced)] {
        assert_eq!((found.lost, found.refused), (0, 1));
    }
}

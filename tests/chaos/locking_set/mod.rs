//! Jepsen's "locking set": read a set, sleep, and write it with one element more, under a lock; how many additions that the
//! store has acknowledged are missing in the end?
//!
//! Five processes add to the same sets under rslock, under plain Redlock as this crate does it, under leases that are checked
//! right before the write, and under leases whose tokens the store compares; all side by side, on the same nodes, under the
//! same faults and stops. Every five seconds one process is stopped for longer than the ttl of 2 s. With tokens none may be
//! lost. Of the others it is printed how many were: a lock alone cannot keep out a write that is on its way.
//! `only_a_store_that_compares_tokens_loses_nothing_whenever_its_holder_is_stopped` stops them where the loss is certain.

mod adder;
mod store;

use std::{
    collections::BTreeMap,
    fmt,
    io::Read as _,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Evidence, Server, all_ready, eventually};
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
const SETS: usize = 8;
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

/// What one process does: a thread for each set, until the input ends.
pub(super) fn play(part: &Part, number: usize, stand: Stand) {
    let connect = |part: &Part| {
        let connected = (0..20).find_map(|_| part.builder().blocking_connect().ok());
        connected.expect("enough nodes within some seconds")
    };
    let ours = connect(part);
    let classic = connect(&Part { max_ttl: None, ..part.clone() });
    // The one that is to be stopped where it stands takes one set of each kind.
    let sets = if stand == Stand::Nowhere { SETS } else { 1 } * Guard::ALL.len();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for resource in 0..sets {
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

/// Compares what was acknowledged with what is in the sets.
fn tallies(history: &History, store: &Server) -> BTreeMap<Guard, Tally> {
    let mut store = Store::open(&store.url());
    let sets: Vec<_> = (0..SETS * Guard::ALL.len()).map(|set| store.elements(set)).collect();
    let mut tallies: BTreeMap<Guard, Tally> = BTreeMap::new();
    for addition in &history.added {
        let tally = tallies.entry(Guard::of(addition.resource)).or_default();
        match addition.end {
            AdditionEnd::Acknowledged => {
                tally.acknowledged += 1;
                tally.lost += usize::from(!sets[addition.resource].contains(&addition.element));
            }
            AdditionEnd::Refused => tally.refused += 1,
            AdditionEnd::NotSent => tally.not_sent += 1,
        }
    }
    for (earlier, _) in checker::overlaps(&history.leases) {
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
    let links = Links::start(&cluster, PROCESSES - 1);
    let mut parts = fleet::parts(PROCESSES, &cluster.urls(), &store, TTL, Some(TTL));
    let observer = parts[0].builder().blocking_connect().unwrap();
    all_ready(&observer);
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
    let strikes = nemesis.rage(run_time(7), false);
    let (_, stopped) = fleet.stops();
    let history = fleet.end();
    println!("{test}, in {:?}\n{strikes}{stopped} stops past the ttl\n{history}", began.elapsed());
    let tallies = tallies(&history, &store);
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

/// One process has taken a lock of each kind and read the set, and is stopped for longer than the ttl, while another adds to
/// all sets. Then it goes on.
fn stopped(test: &'static str, stand: Stand) -> Option<BTreeMap<Guard, Tally>> {
    if fleet::played_a_part() {
        return None;
    }
    let (cluster, store) = (Cluster::start(3), Server::start());
    let mut parts = fleet::parts(2, &cluster.urls(), &store, TTL, Some(TTL));
    let observer = parts[0].builder().blocking_connect().unwrap();
    all_ready(&observer);
    (parts[0].wants, parts[1].wants) = (Wants::Additions(stand), Wants::Additions(Stand::Nowhere));
    let fleet = Fleet::start(test, &parts);
    let kinds = 0..Guard::ALL.len();
    let held = |set: usize| fleet.record().lock().held_now().any(|it| it.worker == set);
    eventually("it holds each", 30 * SECOND, || kinds.clone().all(held));
    fleet.pause(&[0], true, || {
        thread::sleep(TTL + TTL / 4);
        let added = || {
            let history = fleet.record().lock();
            let of = |set| history.added.iter().filter(|it| it.resource == set).count();
            kinds.clone().map(of).collect::<Vec<_>>()
        };
        let before = added();
        let more = || added().iter().zip(&before).all(|(now, before)| *now > before + 2);
        eventually("others have added", 30 * SECOND, more);
    });
    let ended = || {
        let history = fleet.record().lock();
        kinds.clone().all(|set| history.added.iter().any(|it| it.worker == set))
    };
    eventually("it has gone on", 30 * SECOND, ended);
    let history = fleet.end();
    let tallies = tallies(&history, &store);
    for (guard, tally) in &tallies {
        println!("{stand:?}, {}: {tally}", guard.words());
        assert_eq!(tally.overlaps, 0, "the lock itself is not to blame: {guard:?}");
    }
    Some(tallies)
}

#[test]
fn a_holder_that_is_stopped_before_its_look_loses_nothing_of_ours() {
    let test = "locking_set::a_holder_that_is_stopped_before_its_look_loses_nothing_of_ours";
    let Some(found) = stopped(test, Stand::Read) else { return };
    assert!(found[&Guard::Rslock].lost > 0, "{found:?}");
    for guard in [Guard::Checked, Guard::Fenced, Guard::Classic] {
        assert_eq!(found[&guard].lost, 0, "{guard:?}");
    }
    assert!(found[&Guard::Checked].not_sent == 1 && found[&Guard::Fenced].refused == 1);
}

#[test]
fn only_a_store_that_compares_tokens_loses_nothing_whenever_its_holder_is_stopped() {
    let test = "locking_set::only_a_store_that_compares_tokens_loses_nothing_whenever_its_holder_is_stopped";
    let Some(found) = stopped(test, Stand::Checked) else { return };
    for guard in [Guard::Checked, Guard::Classic, Guard::Rslock] {
        assert!(found[&guard].lost > 0, "{guard:?}");
    }
    assert_eq!((found[&Guard::Fenced].lost, found[&Guard::Fenced].refused), (0, 1));
}

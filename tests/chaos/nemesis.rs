//! Harms the nodes, a minority at a time, stops the processes of clients, breaks links, and makes all well again.
//!
//! A node that has not been admitted again counts as harmed. Nodes that forget do so at once or a quarantine apart, by
//! the nemesis's own clock, so that a majority never forgets within one. Plain Redlock trusts a node that comes back
//! empty only if every lease that it may have forgotten is over by then (numbered among the assumptions in
//! `docs/safety.md`), so it stays away for longer than the ttl there. Nothing here judges.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use quorlock::{Redlock, node::NodeState};
use quorlock_harness::{Evidence, eventually};

use super::{
    MS, SECOND,
    faults::{Fault, Scene, random, short},
    fleet::Fleet,
    links::{LinkFault, Links},
    record,
};

/// One fault of one node.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    pub(crate) fault: Fault,
    pub(crate) node: usize,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) felt: bool,
    /// Leases that were granted meanwhile.
    pub(crate) granted: usize,
}

/// All that was done.
#[derive(Debug, Default)]
pub(crate) struct Strikes(Vec<Strike>);

impl Strikes {
    pub(crate) fn count(&self, fault: Fault) -> usize {
        self.0.iter().filter(|strike| strike.fault == fault).count()
    }

    pub(crate) fn felt(&self, fault: Fault) -> usize {
        self.0.iter().filter(|strike| strike.fault == fault && strike.felt).count()
    }

    /// Leases that were granted while some node was harmed.
    pub(crate) fn granted(&self) -> usize {
        self.0.iter().map(|strike| strike.granted).sum()
    }

    /// The figures with how often each kind was done.
    pub(crate) fn told(&self, figures: Evidence) -> Evidence {
        let kinds: BTreeSet<Fault> = self.0.iter().map(|strike| strike.fault).collect();
        let add = |figures: Evidence, kind: Fault| {
            figures.count(&format!("fault {kind:?}"), self.count(kind))
        };
        kinds.into_iter().fold(figures, add)
    }

    /// The strikes that may have to do with an event at this time.
    pub(crate) fn around(&self, time: Duration) -> Vec<String> {
        let near = |strike: &&Strike| strike.from <= time && time <= strike.to + 3 * SECOND;
        let line = |strike: &Strike| {
            let Strike { fault, node, from, to, .. } = strike;
            format!("{fault:?} of node {node} from {from:?} to {to:?}")
        };
        self.0.iter().filter(near).map(line).collect()
    }
}

impl fmt::Display for Strikes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<Fault, (usize, usize, usize)> = BTreeMap::new();
        for strike in &self.0 {
            let (done, felt, granted) = kinds.entry(strike.fault).or_default();
            *done += 1;
            *felt += usize::from(strike.felt);
            *granted += strike.granted;
        }
        kinds.iter().try_for_each(|(fault, (done, felt, granted))| {
            writeln!(f, "{:>16}: {done} done, {felt} felt, {granted} granted", format!("{fault:?}"))
        })
    }
}

/// How clients are stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stops {
    /// Over and over, one or more at a time, for less than the ttl and for more.
    Often,
    /// One at a time, past the ttl, with so much time from one to the next.
    OneEach(Duration),
}

pub(crate) struct Nemesis<'a> {
    pub(crate) scene: Scene<'a>,
    pub(crate) kinds: &'a [Fault],
    /// Longer than a node is quarantined; none in classic mode.
    pub(crate) quarantine: Option<Duration>,
    /// The time between two faults, at most.
    pub(crate) peace: Duration,
    pub(crate) observer: &'a Redlock,
    pub(crate) fleet: &'a Fleet,
    pub(crate) links: &'a Links,
    pub(crate) stops: Stops,
}

impl Nemesis<'_> {
    /// Harms and heals for this long, and until each kind has had its turn where that is asked for. Returns with
    /// all servers well.
    pub(crate) fn rage(&self, time: Duration, each_kind: bool) -> Strikes {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| self.stop_clients(&over));
            for process in 0..self.links.processes() {
                let over = &over;
                scope.spawn(move || self.break_links(process, over));
            }
            // The other threads must end also when this one panics.
            let _over = super::Defer(&over);
            self.strike_nodes(time, each_kind)
        })
    }

    fn strike_nodes(&self, time: Duration, each_kind: bool) -> Strikes {
        let began = Instant::now();
        let (mut strikes, mut deck) = (Strikes::default(), Vec::new());
        let mut forgot: Option<Instant> = None;
        let missing = |strikes: &Strikes| self.kinds.iter().any(|kind| strikes.count(*kind) == 0);
        // Where nodes may forget at all, chance does not decide whether one does.
        let has_forgotten = |strikes: &Strikes| {
            let mut kinds = self.kinds.iter().filter(|kind| kind.forgets()).peekable();
            kinds.peek().is_none() || kinds.any(|kind| strikes.count(*kind) > 0)
        };
        while began.elapsed() < time || (each_kind && missing(&strikes)) || !has_forgotten(&strikes)
        {
            let mut faults = self.draw(&mut deck);
            let quarantine = self.quarantine.filter(|_| faults.iter().any(|fault| fault.forgets()));
            let victims = if let Some(quarantine) = quarantine {
                self.heal();
                if let Some(forgot) = forgot {
                    thread::sleep(quarantine.saturating_sub(forgot.elapsed()));
                }
                shuffled(0..self.scene.cluster().len())
            } else {
                self.victims()
            };
            // Those that find no victim have their turn later.
            deck.extend(faults.drain(faults.len().min(victims.len())..));
            strikes.0.extend(self.strike(&faults, &victims));
            if quarantine.is_some() {
                forgot = Some(Instant::now());
            }
            // Time for the clients to find the nodes again, or sometimes not.
            thread::sleep(self.peace * u32::try_from(random(100)).unwrap() / 100);
        }
        self.heal();
        strikes
    }

    const fn minority(&self) -> usize {
        (self.scene.cluster().servers.len() - 1) / 2
    }

    /// One fault for each node of a minority or of a part of one; every kind is drawn before one is drawn again.
    fn draw(&self, deck: &mut Vec<Fault>) -> Vec<Fault> {
        let mut draw = || {
            if deck.is_empty() {
                *deck = shuffled(self.kinds.iter().copied());
            }
            deck.pop().expect("a kind of fault")
        };
        let mut faults = vec![draw()];
        while faults.len() < self.minority() && random(4) > 0 {
            faults.push(if random(3) == 0 { faults[0] } else { draw() });
        }
        faults
    }

    /// Nodes in any order, so few that no more than a minority is harmed together with those that still are.
    fn victims(&self) -> Vec<usize> {
        let mut sick = self.sick();
        if sick.len() > self.minority() {
            self.heal();
            sick.clear();
        }
        if sick.len() == self.minority() {
            return shuffled(sick);
        }
        let nodes = shuffled(0..self.scene.cluster().len());
        let healthy = nodes.iter().filter(|node| !sick.contains(node));
        healthy.take(self.minority() - sick.len()).copied().collect()
    }

    /// Does each fault to one node, all at the same time.
    fn strike(&self, faults: &[Fault], victims: &[usize]) -> Vec<Strike> {
        let strike = |(fault, node): (Fault, usize)| {
            let (from, before) = (record::now(), self.fleet.record().granted());
            let felt = self.scene.strike(fault, node);
            let granted = self.fleet.record().granted() - before;
            Strike { fault, node, from, to: record::now(), felt, granted }
        };
        let strike = &strike;
        thread::scope(|scope| {
            let pairs = faults.iter().copied().zip(victims.iter().copied());
            let started: Vec<_> = pairs.map(|pair| scope.spawn(move || strike(pair))).collect();
            started.into_iter().map(|strike| strike.join().expect("a fault is undone")).collect()
        })
    }

    /// The nodes that may not vote, as one client sees it that has just asked.
    fn sick(&self) -> BTreeSet<usize> {
        if let Ok(lease) = self.observer.try_acquire("chaos:observer").blocking() {
            let _ = lease.blocking_release();
        }
        let nodes = self.observer.nodes();
        let sick = nodes.iter().enumerate().filter(|(_, node)| node.state != NodeState::Ready);
        sick.map(|(index, _)| index).collect()
    }

    fn heal(&self) {
        eventually("every node is ready again", 30 * SECOND, || self.sick().is_empty());
    }

    /// Stops some of the clients' processes and lets them go on, over and over; one goes on all the time.
    fn stop_clients(&self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let count = match self.stops {
                Stops::Often => 1 + random(self.fleet.len() - 1),
                Stops::OneEach(_) => 1,
            };
            let mut processes = shuffled(0..self.fleet.len());
            // Most of the time one that holds the lock, or has just had it.
            if let Some(latest) = self.fleet.latest().filter(|_| random(3) > 0) {
                processes.sort_by_key(|process| *process != latest);
            }
            let long = matches!(self.stops, Stops::OneEach(_)) || random(2) == 0;
            let time = if long { self.scene.ttl() + short() } else { short() };
            self.fleet.pause(&processes[..count], long, || thread::sleep(time));
            thread::sleep(match self.stops {
                Stops::Often => MS * u32::try_from(random(600)).unwrap(),
                Stops::OneEach(time) => time.saturating_sub(began.elapsed()),
            });
        }
    }

    /// Breaks the links of one process to a part of the nodes, over and over. It may be that it reaches no majority
    /// of healthy nodes then; others do.
    fn break_links(&self, process: usize, over: &AtomicBool) {
        let mut turn = random(LinkFault::ALL.len());
        while !over.load(Ordering::Relaxed) {
            let nodes = shuffled(0..self.scene.cluster().len());
            let time = if random(2) == 0 { self.scene.ttl() + 2 * short() } else { short() };
            let fault = LinkFault::ALL[turn % LinkFault::ALL.len()];
            self.links.strike(process, &nodes[..self.minority()], fault, time);
            thread::sleep(MS * u32::try_from(random(200)).unwrap());
            turn += 1;
        }
    }
}

fn shuffled<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    for last in (1..items.len()).rev() {
        items.swap(last, random(last + 1));
    }
    items
}

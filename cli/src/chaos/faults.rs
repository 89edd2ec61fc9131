//! The faults: which, on whom and for how long, as a seed determines it, and how each is done and undone.
//!
//! Workers are stopped and killed while they hold the lock, and a majority is emptied while a worker does: those
//! moments matter. The exact times depend on the machine, so two runs with one seed are alike, but not the same.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use quorlock::{Redlock, node::NodeState};
use quorlock_harness::history::record::now;

use super::{
    dice::Dice,
    fleet::Fleet,
    handles::Harm,
    scene::Scene,
    story::{Lane, Strike, What},
};
use crate::exit::Failure;

/// The longest pause of a client before it tries a node again, 0.75 s, and one attempt. 3/20 of the ttl later a lease counts on
/// the node again: docs/safety.md, "Liveness".
const RECONNECT: Duration = Duration::from_millis(850);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// SIGSTOP of the worker that holds the lock, until another has written.
    StopWorker,
    /// SIGKILL of the worker that holds the lock, and another in its place.
    KillWorker,
    /// SIGKILL of a majority, which comes back at once and without its data, while a worker holds the lock.
    EmptyMajority,
    /// SIGKILL of a minority, which comes back with its data.
    KillNodes,
    /// SIGSTOP of a minority.
    StopNodes,
    /// No connection to a minority.
    CutNodes,
}

impl Kind {
    /// The user's servers are harmed only in the ways that were asked for.
    pub(crate) const fn is_possible(self, scene: &Scene) -> bool {
        match self {
            Self::StopWorker | Self::KillWorker => true,
            Self::EmptyMajority => scene.is_own(),
            Self::CutNodes => scene.can_cut(),
            Self::StopNodes => scene.can(Harm::Stop),
            Self::KillNodes => scene.can(Harm::Kill),
        }
    }
}

/// One of them, with all that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// In the order in which they are taken.
    pub(crate) nodes: Vec<usize>,
    /// In times the ttl.
    pub(crate) lasts: f64,
    /// Before the next, in times the ttl, beyond what workers need.
    pub(crate) peace: f64,
}

/// The faults that a seed determines, without an end: all kinds, and then again in another order. What is most telling comes twice.
pub(crate) struct Plan {
    dice: Dice,
    kinds: Vec<Kind>,
    deck: Vec<Kind>,
    nodes: usize,
}

impl Plan {
    /// Nodes are harmed in the ways that `can` allows.
    pub(crate) fn new(seed: u64, nodes: usize, can: impl Fn(Kind) -> bool) -> Self {
        let kinds = [
            Kind::StopWorker,
            Kind::EmptyMajority,
            Kind::CutNodes,
            Kind::KillWorker,
            Kind::StopWorker,
            Kind::StopNodes,
            Kind::KillNodes,
        ];
        let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| can(*kind)).collect();
        // The first time in this order, so that also a short run shows what matters most.
        let deck = kinds.iter().rev().copied().collect();
        Self { dice: Dice::new(seed), kinds, deck, nodes }
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.deck.is_empty() {
            self.deck = self.dice.shuffled(self.kinds.iter().copied());
        }
        let kind = self.deck.pop()?;
        let mut nodes = self.dice.shuffled(0..self.nodes);
        let count = match kind {
            Kind::StopWorker | Kind::KillWorker => 0,
            Kind::EmptyMajority => self.nodes / 2 + 1,
            Kind::KillNodes | Kind::StopNodes | Kind::CutNodes => (self.nodes - 1) / 2,
        };
        nodes.truncate(count);
        let (lasts, peace) = (self.dice.between(0.5, 1.2), self.dice.between(0.0, 0.2));
        Some(Step { kind, nodes, lasts, peace })
    }
}

/// Carries out the faults.
pub(crate) struct Nemesis<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) fleet: &'a Fleet,
    pub(crate) observer: &'a Redlock,
    pub(crate) ttl: Duration,
    /// How long it waits for nodes that do not vote.
    pub(crate) recovery: Duration,
    /// What was done.
    pub(crate) done: &'a Mutex<Vec<Strike>>,
    /// What is being done, for people.
    pub(crate) doing: &'a Mutex<String>,
    pub(crate) over: &'a AtomicBool,
}

impl Nemesis<'_> {
    /// One fault after the other until the time is over. Returns with all servers and workers well.
    pub(crate) fn rage(&self, plan: Plan, until: Duration) -> Result<(), Failure> {
        for step in plan {
            // The next fault waits until all have recovered: otherwise more than a minority could be away.
            self.tell("all nodes come to vote again");
            self.wait(self.recovery, || now() >= until || self.all_ready());
            // Workers find a node again by themselves, some later than the observer, and renew what they hold on it.
            let counts_again = RECONNECT + self.ttl * 3 / 20;
            self.wait(counts_again + self.ttl.mul_f64(step.peace), || now() >= until);
            if now() >= until || self.over.load(Relaxed) {
                break;
            }
            if !step.nodes.is_empty() && !self.all_ready() {
                // Some nodes are away for longer than any fault. Workers are harmed all the same.
                continue;
            }
            self.strike(&step)?;
            self.tell("");
        }
        Ok(())
    }

    fn strike(&self, step: &Step) -> Result<(), Failure> {
        let lasts = self.ttl.mul_f64(step.lasts);
        let mut numbers: Vec<usize> = step.nodes.iter().map(|node| node + 1).collect();
        numbers.sort_unstable();
        let numbers = numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        match step.kind {
            Kind::StopWorker => {
                let Some(worker) = self.holder() else { return Ok(()) };
                self.tell(&format!("worker {} is stopped while it holds the lock", worker + 1));
                let from = now();
                self.fleet.pause(worker, || {
                    self.wait(5 * self.ttl, || {
                        now() > from + self.ttl && self.others_wrote(worker, from)
                    });
                    self.wait(self.ttl / 5, || false);
                });
                self.note(Lane::Worker(worker), What::Stopped, from);
            }
            Kind::KillWorker => {
                let Some(worker) = self.holder() else { return Ok(()) };
                self.tell(&format!("worker {} is killed while it holds the lock", worker + 1));
                let from = now();
                self.fleet.kill(worker);
                self.wait(lasts, || false);
                self.fleet.replace(worker)?;
                self.note(Lane::Worker(worker), What::Killed, from);
            }
            Kind::EmptyMajority => {
                let Some(_) = self.holder() else { return Ok(()) };
                self.tell(&format!("nodes {numbers} restart without their data: a majority"));
                let from = now();
                self.each(&step.nodes, |node| {
                    if let Some(server) = self.scene.server(node) {
                        server.restart_empty();
                    }
                    self.note(Lane::Node(node), What::Emptied, from);
                });
                self.wait(2 * self.ttl, || false);
            }
            Kind::KillNodes => {
                self.tell(&format!("nodes {numbers} are killed"));
                self.harm(step, Harm::Kill, What::Killed)?;
            }
            Kind::StopNodes => {
                self.tell(&format!("nodes {numbers} are stopped"));
                self.harm(step, Harm::Stop, What::Stopped)?;
            }
            Kind::CutNodes => {
                self.tell(&format!("nodes {numbers} are cut off"));
                let from = now();
                let proxies = || step.nodes.iter().filter_map(|node| self.scene.proxy(*node));
                proxies().for_each(|proxy| proxy.cut());
                self.wait(lasts, || false);
                proxies().for_each(|proxy| proxy.heal());
                step.nodes.iter().for_each(|node| self.note(Lane::Node(*node), What::Cut, from));
            }
        }
        Ok(())
    }

    /// Mends all of them, whatever fails.
    fn harm(&self, step: &Step, harm: Harm, what: What) -> Result<(), Failure> {
        let (from, failed) = (now(), Mutex::new(None));
        let check = |result: Result<(), Failure>| {
            if let Err(failure) = result {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
            }
        };
        self.each(&step.nodes, |node| check(self.scene.harm(node, harm)));
        self.wait(self.ttl.mul_f64(step.lasts), || false);
        self.each(&step.nodes, |node| {
            check(self.scene.mend(node, harm));
            self.note(Lane::Node(node), what, from);
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn each(&self, nodes: &[usize], harm: impl Fn(usize) + Sync) {
        let harm = &harm;
        thread::scope(|scope| {
            for node in nodes.iter().copied() {
                scope.spawn(move || harm(node));
            }
        });
    }

    /// Waits for a worker that has just begun to hold the lock.
    fn holder(&self) -> Option<usize> {
        let mut found = None;
        self.wait(6 * self.ttl, || {
            let (record, now) = (self.fleet.record().lock(), now());
            let fresh = |start: Duration| now < start + self.ttl / 10;
            let held = record.held_now().find(|held| fresh(held.start) && now < held.end);
            found = held.map(|held| held.worker);
            found.is_some()
        });
        found
    }

    /// Whether a write of another was taken more than a ttl after that.
    fn others_wrote(&self, worker: usize, since: Duration) -> bool {
        let record = self.fleet.record().lock();
        let mut late = record.effects.iter().rev().take_while(|effect| effect.before > since);
        late.any(|effect| {
            effect.worker != worker && effect.accepted && effect.before > since + self.ttl
        })
    }

    fn all_ready(&self) -> bool {
        self.observer.nodes().iter().all(|node| node.state == NodeState::Ready)
    }

    /// Waits until this is so, but no longer than the limit or the run.
    fn wait(&self, limit: Duration, mut is_so: impl FnMut() -> bool) {
        let end = now() + limit;
        while now() < end && !is_so() && !self.over.load(Relaxed) {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn note(&self, lane: Lane, what: What, from: Duration) {
        let strike = Strike { lane, what, from, to: now() };
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(strike);
    }

    fn tell(&self, text: &str) {
        text.clone_into(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_faults_and_all_kinds_come_before_they_come_again() {
        let steps = |seed| Plan::new(seed, 5, |_| true).take(28).collect::<Vec<_>>();
        assert_eq!(steps(3), steps(3));
        assert_ne!(steps(3), steps(4));
        for deck in steps(3).chunks(7) {
            for step in deck {
                let alike = deck.iter().filter(|other| other.kind == step.kind).count();
                assert_eq!(alike, if step.kind == Kind::StopWorker { 2 } else { 1 }, "{deck:?}");
                let nodes = match step.kind {
                    Kind::StopWorker | Kind::KillWorker => 0,
                    Kind::EmptyMajority => 3,
                    _ => 2,
                };
                assert_eq!(step.nodes.len(), nodes);
            }
        }
    }

    #[test]
    fn servers_of_others_are_not_killed() {
        let harmless = [Kind::StopWorker, Kind::KillWorker, Kind::CutNodes];
        let mut steps =
            Plan::new(1, 3, |kind| kind != Kind::EmptyMajority && harmless.contains(&kind));
        assert!(steps.by_ref().take(50).all(|step| harmless.contains(&step.kind)));
    }
}

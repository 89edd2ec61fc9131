//! Tokens of every kind under any schedule.
//!
//! Goal: tokens are unique; a grant that was won before another acquire began has the smaller ones; a reader's is no smaller
//! than that of a writer before it, and smaller than that of one after it; and so it is at each node that two of them have
//! a vote of. Under any delay, any loss, any hint, keys that vanish whenever they like, restores of whatever was won,
//! however late, and leases that follow each other under one grant. Method: the production's `Round` over its `NodeStore`,
//! random schedules of single messages, in order on each connection, some of them doubled. What has a flaw must be found
//! by the same schedules. The model checker (`tests/proof/model`) has all orders of two and three rounds.

mod attempt;
mod flaw;
mod node;

use quorlock_core::{Cohort, Drift, Lifecycle, Offer, OthersWait, RenewalPolicy, Verdict, Wanted};
use rand::{Rng, SeedableRng, rngs::StdRng};

use self::{attempt::Attempt, flaw::Flaw, node::Node};
use super::*;

/// What the rounds of a schedule ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// One resource, with as many tokens as a grant is to have leases.
    One,
    /// One, two or three resources at once.
    Sets,
    /// One resource, together with others or not.
    Readers,
    /// Any slot of two.
    Slots,
}

const KINDS: [Kind; 4] = [Kind::One, Kind::Sets, Kind::Readers, Kind::Slots];

/// As many schedules of each kind.
const SEEDS: u64 = 20_000;

/// A lease of a grant.
struct Held {
    process: usize,
    /// When the round of its grant began, and when this one did.
    began: usize,
    from: usize,
    token: u64,
}

/// What has come of schedules.
#[derive(Debug, Default)]
struct Seen {
    grants: usize,
    leases: usize,
    /// Leases that began when their key stood on fewer nodes than a quorum.
    stale: usize,
    confirmed: usize,
    filled_in: usize,
}

struct World {
    kind: Kind,
    flaw: Flaw,
    nodes: Vec<Node>,
    attempts: Vec<Attempt>,
    /// The attempt of each process that is not over, and what it has not used of its grants before.
    processes: Vec<(Option<usize>, Vec<Cohort>)>,
    held: Vec<Held>,
    seen: Seen,
}

/// The grant is handed on, by a process that takes it to hold: no time passes here.
fn next(cohort: &mut Cohort) -> Option<FencingToken> {
    let (drift, policy) = (Drift::default(), RenewalPolicy::default());
    let lifecycle = Lifecycle::new(start(), at(9_000), TTL, drift, policy);
    let (lock_delay, min_validity) = (Duration::ZERO, Duration::ZERO);
    let offer = Offer {
        lifecycle: &lifecycle,
        lock_delay,
        alone: false,
        is_kept: false,
        others: OthersWait::Nobody,
        turn: TTL,
        now: start(),
    };
    cohort.next(&offer, Wanted { ttl: TTL, lock_delay, min_validity, alone: false }).ok().flatten()
}

impl World {
    fn new(rng: &mut StdRng, kind: Kind, flaw: Flaw) -> Self {
        let nodes = [3, 5][rng.random_range(0..2)];
        Self {
            kind,
            flaw,
            nodes: (0..nodes).map(|index| Node::new(index, kind, flaw, rng)).collect(),
            attempts: Vec::new(),
            processes: vec![(None, Vec::new()); rng.random_range(2..=5)],
            held: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// What a process does that has begun a round: the next lease of its grant, or the end of that.
    fn go_on(&mut self, process: usize, step: usize, rng: &mut StdRng) {
        let Some(current) = self.processes[process].0 else { return };
        let attempt = &mut self.attempts[current];
        let Some((_, tokens)) = attempt.won.clone() else {
            if attempt.round.verdict() == Verdict::Lost {
                self.processes[process].0 = None;
            } else if rng.random_bool(0.02) {
                attempt.round.handle_timeout(at(100));
                attempt.send();
            }
            return;
        };
        let older = &mut self.processes[process].1;
        let has_left = |cohort: &&mut Cohort| self.flaw == Flaw::OldRange && cohort.leases() < 3;
        let older = older.iter_mut().find(has_left).filter(|_| rng.random_bool(0.5));
        let token = match (older, &mut attempt.cohort) {
            (Some(cohort), _) | (None, Some(cohort)) => next(cohort),
            (None, none) => {
                let (cohort, first) = Cohort::begin(Some(tokens), start());
                *none = Some(cohort);
                first
            }
        };
        let reads_on = self.kind == Kind::Readers && rng.random_bool(0.5);
        if let Some(token) = token.filter(|_| !rng.random_bool(0.2)) {
            let stands = self.nodes.iter().filter(|node| node.has(attempt)).count();
            self.seen.stale += usize::from(2 * stands < self.nodes.len());
            let (began, token) = (attempt.began, token.get());
            self.held.push(Held { process, began, from: step, token });
        } else if reads_on && !attempt.reads() {
            attempt.send_to_all(&attempt.downgrade());
        } else {
            attempt.send_to_all(&attempt.release());
            let left = attempt.cohort.clone();
            self.processes[process].0 = None;
            self.processes[process].1.extend(left);
        }
    }

    /// A message arrives, one way or the other.
    fn deliver(&mut self, chosen: usize, at_node: usize, rng: &mut StdRng, step: usize) {
        let attempt = &mut self.attempts[chosen];
        let is_open = attempt.round.verdict() == Verdict::Pending;
        let is_early = self.flaw.restores_early() && is_open;
        if (attempt.won.is_some() || is_early) && rng.random_bool(if is_early { 0.3 } else { 0.1 })
        {
            let votes = is_early && self.flaw == Flaw::RestoreVotes;
            if let Some(restore) = attempt.restore(rng.random_bool(0.5)) {
                let there = &mut attempt.there[at_node];
                // Also on a newer connection than what is still under way.
                let place = if rng.random_bool(0.5) { there.len() } else { 0 };
                there.insert(place, (restore, votes));
            }
        }
        if rng.random_bool(0.5) {
            let Some((command, is_answered)) = attempt.there[at_node].pop_front() else { return };
            // Somebody on the way sends it twice.
            if rng.random_bool(0.03) {
                attempt.there[at_node].push_front((command.clone(), false));
            }
            let reply = self.nodes[at_node].execute(&command, is_open && is_answered);
            if is_answered {
                let reply = attempt.counted(&command, reply);
                attempt.back[at_node].push_back((!rng.random_bool(0.05)).then_some(reply));
            }
            return;
        }
        let Some(reply) = attempt.back[at_node].pop_front() else { return };
        attempt.hear(at_node, reply.unwrap_or(UNKNOWN), self.flaw);
        if attempt.won.is_none() && attempt.round.verdict() == Verdict::Won {
            self.seen.grants += 1;
            self.seen.confirmed += usize::from(attempt.has_confirmed());
            attempt.win(step, self.flaw);
            self.seen.filled_in += attempt.fill_in();
        }
    }

    /// What is wrong with the tokens.
    fn wrong(&self) -> Option<String> {
        let won: Vec<&Attempt> = self.attempts.iter().filter(|it| it.won.is_some()).collect();
        for a in &won {
            for b in won.iter().filter(|b| a.began != b.began && a.overlaps(b)) {
                if a.is_wrong_behind(b) || a.is_wrong_beside(b, &self.nodes) {
                    return Some(format!("{} and {}", b.tell(), a.tell()));
                }
            }
        }
        if self.kind != Kind::One {
            return None;
        }
        let all: Vec<_> = self.held.iter().map(|it| (it.began, (it.from, [it.token; 2]))).collect();
        let of_one = |(at, it): (usize, &Held)| {
            let mut before = self.held[..at].iter();
            before.any(|other| other.process == it.process && other.token >= it.token)
        };
        let falls = self.held.iter().enumerate().any(of_one);
        wrong_tokens(0, &all).or_else(|| falls.then(|| format!("{all:?} of one process")))
    }
}

/// What is wrong in one schedule.
fn run(seed: u64, kind: Kind, flaw: Flaw, seen: &mut Seen) -> Option<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new(&mut rng, kind, flaw);
    let most = rng.random_range(2..=6);
    for step in 0..300 {
        let process = rng.random_range(0..world.processes.len());
        let idle = world.processes[process].0.is_none();
        if idle && world.attempts.len() < most && (step == 0 || rng.random_bool(0.1)) {
            let number = world.attempts.len();
            world.processes[process].0 = Some(number);
            let attempt = Attempt::begin(number, step, kind, world.nodes.len(), &mut rng);
            world.attempts.push(attempt);
        } else if rng.random_bool(0.15) {
            world.go_on(process, step, &mut rng);
        }
        let node = rng.random_range(0..world.nodes.len());
        if rng.random_bool(0.06) {
            world.nodes[node].vanish(&mut rng);
        }
        let chosen = rng.random_range(0..world.attempts.len());
        world.deliver(chosen, node, &mut rng, step);
    }
    let wrong = world.wrong();
    let Seen { grants, leases, stale, confirmed, filled_in } = world.seen;
    seen.grants += grants;
    seen.leases += leases + world.held.len();
    seen.stale += stale;
    seen.confirmed += confirmed;
    seen.filled_in += filled_in;
    wrong
}

#[test]
fn tokens_are_unique_and_rise_under_any_schedule_of_any_kind() {
    for kind in KINDS {
        let mut seen = Seen::default();
        for seed in 0..SEEDS {
            assert_eq!(run(seed, kind, Flaw::None, &mut seen), None, "{kind:?}, seed {seed}");
        }
        println!("{kind:?}: {SEEDS} schedules, {seen:?}");
        assert!(seen.grants > 20_000 && seen.confirmed > 5_000 && seen.stale > 2_000, "{seen:?}");
        assert!(kind != Kind::Slots || seen.filled_in > 1_000, "{seen:?}");
    }
}

#[test]
fn every_flaw_is_found_by_the_same_schedules() {
    for (kind, flaw) in flaw::ALL {
        let found = (0..SEEDS).find_map(|seed| run(seed, kind, flaw, &mut Seen::default()));
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
}

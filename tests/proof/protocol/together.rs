//! One token for several resources, under any schedule: rounds for sets that overlap, and for one resource of them.
//!
//! Goal: of two grants that have a resource in common the tokens are unique, and the later one has the larger, if it was
//! asked for when the other had been won. Method: the production round over nodes written down in a few lines; every order
//! of all messages of two rounds on three nodes, with keys that vanish one by one and replies that are late or never
//! heard, and random schedules of several rounds. Nodes that treat a set as anything less than a whole must be found out.

use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use quorlock::protocol::{FencingToken, ResourceSet, Target, Verdict};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const NODES: usize = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What is wrong with the nodes, on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// Each counter of a set goes on by itself, and the largest is answered.
    AnswersLargest,
    /// The first counter of a set alone is raised to what is answered.
    RaisesFirst,
    /// A confirm looks at the first key and the first counter alone.
    ConfirmLooksAtFirst,
    /// A confirm raises the first counter alone.
    ConfirmRaisesFirst,
}

const FLAWS: [Flaw; 4] =
    [Flaw::AnswersLargest, Flaw::RaisesFirst, Flaw::ConfirmLooksAtFirst, Flaw::ConfirmRaisesFirst];

fn target(places: &[usize]) -> Target {
    let names = places.iter().map(|place| Resource::new(NAMES[*place]).unwrap());
    ResourceSet::new(names).unwrap().into()
}

fn places(target: &Target) -> Vec<usize> {
    let place =
        |resource: &Resource| NAMES.iter().position(|it| it.as_bytes() == resource.as_bytes());
    target.resources().iter().map(|resource| place(resource).unwrap()).collect()
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Server {
    holders: [Option<Owner>; NAMES.len()],
    counters: [u64; NAMES.len()],
}

impl Server {
    fn execute(&mut self, command: &Command, flaw: Flaw) -> Answered {
        let of = places(command.target().unwrap());
        let first = &of[..1];
        match command {
            Command::Acquire { owner, hint: Some(hint), count, .. }
                if of.iter().all(|place| self.holders[*place].is_none()) =>
            {
                of.iter().for_each(|place| self.holders[*place] = Some(*owner));
                let raised = |counter: u64| (*hint).max(counter + count);
                let largest = of.iter().map(|place| raised(self.counters[*place])).max().unwrap();
                for place in if flaw == Flaw::RaisesFirst { first } else { &of } {
                    let counter = &mut self.counters[*place];
                    let own = flaw == Flaw::AnswersLargest;
                    *counter = if own { raised(*counter) } else { largest };
                }
                Ok(Reply::Granted(Granted::at(FencingToken::new(largest))))
            }
            Command::Confirm { owner, token, .. } => {
                let looks = if flaw == Flaw::ConfirmLooksAtFirst { first } else { &of };
                let is_ours = |place: &usize| {
                    self.holders[*place] == Some(*owner) && self.counters[*place] <= token.get()
                };
                if !looks.iter().all(is_ours) {
                    return Ok(Reply::Denied(Denial::default()));
                }
                for place in if flaw == Flaw::ConfirmRaisesFirst { first } else { &of } {
                    self.counters[*place] = token.get();
                }
                Ok(Reply::Granted(Granted::at(*token)))
            }
            Command::Release { owner, .. } => {
                let ours = of.iter().filter(|place| self.holders[**place] == Some(*owner));
                let ours: Vec<usize> = ours.copied().collect();
                ours.iter().for_each(|place| self.holders[*place] = None);
                Ok(Reply::Granted(Granted::DONE))
            }
            _ => Ok(Reply::Denied(Denial::default())),
        }
    }
}

fn begin(random: u8, target: Target, nodes: usize, hint: u64) -> Round {
    let mut spec = RoundSpec::new(target, Owner::from_random([random; 16]), TTL);
    spec.hint = Some(hint);
    Round::acquire(Quorum::of(nodes), spec, start())
}

fn overlap(a: &Round, b: &Round) -> bool {
    let (a, b) = (&a.spec().target, &b.spec().target);
    a.resources().iter().any(|resource| b.covers(resource))
}

#[derive(Clone, Eq, Hash, PartialEq)]
struct Attempt {
    round: Round,
    /// The command on its way to each node, or its reply.
    there: [Option<Command>; NODES],
    back: [Option<Answered>; NODES],
    /// Whether the other one had been won when it began.
    is_later: bool,
}

impl Attempt {
    fn new(round: Round, is_later: bool) -> Self {
        let mut attempt =
            Self { round, there: Default::default(), back: Default::default(), is_later };
        attempt.send();
        attempt
    }

    fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            // That keys are gone from a node is looked at anyway.
            if !matches!(command, Command::Release { .. }) {
                assert_eq!(self.there[node.index()].replace(command), None);
            }
        }
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone)]
struct World {
    servers: [Server; NODES],
    /// With its hash, so that only what has changed is hashed again.
    attempts: [Option<(Rc<Attempt>, u64)>; 2],
    /// How many keys may vanish still.
    vanish: u8,
}

/// What two rounds ask for: their resources, and their hints.
type Asked<'a> = [(&'a [usize], u64); 2];

impl World {
    fn has_won(&self, index: usize) -> bool {
        let attempt = self.attempts[index].as_ref();
        attempt.is_some_and(|(attempt, _)| attempt.round.verdict() == Verdict::Won)
    }

    fn is_wrong(&self) -> bool {
        let [Some((one, _)), Some((other, _))] = &self.attempts else { return false };
        if !(self.has_won(0) && self.has_won(1)) {
            return false;
        }
        let (a, b) = (won_tokens(&one.round), won_tokens(&other.round));
        a == b || one.is_later && a < b || other.is_later && b < a
    }

    /// By two hashes: that two states have both of them alike is not to be expected.
    fn key(&self) -> (u64, u64) {
        let attempts = self.attempts.each_ref().map(|it| it.as_ref().map(|(_, hash)| *hash));
        let servers = (&self.servers, self.vanish);
        (hash(&(servers, attempts)), hash(&(attempts, servers, 1)))
    }

    fn put(&mut self, index: usize, attempt: Attempt) {
        let hash = hash(&attempt);
        self.attempts[index] = Some((Rc::new(attempt), hash));
    }

    fn next(&self, asked: Asked<'_>, flaw: Flaw, into: &mut Vec<Self>) {
        // Only two winners can be wrong, and one that has lost is none any more.
        let mut rounds = self.attempts.iter().flatten().map(|(it, _)| it.round.verdict());
        if rounds.any(|verdict| verdict == Verdict::Lost) {
            return;
        }
        for (node, server) in self.servers.iter().enumerate().filter(|_| self.vanish > 0) {
            for place in (0..NAMES.len()).filter(|place| server.holders[*place].is_some()) {
                let mut next = self.clone();
                next.servers[node].holders[place] = None;
                next.vanish -= 1;
                into.push(next);
            }
        }
        for (index, (of, hint)) in asked.into_iter().enumerate() {
            let Some((attempt, _)) = &self.attempts[index] else {
                let number = u8::try_from(index).unwrap() + 1;
                let round = begin(number, target(of), NODES, hint);
                let mut next = self.clone();
                next.put(index, Attempt::new(round, self.has_won(1 - index)));
                into.push(next);
                continue;
            };
            if attempt.round.verdict() != Verdict::Pending {
                continue;
            }
            for node in 0..NODES {
                if attempt.there[node].is_none() && attempt.back[node].is_none() {
                    continue;
                }
                let (mut next, mut attempt) = (self.clone(), Attempt::clone(attempt));
                if let Some(command) = attempt.there[node].take() {
                    attempt.back[node] = Some(next.servers[node].execute(&command, flaw));
                } else if let Some(reply) = attempt.back[node].take() {
                    attempt.round.handle_reply(super::node(node), reply, at(1));
                    attempt.send();
                }
                next.put(index, attempt);
                into.push(next);
            }
        }
    }
}

/// How many states there are; `None` where one of them is wrong.
fn states(asked: Asked<'_>, counters: [[u64; 3]; NODES], flaw: Flaw) -> Option<usize> {
    let servers = counters.map(|counters| Server { counters, ..Server::default() });
    let first = World { servers, attempts: [None, None], vanish: 1 };
    let (mut seen, mut open) = (HashSet::from([first.key()]), vec![first]);
    let mut next = Vec::new();
    while let Some(world) = open.pop() {
        if world.is_wrong() {
            return None;
        }
        world.next(asked, flaw, &mut next);
        open.extend(next.drain(..).filter(|world| seen.insert(world.key())));
    }
    Some(seen.len())
}

const BOTH: &[usize] = &[0, 1];

/// Pairs of rounds with a resource in common, and counters that differ between nodes and resources.
fn settings() -> Vec<(Asked<'static>, [[u64; 3]; NODES])> {
    let alike = [[0; 3]; NODES];
    let differ = [[1, 0, 0], [0, 1, 0], [0, 0, 0]];
    let apart = [[2, 0, 0], [0, 2, 0], [1, 1, 0]];
    let mut all = Vec::new();
    for other in [BOTH, &[0], &[1]] {
        for (hints, counters) in [((0, 0), differ), ((1, 0), alike), ((0, 1), apart)] {
            all.push(([(BOTH, hints.0), (other, hints.1)], counters));
        }
    }
    all
}

#[test]
fn tokens_of_two_sets_that_overlap_are_unique_and_rise_in_every_order() {
    let mut all = 0;
    for (asked, counters) in settings() {
        let states = states(asked, counters, Flaw::None);
        all += states.unwrap_or_else(|| panic!("{asked:?} {counters:?}"));
    }
    println!("states={all}");
    assert!(all > 100_000, "too few states to prove anything: {all}");
}

struct Client {
    round: Round,
    began: usize,
    won: Option<usize>,
    there: Vec<VecDeque<Command>>,
    back: Vec<VecDeque<Option<Answered>>>,
}

impl Client {
    fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            self.there[node.index()].push_back(command);
        }
    }
}

/// Whether one random schedule has grants with wrong tokens, and how many grants it has.
fn run(seed: u64, flaw: Flaw) -> (bool, usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let nodes = [3, 5][rng.random_range(0..2)];
    let counters = |rng: &mut StdRng| [0; 3].map(|_: u64| rng.random_range(0..4));
    let server = |rng: &mut StdRng| Server { counters: counters(rng), ..Server::default() };
    let mut servers: Vec<Server> = (0..nodes).map(|_| server(&mut rng)).collect();
    let mut clients: Vec<Client> = Vec::new();
    let sets: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]];
    for step in 0..300 {
        if clients.len() < 5 && (clients.is_empty() || rng.random_bool(0.06)) {
            let random = u8::try_from(clients.len()).unwrap() + 1;
            let of = target(sets[rng.random_range(0..sets.len())]);
            let round = begin(random, of, nodes, rng.random_range(0..4));
            let (there, back) = (vec![VecDeque::new(); nodes], vec![VecDeque::new(); nodes]);
            let mut client = Client { round, began: step, won: None, there, back };
            client.send();
            clients.push(client);
        }
        let node = rng.random_range(0..nodes);
        if rng.random_bool(0.06) {
            servers[node].holders[rng.random_range(0..NAMES.len())] = None;
        }
        let chosen = rng.random_range(0..clients.len());
        let client = &mut clients[chosen];
        if rng.random_bool(0.5) {
            if let Some(command) = client.there[node].pop_front() {
                let reply = servers[node].execute(&command, flaw);
                if !matches!(command, Command::Release { .. }) {
                    client.back[node].push_back((!rng.random_bool(0.05)).then_some(reply));
                }
            }
        } else if let Some(reply) = client.back[node].pop_front() {
            client.round.handle_reply(super::node(node), reply.unwrap_or(UNKNOWN), at(1));
            client.send();
            if client.won.is_none() && client.round.verdict() == Verdict::Won {
                client.won = Some(step);
            }
        }
    }
    let won: Vec<&Client> = clients.iter().filter(|client| client.won.is_some()).collect();
    let mut pairs =
        won.iter().enumerate().flat_map(|(at, a)| won[..at].iter().map(move |b| (a, b)));
    let is_wrong = pairs.any(|(a, b)| {
        let (first, second) = (won_tokens(&a.round), won_tokens(&b.round));
        let follows = |one: &Client, other: &Client| other.won.is_some_and(|won| won < one.began);
        overlap(&a.round, &b.round)
            && (first == second
                || follows(a, b) && first < second
                || follows(b, a) && second < first)
    });
    (is_wrong, won.len())
}

#[test]
fn tokens_of_sets_that_overlap_are_unique_and_rise_under_any_schedule() {
    let mut grants = 0;
    for seed in 0..8_000 {
        let (is_wrong, won) = run(seed, Flaw::None);
        assert!(!is_wrong, "seed {seed}");
        grants += won;
    }
    println!("grants={grants}");
    assert!(grants > 8_000, "too few grants to prove anything: {grants}");
}

#[test]
fn nodes_that_treat_a_set_as_less_than_a_whole_are_found_out() {
    for flaw in FLAWS {
        let found = (0..2_000).find(|seed| run(*seed, flaw).0);
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
}

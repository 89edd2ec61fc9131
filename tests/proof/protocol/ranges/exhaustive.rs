//! All orders of all messages of two rounds on three nodes.
//!
//! Goal: whoever wins, the ranges are disjoint, and the later one is the larger where it began after the other was won.
//! Method: every state that can be reached, with the production round: a round begins, a node executes what was sent to it,
//! a reply is heard, a key vanishes, each at any time. What is late has not happened yet, and a reply that is lost is one
//! that is never heard: both are states that this looks at. A denial is heard at once, since it makes no winner.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use quorlock::protocol::Verdict;

use super::*;

const NODES: usize = 3;

/// What a round asks for: its tokens, and its hint.
type Asked = (u64, u64);

#[derive(Clone, Eq, Hash, PartialEq)]
struct Attempt {
    round: Round,
    /// The command on its way to each node, or its reply: a round has one there at a time.
    there: [Option<Command>; NODES],
    back: [Option<Answered>; NODES],
    /// The acquire that somebody on the way sends once more.
    again: Option<Command>,
    /// Whether the other one had been won when it began.
    is_later: bool,
}

impl Attempt {
    fn begin(index: u8, (count, hint): Asked, is_later: bool) -> Self {
        let mut spec = RoundSpec::new(resource(), Owner::from_random([index + 1; 16]), TTL);
        (spec.count, spec.hint) = (count, Some(hint));
        let round = Round::acquire(Quorum::of(NODES), spec, start());
        let mut attempt = Self {
            round,
            there: Default::default(),
            back: Default::default(),
            again: None,
            is_later,
        };
        attempt.send();
        attempt
    }

    fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            // That its keys are gone from a node, wherever and whenever, is looked at anyway.
            if !matches!(command, Command::Release { .. }) {
                assert_eq!(self.there[node.index()].replace(command), None);
            }
        }
    }

    fn hear(&mut self, index: usize, reply: Answered) {
        self.round.handle_reply(node(index), reply, at(1));
        self.send();
        if self.round.verdict() != Verdict::Pending {
            self.back = Default::default();
        }
    }
}

#[derive(Clone)]
struct World {
    servers: [Server; NODES],
    /// With its hash, so that only what has changed is hashed again.
    attempts: [Option<(Rc<Attempt>, u64)>; 2],
    /// Whether the acquire of the first round to the second node arrives twice.
    doubles: bool,
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl World {
    fn new(counters: [u64; NODES]) -> Self {
        let servers = [0, 1, 2].map(|index| Server::new(index, counters[index]));
        Self { servers, attempts: [None, None], doubles: false }
    }

    /// By two hashes: that two states have both of them alike is not to be expected.
    fn key(&self) -> (u64, u64) {
        let attempts =
            self.attempts.each_ref().map(|attempt| attempt.as_ref().map(|(_, hash)| *hash));
        (hash(&(self.servers, attempts)), hash(&(attempts, self.servers, 1)))
    }

    fn attempt(&self, index: usize) -> Option<&Attempt> {
        self.attempts[index].as_ref().map(|(attempt, _)| &**attempt)
    }

    fn with(&self, index: usize, attempt: Attempt) -> Self {
        let mut next = self.clone();
        let hash = hash(&attempt);
        next.attempts[index] = Some((Rc::new(attempt), hash));
        next
    }

    fn has_won(&self, index: usize) -> bool {
        self.attempt(index).is_some_and(|attempt| attempt.round.verdict() == Verdict::Won)
    }

    /// Every state that may come next.
    fn next(&self, asked: [Asked; 2], flaw: Flaw, into: &mut Vec<Self>) {
        let decided = |index| {
            self.attempt(index).is_some_and(|attempt| attempt.round.verdict() != Verdict::Pending)
        };
        if decided(0) && decided(1) {
            return;
        }
        for node in 0..NODES {
            if self.servers[node].holder.is_some() {
                let mut next = self.clone();
                next.servers[node].holder = None;
                into.push(next);
            }
        }
        for (index, asked) in asked.into_iter().enumerate() {
            let Some(attempt) = self.attempt(index) else {
                let number = u8::try_from(index).unwrap();
                let begun = Attempt::begin(number, asked, self.has_won(1 - index));
                into.push(self.with(index, begun));
                continue;
            };
            for node in 0..NODES {
                if let Some(command) = &attempt.there[node] {
                    let mut servers = self.servers;
                    let reply = servers[node].execute(command, flaw);
                    let mut attempt = attempt.clone();
                    let command = attempt.there[node].take();
                    if self.doubles && (index, node) == (0, 1) {
                        let acquire =
                            |command: &Command| matches!(command, Command::Acquire { .. });
                        attempt.again = command.filter(acquire);
                    }
                    if matches!(reply, Ok(Reply::Denied(_))) {
                        attempt.hear(node, reply);
                    } else if attempt.round.verdict() == Verdict::Pending {
                        attempt.back[node] = Some(reply);
                    }
                    into.push(Self { servers, ..self.with(index, attempt) });
                }
                if let Some(command) = attempt.again.as_ref().filter(|_| node == 1) {
                    let mut servers = self.servers;
                    let _unheard = servers[node].execute(command, flaw);
                    let mut attempt = attempt.clone();
                    attempt.again = None;
                    into.push(Self { servers, ..self.with(index, attempt) });
                }
                if attempt.back[node].is_some() {
                    let mut attempt = attempt.clone();
                    let reply = attempt.back[node].take();
                    attempt.hear(node, reply.expect("there is one"));
                    into.push(self.with(index, attempt));
                }
            }
        }
    }

    fn wrong(&self, flaw: Flaw) -> Option<String> {
        let (a, b) = (self.attempt(0)?, self.attempt(1)?);
        let (of_a, of_b) = (taken(&a.round, flaw)?, taken(&b.round, flaw)?);
        let (a_first, b_first) = (of_a.last() < of_b.first(), of_b.last() < of_a.first());
        let rises = (a_first || !b.is_later) && (b_first || !a.is_later);
        (!(a_first || b_first) || !rises).then(|| format!("{of_a:?} and {of_b:?}"))
    }
}

/// The first pair of ranges that is wrong, how many states there are, and in how many both have won.
fn exhaust(
    asked: [Asked; 2],
    counters: [u64; NODES],
    doubles: bool,
    flaw: Flaw,
) -> (Option<String>, usize, usize) {
    let first = World { doubles, ..World::new(counters) };
    let (mut seen, mut both) = (HashSet::from([first.key()]), 0);
    let (mut open, mut next) = (vec![first], Vec::new());
    while let Some(world) = open.pop() {
        world.next(asked, flaw, &mut next);
        for world in next.drain(..) {
            if !seen.insert(world.key()) {
                continue;
            }
            if let Some(wrong) = world.wrong(flaw) {
                return (Some(wrong), seen.len(), both);
            }
            both += usize::from(world.has_won(0) && world.has_won(1));
            open.push(world);
        }
    }
    (None, seen.len(), both)
}

/// Counts that are alike and that differ; hints below, between and above the counters.
const ASKED: [[Asked; 2]; 4] =
    [[(1, 5), (3, 5)], [(3, 5), (3, 5)], [(3, 4), (2, 9)], [(64, 70), (64, 71)]];

/// Nodes that are alike, and nodes of which some have missed what others have counted.
const COUNTERS: [[u64; NODES]; 2] = [[0; NODES], [5, 0, 7]];

/// Where an acquire arrives twice: hints that are below everything.
const DOUBLED: ([Asked; 2], [u64; NODES]) = ([(3, 1), (3, 1)], [1, 0, 1]);

fn explore(asked: [Asked; 2], counters: [u64; NODES], doubles: bool) {
    let (wrong, states, both) = exhaust(asked, counters, doubles, Flaw::None);
    println!("{asked:?} on {counters:?}: {states} states, {both} where both have won");
    assert_eq!(wrong, None, "{asked:?} on {counters:?}");
    assert!(states > 50_000 && both > 1_000, "too few states: {states}, {both}");
}

#[test]
fn all_orders_of_two_rounds_on_nodes_that_are_alike_give_ranges_that_are_disjoint_and_rise() {
    ASKED.into_iter().for_each(|asked| explore(asked, COUNTERS[0], false));
}

#[test]
fn all_orders_of_two_rounds_on_nodes_that_differ_give_ranges_that_are_disjoint_and_rise() {
    ASKED.into_iter().for_each(|asked| explore(asked, COUNTERS[1], false));
}

#[test]
fn all_orders_of_two_rounds_give_disjoint_ranges_where_an_acquire_arrives_twice() {
    explore(DOUBLED.0, DOUBLED.1, true);
}

#[test]
fn nodes_and_holders_with_a_flaw_are_found_out_by_two_rounds() {
    let flaws =
        [Flaw::OneCountsByOne, Flaw::AllCountByOne, Flaw::GoesOnFromTheFirst, Flaw::OneTooMany];
    for flaw in flaws {
        // The first combination of them all is enough.
        let found = exhaust(ASKED[0], COUNTERS[0], false, flaw).0;
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
    let found = exhaust(DOUBLED.0, DOUBLED.1, true, Flaw::NoGuard).0;
    println!("{:?}: {found:?}", Flaw::NoGuard);
    assert!(found.is_some(), "the guard is what keeps the counter from falling");
}

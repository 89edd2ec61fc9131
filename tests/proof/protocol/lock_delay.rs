//! Lock-delay, exhaustively: two clients, three nodes, commands that are late by any time, and nodes whose clocks step forward
//! once each.
//!
//! Goal: a step by the delay or less leaves one holder, whatever the order (D1); one by a tick more does not, and neither does a
//! holder that counts the delay too, so that the search finds what there is to be found. Method: a small world of its own, in
//! which the deadline, and for how long a node keeps a key, are the crate's arithmetic; time goes in ticks, nodes are alike,
//! and every schedule is looked at in which both may still hold. Rounds themselves are looked at in `exhaustive.rs`.

use std::{collections::HashSet, time::Duration};

use quorlock::protocol::{Drift, Owner, Resource, RoundSpec, Timestamp, validity};

const NODES: usize = 3;
const NEEDED: usize = 2;
const TTL: u64 = 5;
const DELAY: u64 = 4;

/// What is looked at: by how much the clocks step, and what the clients ask for.
#[derive(Clone, Copy)]
struct Setup {
    step: u64,
    delay: u64,
    /// The holder counts with so much more than the nodes keep its key for.
    overcounts: u64,
}

impl Setup {
    fn spec(self) -> RoundSpec {
        let ttl = Duration::from_millis(TTL + self.overcounts);
        let resource = Resource::new("r").unwrap();
        let mut spec = RoundSpec::new(resource, Owner::from_random([7; 16]), ttl);
        spec.lock_delay = Duration::from_millis(self.delay);
        spec.drift = Drift::new(0, Duration::ZERO);
        spec
    }

    /// Up to when a round that begins then may be relied on.
    fn deadline(self, start: u64) -> u64 {
        let (spec, start) = (self.spec(), Timestamp::from_origin(Duration::from_millis(start)));
        let deadline = validity::deadline(start, spec.ttl, spec.drift).since_origin();
        u64::try_from(deadline.as_millis()).unwrap()
    }

    /// For how long a node keeps the key.
    fn key_life(self) -> u64 {
        validity::wire_millis(self.spec().key_life()) - self.overcounts
    }
}

/// How far a client has come with a node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Stage {
    #[default]
    NotAsked,
    /// The acquire is on its way.
    Asked,
    Granted,
    Denied,
}

#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Node {
    stepped: bool,
    /// Whose key stands, and up to when by the node's clock.
    key: Option<(usize, u64)>,
    stages: [Stage; 2],
}

#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct World {
    now: u64,
    nodes: [Node; NODES],
    began: [Option<u64>; 2],
    won: [bool; 2],
    lost: [bool; 2],
}

impl World {
    fn begin(mut self, client: usize) -> Option<Self> {
        // The first to begin is always the same.
        if self.began[client].is_some() || client > 0 && self.began[0].is_none() {
            return None;
        }
        self.began[client] = Some(self.now);
        self.nodes.iter_mut().for_each(|node| node.stages[client] = Stage::Asked);
        Some(self)
    }

    /// A node executes what is on its way, and is heard at once.
    fn execute(mut self, client: usize, node: usize, setup: Setup) -> Option<Self> {
        let clock = self.now + if self.nodes[node].stepped { setup.step } else { 0 };
        let there = &mut self.nodes[node];
        there.key = there.key.filter(|(_, end)| clock < *end);
        let stage = &mut there.stages[client];
        *stage = match *stage {
            Stage::Asked if there.key.is_some() => Stage::Denied,
            Stage::Asked => {
                there.key = Some((client, clock + setup.key_life()));
                Stage::Granted
            }
            _ => return None,
        };
        self.settle(client, setup);
        Some(self)
    }

    fn settle(&mut self, client: usize, setup: Setup) {
        let count =
            |of| self.nodes.iter().filter(|node| node.stages[client] == of).count() >= NEEDED;
        let (granted, denied) = (count(Stage::Granted), count(Stage::Denied));
        if self.won[client] || self.lost[client] || !(granted || denied) {
            return;
        }
        let is_in_time = self.began[client].is_some_and(|start| self.now < setup.deadline(start));
        self.won[client] = granted && is_in_time;
        self.lost[client] = !self.won[client];
    }

    fn has_two_holders(&self, setup: Setup) -> bool {
        (0..2).all(|client| {
            self.won[client]
                && self.began[client].is_some_and(|start| self.now < setup.deadline(start))
        })
    }

    /// Whether two may still hold at once: neither round is lost, or over.
    fn is_open(&self, setup: Setup) -> bool {
        let is_over = |start: u64| self.now >= setup.deadline(start);
        !self.lost.contains(&true) && !self.began.iter().flatten().any(|start| is_over(*start))
    }

    /// Without keys that have expired, and the nodes in one order: which is which makes no difference.
    fn plain(mut self, setup: Setup) -> Self {
        for node in &mut self.nodes {
            let clock = self.now + if node.stepped { setup.step } else { 0 };
            node.key = node.key.filter(|(_, end)| clock < *end);
        }
        self.nodes.sort_unstable();
        self
    }
}

/// How many states there are, or that two held at once in one of them.
fn search(setup: Setup) -> Result<usize, ()> {
    let (mut seen, mut open) = (HashSet::new(), vec![World::default()]);
    while let Some(world) = open.pop() {
        if world.has_two_holders(setup) {
            return Err(());
        }
        let mut next: Vec<World> = Vec::new();
        for client in 0..2 {
            next.extend(world.begin(client));
            next.extend((0..NODES).filter_map(|node| world.execute(client, node, setup)));
        }
        for node in (0..NODES).filter(|node| setup.step > 0 && !world.nodes[*node].stepped) {
            let mut stepped = world;
            stepped.nodes[node].stepped = true;
            next.push(stepped);
        }
        if world.began[0].is_some() {
            next.push(World { now: world.now + 1, ..world });
        }
        let next = next.into_iter().filter(|world| world.is_open(setup));
        open.extend(next.map(|world| world.plain(setup)).filter(|world| seen.insert(*world)));
    }
    Ok(seen.len())
}

#[test]
fn d1_steps_by_the_delay_or_less_leave_one_holder_in_every_schedule() {
    for step in 0..=DELAY {
        let states = search(Setup { step, delay: DELAY, overcounts: 0 });
        println!("steps of {step} ticks: {states:?} states");
        assert!(states.is_ok_and(|states| states > 1_000));
    }
}

#[test]
fn a_step_by_a_tick_more_is_found_and_so_is_one_without_a_delay() {
    assert_eq!(search(Setup { step: DELAY + 1, delay: DELAY, overcounts: 0 }), Err(()));
    assert_eq!(search(Setup { step: 1, delay: 0, overcounts: 0 }), Err(()));
    assert!(search(Setup { step: 0, delay: 0, overcounts: 0 }).is_ok());
}

#[test]
fn a_deadline_that_counts_the_delay_too_is_found() {
    // What it counts with the nodes do not keep, so that nothing is left of the delay.
    assert_eq!(search(Setup { step: 0, delay: 0, overcounts: DELAY }), Err(()));
}

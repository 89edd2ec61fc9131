//! The nodes of the model beside the node in memory, which is compared with the scripts on a server elsewhere.
//!
//! Goal: what the model rests on is what nodes do. Method: random sequences of commands, looks, restarts and ticks, given to
//! both; what they answer, and who has which key behind each of them, is the same. Seeds are those of a counter, so that
//! all runs are alike.
//!
//! Not compared: what a denial tells beside that it is one, and lines.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::executor::block_on;
use quorlock::{
    node::{MemoryNode, Node as _},
    protocol::{
        Command, FencingToken, Floor, Join, KeyHolder, Mark, Owner, Reply, Resource, ResourceSet,
        Slots, Target, Timestamp,
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::model::{
    leases::{
        asking::{KEYS, SLOTS, keys_of},
        node::{Holder, Letter, Node, Said},
    },
    tenures::{
        holder::{Letter as TimedLetter, TICK},
        node::{Node as TimedNode, Shortens},
    },
    visitor::Station,
};

const SEQUENCES: u64 = 3_000;
const COMMANDS: usize = 60;

/// A node in memory, with a clock of its own.
struct Real {
    node: MemoryNode,
    clock: Arc<AtomicU64>,
    /// What the model and the other one have said of their eras and seals.
    marks: Vec<((u8, u8), Mark)>,
}

impl Real {
    fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let of_node = Arc::clone(&clock);
        let now = move || {
            let millis = of_node.load(Ordering::Relaxed);
            Timestamp::from_origin(Duration::from_millis(millis))
        };
        Self { node: MemoryNode::with_clock(now), clock, marks: vec![((1, 0), Mark::new(1, 0))] }
    }

    fn said(&self, command: Command) -> Said {
        let small = |token: FencingToken| u16::try_from(token.get()).unwrap();
        match block_on(self.node.call(command)) {
            Ok(Reply::Granted(granted)) => match granted.slot {
                Some(slot) => Said::Picked(slot, small(granted.token.unwrap())),
                None => Said::Granted(granted.token.map(small)),
            },
            Ok(Reply::Denied(_)) => Said::Denied,
            Err(_) => Said::Refused,
        }
    }

    /// What is known of it now, mostly.
    fn mark(&self, random: &mut StdRng) -> Mark {
        let before = random.random_range(0..self.marks.len());
        let at = if random.random_bool(0.9) { self.marks.len() - 1 } else { before };
        self.marks[at].1
    }

    fn in_model(&self, mark: Mark) -> (u8, u8) {
        self.marks.iter().find(|(_, real)| *real == mark).unwrap().0
    }

    /// Both are looked at, or let in.
    fn look(&mut self, station: &mut Station, high: u16, random: &mut StdRng) {
        let clock = u16::try_from(self.clock.load(Ordering::Relaxed)).unwrap();
        let (own, real) = *self.marks.last().unwrap();
        if random.random_bool(0.3) {
            let floor = Floor::new(random.random_range(0..20), random.random_range(0..20));
            let was = station.admit(u64::from(own.0), floor, high);
            assert_eq!(block_on(self.node.admit(real.era, floor)).unwrap(), was);
        }
        let waited =
            random.random_bool(0.3).then(|| Duration::from_millis(random.random_range(0..5_000)));
        let mut join = Join::look(Duration::ZERO);
        (join.seal, join.orphaned) = (random.random_bool(0.3), random.random_bool(0.3));
        let (mut of_model, mut of_real) = (join, join);
        of_model.waited = waited.map(|waited| (u64::from(own.0), waited));
        of_real.waited = waited.map(|waited| (real.era, waited));
        let of_model = station.join(of_model, high, clock);
        let of_real = block_on(self.node.join(of_real)).unwrap();
        let told = |marker: quorlock::protocol::Marker| {
            let quorlock::protocol::Marker { ready, high_water, floor, seal, .. } = marker;
            (ready, high_water, floor, seal, marker.orphaned, marker.waited)
        };
        assert_eq!(told(of_model), told(of_real));
        let own = (u8::try_from(of_model.era).unwrap(), u8::try_from(of_model.seal).unwrap());
        let pair = (own, of_real.mark());
        if !self.marks.contains(&pair) {
            let is_new = |(other, mark): &((u8, u8), Mark)| *other != pair.0 && *mark != pair.1;
            assert!(self.marks.iter().all(is_new), "{pair:?}: {:?}", self.marks);
            self.marks.push(pair);
        }
    }
}

fn owner(number: u8) -> Owner {
    Owner::from_random([number + 1; 16])
}

fn resource(key: usize) -> Resource {
    Resource::new(format!("r/{key}")).unwrap()
}

/// Owners with an odd number read.
fn target(number: u8, random: &mut StdRng) -> Target {
    if number % 2 == 1 {
        return Target::Shared(resource(0));
    }
    let keys = random.random_range(1..1_u8 << KEYS);
    let named = (0..KEYS).filter(|key| keys & 1 << key != 0).map(resource);
    ResourceSet::new(named).unwrap().into()
}

fn command(number: u8, mark: Mark, random: &mut StdRng) -> Command {
    let (owner, ttl) = (owner(number), Duration::from_secs(10));
    let target = target(number, random);
    let hint = random.random_range(1..20);
    match random.random_range(0..12) {
        0..4 => Command::Acquire {
            target,
            owner,
            ttl,
            hint: Some(hint),
            count: if number % 2 == 1 { 1 } else { random.random_range(1..4) },
            first: 0,
            mark,
            note: None,
            stand: None,
        },
        4 | 5 if number.is_multiple_of(2) => Command::Acquire {
            target: Slots::new(b"", "r", SLOTS).unwrap().into(),
            owner,
            ttl,
            hint: Some(hint),
            count: 1,
            first: random.random_range(0..SLOTS as u8),
            mark,
            note: None,
            stand: None,
        },
        4..8 => Command::Confirm { target, owner, token: FencingToken::new(hint + 5), mark },
        8 => Command::Extend { target, owner, ttl, fenced: true },
        9 => {
            let until = Timestamp::from_origin(Duration::from_secs(1_000));
            Command::Restore { target, owner, ttl, until, fenced: true, note: None }
        }
        _ => Command::Release { target, owner, keep: None },
    }
}

/// The same as the model has it.
fn letter(command: &Command, mark: (u8, u8)) -> Letter {
    if let Command::Release { target, .. } = command {
        let keys = keys_of(target);
        return Letter::Release { beside: false, again: None, late: false, several: false, keys };
    }
    // Eras of the other one are not as small.
    let command = match command.clone() {
        Command::Acquire { target, owner, ttl, hint, count, first, note, stand, .. } => {
            let mark = Mark::default();
            Command::Acquire { target, owner, ttl, hint, count, first, mark, note, stand }
        }
        Command::Confirm { target, owner, token, .. } => {
            Command::Confirm { target, owner, token, mark: Mark::default() }
        }
        other => other,
    };
    match Letter::of(&command) {
        Letter::Acquire { hint, count, keys, .. } => Letter::Acquire { hint, count, mark, keys },
        Letter::Pick { first, hint, .. } => Letter::Pick { first, hint, mark },
        Letter::Confirm { token, keys, .. } => Letter::Confirm { token, mark, keys },
        other => other,
    }
}

/// Who has each key.
fn held(node: &Node) -> Vec<Option<Vec<u8>>> {
    let value = |holder: &Holder| match holder {
        Holder::Nobody => None,
        Holder::Writer(number) => Some(owner(*number).to_hex().to_vec()),
        Holder::Readers(_) => Some(KeyHolder::SHARED.to_vec()),
    };
    node.holders.iter().map(value).collect()
}

#[test]
fn the_node_of_leases_does_what_a_node_in_memory_does() {
    let mut said = std::collections::BTreeMap::<String, u64>::new();
    for seed in 0..SEQUENCES {
        let random = &mut StdRng::seed_from_u64(seed);
        let (mut model, mut real) = (Node::new(0), Real::new());
        for step in 0..COMMANDS {
            let number = random.random_range(0..5);
            match random.random_range(0..40) {
                0 => {
                    real.node.restart();
                    model.forget();
                }
                1..5 => {
                    let high = model.highest();
                    real.look(&mut model.station, high, random);
                }
                5 if number % 2 == 1 => {
                    let target = Target::Shared(resource(0));
                    real.said(Command::Release { target, owner: owner(number), keep: None });
                    model.vanish(number);
                }
                5 => {
                    if let Some(key) = (0..KEYS).find(|key| model.keys_of(number) & 1 << key != 0) {
                        real.node.set(resource(key).as_bytes(), "", Some(Duration::ZERO));
                    }
                    model.vanish(number);
                }
                _ => {
                    let mark = real.mark(random);
                    let command = command(number, mark, random);
                    let letter = letter(&command, real.in_model(mark));
                    let answer = model.execute(number, number % 2 == 1, letter);
                    let context = format!("seed {seed}, step {step}: {command:?}");
                    assert_eq!(real.said(command), answer, "{context}");
                    let kind = format!("{letter:?}{answer:?}");
                    let words: Vec<&str> = kind.split(|c: char| !c.is_alphabetic()).collect();
                    let ends =
                        [words[0], format!("{answer:?}").split('(').next().unwrap()].join(" ");
                    *said.entry(ends).or_default() += 1;
                }
            }
            let real = (0..KEYS).map(|key| real.node.get(resource(key).as_bytes()));
            assert_eq!(real.collect::<Vec<_>>(), held(&model), "seed {seed}, step {step}");
        }
    }
    println!("{said:?}");
    let kinds = ["Acquire", "Pick", "Confirm", "Extend", "Restore", "Release"];
    for kind in kinds {
        let granted = if kind == "Pick" { "Picked" } else { "Granted" };
        for answer in [granted, "Denied"] {
            assert!(said[&format!("{kind} {answer}")] > 500, "{kind} {answer}: {said:?}");
        }
    }
}

#[test]
fn the_node_of_tenures_does_what_a_node_in_memory_does() {
    // One that may have been its writer's before.
    let reads = || Target::Lowered(resource(0));
    let mut granted = 0_u64;
    for seed in 0..SEQUENCES {
        let random = &mut StdRng::seed_from_u64(seed);
        let station = Station::new();
        let mut model =
            TimedNode { holder: None, shared: false, until: 0, counter: 0, ahead: 0, station };
        let (mut real, mut now) = (Real::new(), 0_u8);
        for step in 0..COMMANDS {
            let number = random.random_range(0..2);
            match random.random_range(0..20) {
                0..6 if now < 50 => {
                    let jumps = model.ahead == 0 && random.random_bool(0.1);
                    if jumps {
                        model.ahead = 3
                    } else {
                        now += 1
                    }
                    let clock = u64::from(now + model.ahead) * TICK;
                    real.clock.store(clock, Ordering::Relaxed);
                    model.expire(now);
                }
                6 if random.random_bool(0.3) => {
                    real.node.restart();
                    model.forget();
                }
                6..9 => {
                    let high = model.counter;
                    real.look(&mut model.station, high, random);
                }
                _ => {
                    let mark = real.mark(random);
                    let own = real.in_model(mark);
                    let (target, owner) = (Target::from(resource(0)), owner(number));
                    let life = random.random_range(1..6);
                    let ttl = Duration::from_millis(u64::from(life) * TICK);
                    let (hint, count) = (random.random_range(1..20_u16), random.random_range(1..4));
                    let (command, letter) = match random.random_range(0..8) {
                        0..3 => (
                            Command::Acquire {
                                target,
                                owner,
                                ttl,
                                hint: Some(u64::from(hint)),
                                count: u64::from(count),
                                first: 0,
                                mark,
                                note: None,
                                stand: None,
                            },
                            TimedLetter::Acquire { hint, count, life, mark: own },
                        ),
                        3..5 => {
                            let token = FencingToken::new(u64::from(hint) + 10);
                            let command = Command::Confirm { target, owner, token, mark };
                            (command, TimedLetter::Confirm { token: hint + 10, mark: own })
                        }
                        5 | 6 => {
                            let lowered = random.random_bool(0.3);
                            let target = if lowered { reads() } else { target };
                            let command = Command::Extend { target, owner, ttl, fenced: true };
                            (command, TimedLetter::Extend { life, number: 1, lowered })
                        }
                        _ => {
                            let keep = if random.random_bool(0.3) { life } else { 0 };
                            let kept = (keep > 0).then_some(ttl);
                            let command = Command::Release { target: reads(), owner, keep: kept };
                            (command, TimedLetter::Release { keep })
                        }
                    };
                    let answer = model.execute(number, letter, now, Shortens::Nothing);
                    granted += u64::from(matches!(answer, Said::Granted(_)));
                    let context = format!("seed {seed}, step {step}: {command:?}");
                    assert_eq!(real.said(command), answer, "{context}");
                }
            }
            let held = match model.holder {
                Some(_) if model.shared => Some(KeyHolder::SHARED.to_vec()),
                holder => holder.map(|number| owner(number).to_hex().to_vec()),
            };
            assert_eq!(real.node.get(resource(0).as_bytes()), held, "seed {seed}, step {step}");
        }
    }
    assert!(granted > 10_000, "{granted}");
}

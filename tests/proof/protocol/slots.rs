//! Any slot of a semaphore, S1 to S3: every answer in every order, and every schedule of two and three clients.
//!
//! Goal: whatever nodes take and whatever is lost on the way, a permit stands on a quorum for one slot, no two clients have
//! the same one, and of what was picked and not won nothing is left. Method: the production code over nodes written down in
//! a few lines, with three nodes and one or two slots, searched exhaustively; each planted flaw must be found.

use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use quorlock::protocol::{FencingToken, RoundLoss, Slots, Target, Verdict};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

mod facts;
mod tokens;

const NODES: usize = 3;

fn slots(count: usize) -> Slots {
    Slots::new(b"", "s", count).unwrap()
}

fn begin(client: u8, count: usize, first: u8) -> Round {
    let mut spec = RoundSpec::new(slots(count), Owner::from_random([client; 16]), TTL);
    (spec.hint, spec.first) = (Some(1), first);
    Round::acquire(Quorum::of(NODES), spec, start())
}

fn picked(slot: u8, token: u64) -> Answered {
    Ok(Reply::Granted(Granted::at(FencingToken::new(token)).in_slot(slot)))
}

/// The numbers of the slots that a command names.
fn numbers(target: &Target) -> Vec<u8> {
    let names = target.resources().iter();
    names.map(|name| name.to_string().strip_prefix("s/").unwrap().parse().unwrap()).collect()
}

/// Every answer of a node, and what it has set by then.
fn answers() -> [(Answered, Option<u8>); 7] {
    [
        (picked(0, 1), Some(0)),
        (picked(0, 2), Some(0)),
        (picked(1, 1), Some(1)),
        (picked(1, 2), Some(1)),
        (denied(), None),
        (UNKNOWN, None),
        (NOT_SENT, None),
    ]
}

#[test]
fn s1_and_s2_in_every_order_of_every_answer_a_win_is_a_quorum_for_one_slot_and_the_rest_is_released()
 {
    let (mut won, mut lost) = (0, 0);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (case, order) in (0..7 * 7 * 7).flat_map(|case| orders.map(|order| (case, order))) {
        let of = [case % 7, case / 7 % 7, case / 49].map(|answer| answers()[answer].clone());
        for abandon_at in 0..=NODES {
            let mut round = begin(1, 2, 0);
            let mut sent = drain(&mut round);
            assert_eq!(sent.len(), NODES);
            sent.clear();
            for (step, index) in order.into_iter().enumerate() {
                if step == abandon_at {
                    round.handle_abandoned();
                    sent.extend(drain(&mut round));
                }
                round.handle_reply(node(index), of[index].0.clone(), at(1));
                for (to, command) in drain(&mut round) {
                    if let Command::Confirm { target, token, .. } = &command {
                        let slot = of[to.index()].1;
                        assert_eq!(numbers(target), [slot.unwrap()]);
                        let answer = Ok(Reply::Granted(Granted::at(*token)));
                        round.handle_reply(to, answer, at(1));
                    }
                    sent.push((to, command));
                }
                sent.extend(drain(&mut round));
            }
            let votes = |slot| of.iter().filter(|(_, took)| *took == Some(slot)).count();
            let quorum = (0..2).find(|slot| votes(*slot) >= 2);
            match round.verdict() {
                Verdict::Won => {
                    won += 1;
                    assert!(quorum.is_some() && round.slot() == quorum, "{of:?}: {round:?}");
                    assert_eq!(Some(numbers(&round.spec().target)[0]), quorum);
                }
                Verdict::Lost => {
                    lost += 1;
                    assert!(quorum.is_none() || abandon_at < NODES, "{of:?}: {round:?}");
                    assert_eq!(round.slot(), None);
                    assert!(round.loss().is_some());
                }
                Verdict::Pending => panic!("{of:?}: {round:?}"),
            }
            for (index, (answer, took)) in of.iter().enumerate() {
                let named: Vec<u8> = sent
                    .iter()
                    .filter(|(to, command)| {
                        to.index() == index && matches!(command, Command::Release { .. })
                    })
                    .flat_map(|(_, command)| numbers(command.target().unwrap()))
                    .collect();
                let may: Vec<u8> = match (answer, took) {
                    (_, Some(slot)) => vec![*slot],
                    (Err(Failure { sent: true, .. }), _) => vec![0, 1],
                    _ => Vec::new(),
                };
                for slot in &may {
                    let is_won = round.slot() == Some(*slot);
                    assert_eq!(named.contains(slot), !is_won, "{index} {slot} {of:?}: {sent:?}");
                }
                if may.is_empty() && abandon_at == NODES {
                    // An abandoned one releases behind what it has not heard yet.
                    let early = round.verdict() == Verdict::Lost;
                    assert!(named.is_empty() || early, "{of:?}: {sent:?}");
                }
            }
        }
    }
    assert_eq!(won + lost, 7 * 7 * 7 * 6 * 4);
    assert!(won > 1_000 && lost > 1_000, "{won} {lost}");
}

#[test]
fn why_it_was_lost_is_told_as_of_a_round_for_one_resource() {
    for (of, loss) in [
        ([denied(), denied(), picked(0, 1)], RoundLoss::Contended),
        ([picked(0, 1), picked(1, 1), denied()], RoundLoss::Contended),
        ([UNKNOWN, UNKNOWN, picked(1, 1)], RoundLoss::NoQuorum),
    ] {
        let mut round = begin(1, 2, 0);
        drain(&mut round);
        for (index, answer) in of.into_iter().enumerate() {
            round.handle_reply(node(index), answer, at(1));
        }
        assert_eq!(round.loss(), Some(loss));
    }
    let mut round = begin(1, 2, 0);
    drain(&mut round);
    (0..2).for_each(|index| round.handle_reply(node(index), picked(1, 1), at(60_000)));
    round.handle_reply(node(2), denied(), at(60_000));
    assert_eq!(round.loss(), Some(RoundLoss::TooLate));
}

#[test]
fn where_a_quorum_is_out_of_reach_before_anything_was_sent_nothing_is() {
    let mut round = begin(1, 2, 0);
    (0..2).for_each(|index| round.handle_reply(node(index), NOT_SENT, at(0)));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn a_grant_without_a_slot_or_of_none_that_was_asked_for_is_no_vote() {
    for answer in [GRANTED, picked(2, 1)] {
        let mut round = begin(1, 2, 0);
        drain(&mut round);
        (0..NODES).for_each(|index| round.handle_reply(node(index), answer.clone(), at(1)));
        assert_eq!(round.loss(), Some(RoundLoss::NoQuorum));
        let released: Vec<_> = drain(&mut round);
        let all = |(_, command): &(NodeId, Command)| numbers(command.target().unwrap()) == [0, 1];
        assert!(released.len() >= 2 && released.iter().all(all), "{released:?}");
    }
}

/// What is wrong, on purpose.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Flaw {
    None,
    /// Grants of both slots are added up.
    AddsUp,
    /// A release names one slot, whatever was picked.
    ReleasesFirst,
    /// All slots have one counter.
    OneCounter,
    /// Where another slot was picked than the one that was won, that is not released.
    KeepsOthers,
    /// Where another slot was picked than elsewhere, that one is filled in before the win, and counts.
    CountsFillingIn,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Server {
    holders: [Option<Owner>; 2],
    counters: [u64; 2],
}

impl Server {
    fn execute(&mut self, command: &Command, flaw: Flaw) -> Option<Answered> {
        let counter = |slot: u8| if flaw == Flaw::OneCounter { 0 } else { usize::from(slot) };
        match command {
            Command::Acquire { target: Target::AnyOf(slots), first, owner, hint, .. } => {
                let mut order = slots.from(*first).map(|(number, _)| number);
                let Some(slot) = order.find(|slot| self.holders[usize::from(*slot)].is_none())
                else {
                    return Some(denied());
                };
                self.holders[usize::from(slot)] = Some(*owner);
                let counter = &mut self.counters[counter(slot)];
                *counter = (*counter + 1).max(hint.unwrap());
                Some(picked(slot, *counter))
            }
            Command::Confirm { target, owner, token, .. } => {
                let slot = numbers(target)[0];
                let counter = &mut self.counters[counter(slot)];
                if self.holders[usize::from(slot)] != Some(*owner) || *counter > token.get() {
                    return Some(denied());
                }
                *counter = token.get();
                Some(Ok(Reply::Granted(Granted::at(*token))))
            }
            Command::Release { target, owner, .. } => {
                for slot in numbers(target) {
                    let holder = &mut self.holders[usize::from(slot)];
                    *holder = holder.filter(|holder| holder != owner);
                }
                None
            }
            // It looks at no counter, and is no vote.
            Command::Restore { target, owner, .. } => {
                let holder = &mut self.holders[usize::from(numbers(target)[0])];
                let is_set = *holder.get_or_insert(*owner) == *owner;
                Some(if is_set { GRANTED } else { denied() })
            }
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Clone, Eq, Hash, PartialEq)]
struct Client {
    round: Round,
    first: u8,
    there: [VecDeque<Command>; NODES],
    back: [Option<Answered>; NODES],
    /// No answer of it is heard any more.
    deaf: [bool; NODES],
}

impl Client {
    fn new(number: usize, count: usize, first: u8) -> Self {
        let round = begin(u8::try_from(number).unwrap() + 1, count, first);
        let mut client = Self {
            round,
            first,
            there: <_>::default(),
            back: <_>::default(),
            deaf: <_>::default(),
        };
        client.send(Flaw::None);
        client
    }

    fn send(&mut self, flaw: Flaw) {
        for (to, mut command) in drain(&mut self.round) {
            if let Command::Release { target, .. } = &mut command {
                match flaw {
                    Flaw::ReleasesFirst => {
                        *target = Target::Slot(slots(2).slot(self.first).unwrap());
                    }
                    Flaw::KeepsOthers if self.has_won() => continue,
                    _ => {}
                }
            }
            self.there[to.index()].push_back(command);
        }
    }

    fn has_won(&self) -> bool {
        self.round.verdict() == Verdict::Won
    }

    fn owner(&self) -> Owner {
        self.round.spec().owner
    }

    fn hear(&mut self, index: usize, reply: Answered, flaw: Flaw) {
        let reply = match reply {
            Ok(Reply::Granted(granted)) if flaw == Flaw::AddsUp && granted.slot.is_some() => {
                Ok(Reply::Granted(granted.in_slot(self.first)))
            }
            reply => reply,
        };
        self.round.handle_reply(node(index), reply, at(1));
        self.send(flaw);
    }
}

#[derive(Clone, Eq, Hash, PartialEq)]
struct World {
    servers: [Server; NODES],
    clients: Vec<Client>,
    /// How many answers may be lost still.
    losses: u8,
}

impl World {
    fn check(&self) -> Result<(), &'static str> {
        let mut taken = HashSet::new();
        for client in self.clients.iter().filter(|client| client.has_won()) {
            let slot = client.round.slot().unwrap();
            if !taken.insert(slot) {
                return Err("a slot has two holders");
            }
            let stands =
                |server: &&Server| server.holders[usize::from(slot)] == Some(client.owner());
            if self.servers.iter().filter(stands).count() < 2 {
                return Err("a permit without a quorum");
            }
        }
        Ok(())
    }

    /// Where nothing is on its way any more.
    fn check_end(&self) -> Result<(), &'static str> {
        for client in &self.clients {
            if client.round.verdict() == Verdict::Pending {
                return Err("nothing was decided");
            }
            for (slot, holder) in self.servers.iter().flat_map(|it| it.holders.iter().enumerate()) {
                let is_won = client.round.slot().map(usize::from) == Some(slot);
                if *holder == Some(client.owner()) && !is_won {
                    return Err("something is left");
                }
            }
        }
        Ok(())
    }

    fn next(&self, flaw: Flaw, into: &mut Vec<Self>) {
        for (number, client) in self.clients.iter().enumerate() {
            for index in 0..NODES {
                // An answer is heard before the next command is executed: fewer states, and no other verdicts.
                if let Some(reply) = &client.back[index] {
                    let mut heard = self.clone();
                    heard.clients[number].back[index] = None;
                    heard.clients[number].hear(index, reply.clone(), flaw);
                    into.push(heard);
                    if self.losses > 0 {
                        let mut lost = self.clone();
                        lost.losses -= 1;
                        lost.clients[number].back[index] = None;
                        lost.clients[number].hear(index, UNKNOWN, flaw);
                        into.push(lost);
                    }
                } else if let Some(command) = client.there[index].front() {
                    let mut next = self.clone();
                    let answer = next.servers[index].execute(command, flaw);
                    let client = &mut next.clients[number];
                    client.there[index].pop_front();
                    client.back[index] = answer.filter(|_| !client.deaf[index]);
                    into.push(next);
                    let is_heard = matches!(command, Command::Acquire { .. })
                        && !self.clients[number].deaf[index];
                    if self.losses > 0 && is_heard {
                        // It is given up before it has been executed, which it is all the same.
                        let mut late = self.clone();
                        late.losses -= 1;
                        late.clients[number].deaf[index] = true;
                        late.clients[number].hear(index, UNKNOWN, flaw);
                        into.push(late);
                    }
                }
            }
        }
    }
}

fn key(world: &World) -> (u64, u64) {
    let mut one = DefaultHasher::new();
    world.hash(&mut one);
    let mut other = DefaultHasher::new();
    (1, world).hash(&mut other);
    (one.finish(), other.finish())
}

/// All states that can be reached, and how many clients have won in those where nothing is under way.
fn search(
    firsts: &[u8],
    count: usize,
    losses: u8,
    flaw: Flaw,
) -> Result<(usize, HashSet<usize>), &'static str> {
    let mut servers = <[Server; NODES]>::default();
    // Two slots of a semaphore of one are one that is always taken.
    servers[1].counters = [1, 0];
    servers[2].counters = [0, 2];
    let clients = firsts.iter().enumerate();
    let clients = clients.map(|(number, first)| Client::new(number, count, *first)).collect();
    let first = World { servers, clients, losses };
    let (mut seen, mut open) = (HashSet::from([key(&first)]), vec![first]);
    let (mut next, mut winners) = (Vec::new(), HashSet::new());
    while let Some(world) = open.pop() {
        world.check()?;
        world.next(flaw, &mut next);
        if next.is_empty() {
            if flaw != Flaw::AddsUp {
                // It leaves something behind as well, which is not what is looked for.
                world.check_end()?;
            }
            winners.insert(world.clients.iter().filter(|client| client.has_won()).count());
        }
        open.extend(next.drain(..).filter(|world| seen.insert(key(world))));
    }
    Ok((seen.len(), winners))
}

#[test]
fn s1_in_every_schedule_no_slot_has_two_holders_and_nothing_is_left_of_those_who_lose() {
    let mut all = 0;
    for (firsts, count, losses) in [([0, 0], 1, 1), ([0, 0], 2, 1), ([0, 1], 2, 1)] {
        let (states, winners) = search(&firsts, count, losses, Flaw::None).unwrap();
        assert!(winners.contains(&count.min(firsts.len())), "{firsts:?} {count}: {winners:?}");
        assert!(winners.iter().all(|winners| *winners <= count));
        all += states;
        println!("{firsts:?} of {count}, {losses} lost: {states} states");
    }
    assert!(all > 10_000, "{all}");
}

/// More clients than slots, more of them than can be searched.
#[test]
fn s1_in_random_schedules_of_four_clients_no_more_win_than_there_are_slots() {
    let mut winners = [0; 3];
    for seed in 0..3_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let firsts: [u8; 4] = std::array::from_fn(|_| random.random_range(0..2));
        let clients = firsts.into_iter().enumerate();
        let clients = clients.map(|(number, first)| Client::new(number, 2, first));
        let servers = [[1, 0], [0, 2], [0, 0]];
        let servers = servers.map(|counters| Server { counters, ..Server::default() });
        let losses = random.random_range(0..3);
        let mut world = World { servers, clients: clients.collect(), losses };
        let mut next = Vec::new();
        loop {
            world.check().unwrap();
            world.next(Flaw::None, &mut next);
            if next.is_empty() {
                break;
            }
            let chosen = random.random_range(0..next.len());
            world = next.swap_remove(chosen);
            next.clear();
        }
        world.check_end().unwrap();
        winners[world.clients.iter().filter(|client| client.has_won()).count()] += 1;
    }
    assert!(winners.iter().all(|times| *times > 10), "{winners:?}");
}

#[test]
fn s3_who_begins_at_another_slot_is_never_in_the_way() {
    assert_eq!(search(&[0, 1], 2, 0, Flaw::None).unwrap().1, HashSet::from([2]));
}

#[test]
fn what_is_planted_is_found() {
    for (flaw, found) in [
        (Flaw::AddsUp, "a permit without a quorum"),
        (Flaw::ReleasesFirst, "something is left"),
        (Flaw::KeepsOthers, "something is left"),
    ] {
        assert_eq!(search(&[0, 0], 2, 1, flaw).unwrap_err(), found, "{flaw:?}");
    }
}

/// The counters of two slots have nothing to do with each other: with one for both a round is lost although each of the
/// clients has a slot of its own on every node.
#[test]
fn s3_with_one_counter_for_all_slots_rounds_are_lost_though_nobody_is_in_the_way() {
    let lost = |flaw| {
        let mut servers = <[Server; NODES]>::default();
        let mut clients = [Client::new(0, 2, 0), Client::new(1, 2, 1)];
        // One begins with higher counters on a node; by the time that it asks the others to confirm, the second has been there.
        servers[0].counters = [5, 0];
        for (index, server) in servers.iter_mut().enumerate() {
            for client in &mut clients {
                let command = client.there[index].pop_front().unwrap();
                let answer = server.execute(&command, flaw).unwrap();
                client.hear(index, answer, flaw);
            }
        }
        for (index, server) in servers.iter_mut().enumerate() {
            for client in clients.iter_mut().rev() {
                while let Some(command) = client.there[index].pop_front() {
                    if let Some(answer) = server.execute(&command, flaw) {
                        client.hear(index, answer, flaw);
                    }
                }
            }
        }
        clients.iter().filter(|client| !client.has_won()).count()
    };
    assert_eq!((lost(Flaw::None), lost(Flaw::OneCounter)), (0, 1));
}

//! Any slot of a semaphore, S1 to S3: every answer in every order.
//!
//! Goal: whatever nodes take and whatever is lost on the way, a permit stands on a quorum for one slot, and of what was
//! picked and not won nothing is left. Method: the production's `Round`, told every answer in every order. That no two have
//! the same slot is looked for by the model checker (`permits`, `permits_two` and `permits_cuts` in `tests/proof/model`), tokens by `tokens.rs`.

use std::collections::VecDeque;

use quorlock_core::{Floor, NodeStore, RoundLoss, Slots, Target, Verdict};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

mod facts;

const NODES: usize = 3;

fn slots(count: usize) -> Slots {
    Slots::new(b"", "s", count).unwrap()
}

fn begin(client: u8, count: usize, first: u8) -> Round {
    let mut spec = RoundSpec::new(slots(count), Owner::from_random([client; 16]), TTL);
    (spec.hint, spec.first) = (Some(1), first);
    spec.marks = [EpochMark::new(1, 0); NODES].into();
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

/// How many of two clients win that begin at these of so many slots, with their messages in any order.
fn winners(firsts: [u8; 2], count: usize, rng: &mut StdRng) -> usize {
    // The counters differ, of nodes and of slots.
    let mut nodes: [NodeStore; NODES] = std::array::from_fn(|_| NodeStore::in_life(0));
    nodes
        .iter_mut()
        .for_each(|node| assert!(node.admit(0, Floor::new(rng.random_range(0..4), 0), 0)));
    let mut rounds = [0, 1].map(|client| begin(client + 1, count, firsts[usize::from(client)]));
    let mut there = [const { VecDeque::new() }; 2];
    loop {
        for (round, there) in rounds.iter_mut().zip(&mut there) {
            there.extend(drain(round));
        }
        let open = there.iter().map(VecDeque::len).sum::<usize>();
        if open == 0 {
            return rounds.iter().filter(|round| round.verdict() == Verdict::Won).count();
        }
        // Of one client and one node what was sent first comes first.
        let client = usize::from(rng.random_range(0..open) >= there[0].len());
        let at_node = there[client][rng.random_range(0..there[client].len())].0;
        let place = there[client].iter().position(|(node, _)| *node == at_node).unwrap();
        let (to, command) = there[client].remove(place).unwrap();
        let (reply, _) = nodes[to.index()].execute(command.clone(), start(), u64::MAX, &|_| true);
        if !matches!(command, Command::Release { .. }) {
            rounds[client].handle_reply(to, Ok(reply.unwrap()), at(1));
        }
    }
}

#[test]
fn s3_who_begins_at_another_slot_is_never_in_the_way() {
    let mut rng = StdRng::seed_from_u64(7);
    assert!((0..5_000).all(|_| winners([0, 1], 2, &mut rng) == 2));
    // Where there is one slot, it is in the way of one of them.
    let alone: Vec<usize> = (0..5_000).map(|_| winners([0, 0], 1, &mut rng)).collect();
    assert!(alone.iter().all(|winners| *winners < 2) && alone.contains(&1));
}

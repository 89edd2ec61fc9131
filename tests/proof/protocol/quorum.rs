//! Quorums, from golden text: one case per line in `testdata/quorum.txt`.
//!
//! Goal: anybody can check the table by eye. Method: every line is given to `Quorum::verdict` as two sets
//! and to a `Round` reply by reply, and both must say what the line says.

use std::fmt::Write as _;

use quorlock_core::{Granted, NodeSet, Quorum, Slots, Verdict};

use super::*;

const GOLDEN: &str = include_str!("testdata/quorum.txt");

struct Case {
    line: &'static str,
    nodes: usize,
    replies: Vec<Option<Answered>>,
    expected: &'static str,
}

fn cases() -> Vec<Case> {
    let lines = GOLDEN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse).collect()
}

fn parse(line: &'static str) -> Case {
    let (input, expected) = line.split_once(" -> ").expect(line);
    let (nodes, replies) = input.split_once(' ').expect(line);
    let reply = |letter: &str| match letter {
        "G" => Some(GRANTED),
        "D" => Some(denied()),
        "F" => Some(UNKNOWN),
        "N" => Some(NOT_SENT),
        "_" => None,
        other => panic!("{line}: {other}"),
    };
    let replies: Vec<_> = replies.split(',').map(reply).collect();
    let nodes = nodes.parse().expect(line);
    assert_eq!(replies.len(), nodes, "{line}");
    Case { line, nodes, replies, expected }
}

#[test]
fn the_golden_cases_hold_for_the_count() {
    for Case { line, nodes, replies, expected } in cases() {
        let with = |is: fn(&Answered) -> bool| -> NodeSet {
            let replies = replies.iter().enumerate();
            let those = replies.filter(|(_, reply)| reply.as_ref().is_some_and(is));
            those.map(|(index, _)| node(index)).collect()
        };
        let granted = with(|reply| *reply == GRANTED);
        let refused = with(|reply| *reply != GRANTED);
        let verdict = Quorum::of(nodes).verdict(granted, refused);
        assert!(expected.starts_with(&format!("{verdict:?}")), "{line}: {verdict:?}");
    }
}

#[test]
fn the_golden_cases_hold_for_a_round() {
    for Case { line, nodes, replies, expected } in cases() {
        let mut round = sent(nodes);
        for (index, reply) in replies.into_iter().enumerate() {
            if let Some(reply) = reply {
                round.handle_reply(node(index), reply, at(1));
            }
        }
        let mut seen = format!("{:?}", round.verdict());
        if let Some(loss) = round.loss() {
            write!(seen, " {loss:?}").unwrap();
        }
        assert_eq!(seen, expected, "{line}");
    }
}

#[test]
fn the_golden_text_covers_every_verdict_at_every_size() {
    for nodes in 1..=7 {
        for verdict in ["Pending", "Won", "Lost Contended", "Lost NoQuorum"] {
            let found = cases().iter().any(|case| case.nodes == nodes && case.expected == verdict);
            assert!(found, "no case of {verdict} with {nodes} nodes");
        }
    }
}

#[test]
fn any_two_quorums_meet_and_the_spare_nodes_are_no_quorum() {
    for nodes in 1..=32 {
        let quorum = Quorum::of(nodes);
        assert!(2 * quorum.needed() > nodes, "{nodes}");
        assert!(2 * (quorum.needed() - 1) <= nodes, "not the smallest: {nodes}");
        assert_eq!(quorum.needed() + quorum.spare(), nodes);
    }
}

#[test]
fn a_count_is_never_won_and_lost_and_is_open_only_while_both_are_possible() {
    for nodes in 1..=32usize {
        let quorum = Quorum::of(nodes);
        for granted in 0..=nodes {
            for refused in 0..=nodes - granted {
                let can_win = nodes - refused >= quorum.needed();
                let expected = match (granted >= quorum.needed(), can_win) {
                    (true, _) => Verdict::Won,
                    (false, true) => Verdict::Pending,
                    (false, false) => Verdict::Lost,
                };
                let (first, last) = (NodeSet::below(granted), NodeSet::below(nodes));
                let last = last.without(NodeSet::below(nodes - refused));
                assert_eq!(quorum.verdict(first, last), expected);
            }
        }
    }
}

/// Every set of the first `nodes` nodes.
fn sets(nodes: usize) -> impl Iterator<Item = NodeSet> + Clone {
    let of = move |bits: usize| (0..nodes).filter(move |index| bits >> index & 1 == 1).map(node);
    (0..1 << nodes).map(move |bits| of(bits).collect())
}

/// Every change from one list to another, with at most six nodes in both together.
fn changes() -> impl Iterator<Item = [NodeSet; 2]> {
    sets(6).flat_map(|before| sets(6).map(move |after| [before, after])).filter(
        |[before, after]| {
            let all = before.or(*after);
            !before.is_empty() && !after.is_empty() && all == NodeSet::below(all.len())
        },
    )
}

#[test]
fn a_quorum_of_both_lists_is_one_of_each_and_its_numbers_are_those_of_its_sets() {
    let majority = |nodes: NodeSet, list: NodeSet| 2 * nodes.and(list).len() > list.len();
    let mut seen = 0;
    for [before, after] in changes() {
        let quorum = Quorum::of_both(before, after);
        let all = before.or(after);
        assert_eq!((quorum.nodes(), quorum.lists()), (all.len(), [before, after]));
        for nodes in sets(all.len()) {
            let is_met = majority(nodes, before) && majority(nodes, after);
            assert_eq!(quorum.is_met_by(nodes), is_met, "{before:?} {after:?} {nodes:?}");
            assert_eq!(quorum.can_miss(all.without(nodes)), is_met);
            let larger = sets(all.len()).filter(|larger| nodes.without(*larger).is_empty());
            let least = larger.filter(|larger| quorum.is_met_by(*larger)).map(NodeSet::len).min();
            assert_eq!(Some(quorum.needed_beyond(nodes)), least, "{before:?} {after:?} {nodes:?}");
            let verdict = match (is_met, quorum.can_miss(NodeSet::NONE)) {
                (true, _) => Verdict::Won,
                (false, true) => Verdict::Pending,
                (false, false) => unreachable!("all nodes are a quorum"),
            };
            assert_eq!(quorum.verdict(nodes, NodeSet::NONE), verdict);
            let lost = if is_met { Verdict::Won } else { Verdict::Lost };
            assert_eq!(quorum.verdict(nodes, all.without(nodes)), lost);
            seen += 1;
        }
        assert_eq!(quorum.needed(), quorum.needed_beyond(NodeSet::NONE));
        for index in 0..=quorum.spare() {
            assert!(
                sets(all.len())
                    .filter(|gone| gone.len() == index)
                    .all(|gone| quorum.can_miss(gone))
            );
        }
    }
    assert!(seen > 50_000, "{seen}");
}

/// Clients with both lists exclude those with one of them. Clients with the old list and clients with the new one need not
/// meet: between them stand the seal and the wait.
#[test]
fn a_quorum_of_both_lists_meets_every_quorum_of_either() {
    for [before, after] in changes() {
        let both = Quorum::of_both(before, after);
        for list in [before, after] {
            let one = Quorum::of_both(list, list);
            let all = before.or(after).len();
            for nodes in sets(all).filter(|nodes| both.is_met_by(*nodes)) {
                assert!(one.is_met_by(nodes));
                assert!(!one.is_met_by(list.without(nodes)), "{before:?} {after:?} {nodes:?}");
            }
        }
    }
}

#[test]
fn a_quorum_is_met_at_the_first_that_makes_it_one() {
    let quorum = Quorum::of_both(
        [0, 1, 2].map(node).into_iter().collect(),
        [2, 3, 4].map(node).into_iter().collect(),
    );
    let coming = |nodes: &[usize]| {
        nodes.iter().copied().map(|index| (index, node(index))).collect::<Vec<_>>()
    };
    assert_eq!(quorum.met_at(NodeSet::NONE, &coming(&[0, 1, 3, 4, 2])), Some(4));
    assert_eq!(quorum.met_at(NodeSet::NONE, &coming(&[2, 0, 3, 1])), Some(3));
    assert_eq!(quorum.met_at(NodeSet::NONE, &coming(&[0, 1, 2])), None);
    assert_eq!(quorum.met_at(NodeSet::below(2), &coming(&[0, 2, 4])), Some(4));
}

/// A slot that a quorum took is the counted one, though another slot has as many nodes.
#[test]
fn the_slot_of_a_quorum_of_both_lists_is_counted_before_a_lower_one_with_as_many_nodes() {
    let quorum = Quorum::of_both(
        [0, 1, 2].map(node).into_iter().collect(),
        [0, 1, 3].map(node).into_iter().collect(),
    );
    let slots = Slots::new(b"", "api", 4).unwrap();
    for order in [[0, 1, 2, 3], [2, 3, 0, 1], [0, 2, 1, 3], [3, 0, 2, 1]] {
        let spec = RoundSpec::new(slots.clone(), owner(), TTL);
        let mut round = Round::acquire(quorum, spec, Timestamp::ORIGIN);
        while round.poll_command().is_some() {}
        for index in order {
            let slot = if index < 2 { 3 } else { 0 };
            let granted = Granted::at(FencingToken::new(1)).in_slot(slot);
            round.handle_reply(node(index), Ok(Reply::Granted(granted)), at(1));
        }
        assert_eq!((round.verdict(), round.slot()), (Verdict::Won, Some(3)), "{order:?}");
    }
}

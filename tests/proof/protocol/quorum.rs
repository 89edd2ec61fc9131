//! Quorums, from golden text: one case per line in `testdata/quorum.txt`.
//!
//! Goal: anybody can check the table by eye. Method: every line is given to `Quorum::verdict` as a count
//! and to a `Round` reply by reply, and both must say what the line says.

use std::fmt::Write as _;

use quorlock_core::{Quorum, Verdict};

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
        let granted = replies.iter().flatten().filter(|reply| **reply == GRANTED).count();
        let refused = replies.iter().flatten().count() - granted;
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
    for nodes in 1..=1000 {
        let quorum = Quorum::of(nodes);
        assert!(2 * quorum.needed() > nodes, "{nodes}");
        assert!(2 * (quorum.needed() - 1) <= nodes, "not the smallest: {nodes}");
        assert_eq!(quorum.needed() + quorum.spare(), nodes);
    }
}

#[test]
fn a_count_is_never_won_and_lost_and_is_open_only_while_both_are_possible() {
    for nodes in 1..=33usize {
        let quorum = Quorum::of(nodes);
        for granted in 0..=nodes {
            for refused in 0..=nodes - granted {
                let can_win = nodes - refused >= quorum.needed();
                let expected = match (granted >= quorum.needed(), can_win) {
                    (true, _) => Verdict::Won,
                    (false, true) => Verdict::Pending,
                    (false, false) => Verdict::Lost,
                };
                assert_eq!(quorum.verdict(granted, refused), expected);
            }
        }
    }
}

//! Every order of every kind of reply, for one to four nodes: a small exhaustive exploration.
//!
//! Goal: no order of events, however odd, takes a round out of P1 to P6. Method: breadth first over the
//! pairs of a round and its model; each input is tried in every state, and states are told apart by
//! `Hash` and `Eq`, which is what they are derived for. Every step asserts (`model.rs`).

use std::collections::{HashSet, VecDeque};

use quorlock_core::{RoundSpec, Verdict};

use super::{
    model::{Answer, Input, Pair},
    *,
};

struct Explored {
    states: usize,
    steps: usize,
    won: usize,
    lost: usize,
}

fn explore(nodes: usize) -> Explored {
    let inputs = || {
        let replies =
            (0..=nodes).flat_map(|node| Answer::ALL.map(|answer| Input::Reply(node, answer)));
        replies.chain([Input::Timeout, Input::Abandon])
    };
    let first = Pair::begin(nodes, RoundSpec::new(resource(), owner(), TTL));
    // A state knows whether the deadline has passed: time never goes back.
    let first = (first, false);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = VecDeque::from([first]);
    let mut explored = Explored { states: 1, steps: 0, won: 0, lost: 0 };
    while let Some((pair, late)) = open.pop_front() {
        for now_late in [late, true] {
            let now = if now_late { at(9_898) } else { at(9_897) };
            for input in inputs() {
                let mut next = pair.clone();
                next.step(input, now);
                explored.steps += 1;
                let next = (next, now_late);
                if seen.insert(next.clone()) {
                    explored.states += 1;
                    match next.0.round.verdict() {
                        Verdict::Won => explored.won += 1,
                        Verdict::Lost => explored.lost += 1,
                        Verdict::Pending => {}
                    }
                    open.push_back(next);
                }
            }
        }
    }
    explored
}

#[test]
fn every_order_of_every_reply_keeps_the_invariants() {
    for (nodes, at_least) in [(1, 10), (2, 60), (3, 400), (4, 2_000)] {
        let Explored { states, steps, won, lost } = explore(nodes);
        println!("nodes={nodes} states={states} steps={steps} won={won} lost={lost}");
        assert!(states >= at_least, "too few states were reached: {states}");
        assert!(won > 0 && lost > won, "an exploration that never wins or never loses");
    }
}

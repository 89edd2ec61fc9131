//! A reference model of one acquire round: the invariants P1 to P6, written down a second time.
//!
//! Goal: an oracle that shares no code and no shape with `core/src/round.rs`. Method: it keeps the raw
//! list of what happened and recounts it from scratch at every step, which is slow and hard to get wrong.

use quorlock_core::{Command, NodeId, Quorum, Round, RoundSpec, Verdict};

use super::*;

/// One input of a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Input {
    /// A node, which need not exist, answers.
    Reply(usize, Answer),
    /// The node timeout passes.
    Timeout,
    /// The caller goes away.
    Abandon,
}

/// `Reply`, small enough to be copied and enumerated.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Answer {
    Granted,
    Denied,
    Unknown,
    NotSent,
}

impl Answer {
    pub(crate) const ALL: [Self; 4] = [Self::Granted, Self::Denied, Self::Unknown, Self::NotSent];

    pub(crate) fn reply(self) -> Answered {
        match self {
            Self::Granted => GRANTED,
            Self::Denied => denied(),
            Self::Unknown => UNKNOWN,
            Self::NotSent => NOT_SENT,
        }
    }
}

/// What the model says of a round so far.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Model {
    nodes: usize,
    /// The first answer of each node.
    answers: Vec<Option<Answer>>,
    settled: Option<Verdict>,
}

impl Model {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, answers: vec![None; nodes], settled: None }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.settled.unwrap_or(Verdict::Pending)
    }

    /// Takes an input and returns the nodes that must now be sent a release. `in_time` says whether a win
    /// at this moment has enough validity left.
    pub(crate) fn take(&mut self, input: Input, in_time: bool) -> Vec<usize> {
        match input {
            Input::Reply(node, answer) => self.answer(node, answer, in_time),
            Input::Timeout => {
                let all = 0..self.nodes;
                all.flat_map(|node| self.answer(node, Answer::Unknown, in_time)).collect()
            }
            Input::Abandon if self.settled.is_none() => self.lose(),
            Input::Abandon => Vec::new(),
        }
    }

    fn answer(&mut self, node: usize, answer: Answer, in_time: bool) -> Vec<usize> {
        if node >= self.nodes || self.answers[node].is_some() {
            return Vec::new();
        }
        self.answers[node] = Some(answer);
        match self.settled {
            None => self.recount(in_time),
            Some(Verdict::Lost) if matches!(answer, Answer::Unknown | Answer::Granted) => {
                vec![node]
            }
            Some(_) => Vec::new(),
        }
    }

    /// A majority is more than half. It is lost when even a grant of every open node would not make one.
    fn recount(&mut self, in_time: bool) -> Vec<usize> {
        let grants = self.answers.iter().filter(|answer| **answer == Some(Answer::Granted)).count();
        let open = self.answers.iter().filter(|answer| answer.is_none()).count();
        if 2 * grants > self.nodes && in_time {
            self.settled = Some(Verdict::Won);
            Vec::new()
        } else if 2 * grants > self.nodes || 2 * (grants + open) <= self.nodes {
            self.lose()
        } else {
            Vec::new()
        }
    }

    fn lose(&mut self) -> Vec<usize> {
        self.settled = Some(Verdict::Lost);
        let nothing_there = [Some(Answer::Denied), Some(Answer::NotSent)];
        (0..self.nodes).filter(|node| !nothing_there.contains(&self.answers[*node])).collect()
    }
}

/// A round and the model of it, side by side.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Pair {
    pub(crate) round: Round,
    pub(crate) model: Model,
}

impl Pair {
    /// A round whose acquires have been handed out, each node once and in order (P6).
    pub(crate) fn begin(nodes: usize, spec: RoundSpec) -> Self {
        let mut round = Round::acquire(Quorum::of(nodes), spec, start());
        let asked: Vec<NodeId> = drain(&mut round)
            .into_iter()
            .map(|(node, command)| {
                assert!(matches!(command, Command::Acquire { .. }), "P6: {command:?}");
                node
            })
            .collect();
        assert_eq!(asked, (0..nodes).map(node).collect::<Vec<_>>(), "P6: each node once");
        Self { round, model: Model::new(nodes) }
    }

    /// Gives both the same input at `now`, and compares everything that can be seen.
    pub(crate) fn step(&mut self, input: Input, now: Timestamp) {
        let before = self.round.verdict();
        match input {
            Input::Reply(index, answer) => {
                self.round.handle_reply(node(index), answer.reply(), now);
            }
            Input::Timeout => self.round.handle_timeout(now),
            Input::Abandon => self.round.handle_abandoned(),
        }
        let spec = self.round.spec();
        let left = self.round.deadline().since_origin().checked_sub(now.since_origin());
        let in_time = left.is_some_and(|left| left > Duration::ZERO && left >= spec.min_validity);
        let expected: Vec<_> = self
            .model
            .take(input, in_time)
            .into_iter()
            .map(|index| {
                let (target, owner) = (spec.target.clone(), spec.owner);
                (node(index), Command::Release { target, owner, keep: None })
            })
            .collect();

        let after = self.round.verdict();
        assert!(before == Verdict::Pending || before == after, "P1, P5: the verdict changed");
        assert_eq!(after, self.model.verdict(), "P1: not at the earliest reply that settles it");
        if before == Verdict::Pending && after == Verdict::Won {
            assert!(2 * self.round.granted().len() > self.model.nodes, "P2: won without a quorum");
            assert!(in_time, "P3: won without validity");
        }
        assert_eq!(after == Verdict::Lost, self.round.loss().is_some());
        let commands = drain(&mut self.round);
        assert_eq!(commands, expected, "P4, P5, P6: not the releases that are due");
    }
}

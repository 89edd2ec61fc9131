//! Every order of every kind of reply to a round with a fencing token, for one to three nodes, beside a model.
//!
//! Goal: the token is chosen once, at the first quorum of grants; a node's vote is a counter that is exactly the
//! token, or a confirmation that it was asked for after its grant had been heard; only a quorum of votes wins.
//! Method: the model keeps what each node has said, word for word, and counts from scratch at every step.

use std::collections::{HashSet, VecDeque};

use quorlock_core::{FencingToken, RoundSpec, Verdict};

use super::*;

/// What a node may say.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Said {
    Granted(Option<u64>),
    Denied,
    Unknown,
    NotSent,
}

const SAYINGS: [Said; 6] = [
    Said::Granted(Some(7)),
    Said::Granted(Some(8)),
    Said::Granted(None),
    Said::Denied,
    Said::Unknown,
    Said::NotSent,
];

impl Said {
    fn reply(self) -> Answered {
        match self {
            Self::Granted(counter) => Ok(Reply::Granted(counter.map(FencingToken::new).into())),
            Self::Denied => denied(),
            Self::Unknown => UNKNOWN,
            Self::NotSent => NOT_SENT,
        }
    }
}

/// What each node has said to the acquire, and to the confirm behind it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Model {
    acquire: Vec<Option<Said>>,
    confirm: Vec<Option<Said>>,
    token: Option<u64>,
    verdict: Verdict,
}

/// What the model wants sent.
type Sent = (Vec<usize>, Vec<usize>);

impl Model {
    fn new(nodes: usize) -> Self {
        let none = vec![None; nodes];
        Self { acquire: none.clone(), confirm: none, token: None, verdict: Verdict::Pending }
    }

    fn nodes(&self) -> usize {
        self.acquire.len()
    }

    fn counter(&self, node: usize) -> Option<Option<u64>> {
        match self.acquire[node] {
            Some(Said::Granted(counter)) => Some(counter),
            _ => None,
        }
    }

    /// Whether a confirm is due there, or was.
    fn is_behind(&self, node: usize) -> bool {
        matches!((self.counter(node), self.token), (Some(Some(counter)), Some(token)) if counter < token)
    }

    /// Takes what a node says. Returns where to confirm and where to release.
    fn hear(&mut self, node: usize, said: Said, in_time: bool) -> Sent {
        let behind = |model: &Self| -> Vec<usize> {
            (0..model.nodes()).filter(|node| model.is_behind(*node)).collect()
        };
        let asked_before = behind(self);
        if node >= self.nodes() {
            return Sent::default();
        }
        if self.acquire[node].is_none() {
            self.acquire[node] = Some(said);
            if self.verdict == Verdict::Lost {
                let stands = matches!(said, Said::Granted(_) | Said::Unknown);
                return (vec![], if stands { vec![node] } else { vec![] });
            }
        } else if asked_before.contains(&node) && self.confirm[node].is_none() {
            self.confirm[node] = Some(said);
        } else {
            return Sent::default();
        }
        if self.verdict != Verdict::Pending {
            return Sent::default();
        }
        let grants: Vec<Option<u64>> =
            (0..self.nodes()).filter_map(|node| self.counter(node)).collect();
        if self.token.is_none() && 2 * grants.len() > self.nodes() {
            self.token = grants.into_iter().flatten().max();
        }
        let confirms =
            behind(self).into_iter().filter(|node| !asked_before.contains(node)).collect();
        let lost = self.recount(in_time);
        (if lost { vec![] } else { confirms }, if lost { self.may_stand() } else { vec![] })
    }

    /// Counts votes, and those that may still come. True says that it is lost now.
    fn recount(&mut self, in_time: bool) -> bool {
        let enough = |votes: usize| 2 * votes > self.nodes();
        let chosen = enough((0..self.nodes()).filter(|node| self.counter(*node).is_some()).count());
        let vote = |node: usize| match (self.counter(node), self.token) {
            (Some(Some(counter)), Some(token)) if counter == token => Some(true),
            (Some(_), Some(_)) if self.is_behind(node) => {
                self.confirm[node].map(|said| matches!(said, Said::Granted(_)))
            }
            (Some(_), Some(_)) => Some(false),
            // A quorum has granted, and nobody counts.
            (Some(_), None) if chosen => Some(false),
            (Some(_), None) => None,
            (None, _) => self.acquire[node].map(|_| false),
        };
        let votes: Vec<Option<bool>> = (0..self.nodes()).map(vote).collect();
        let yes = votes.iter().filter(|vote| **vote == Some(true)).count();
        let open = votes.iter().filter(|vote| vote.is_none()).count();
        self.verdict = match (enough(yes), enough(yes + open)) {
            (true, _) if in_time => Verdict::Won,
            (false, true) => Verdict::Pending,
            _ => Verdict::Lost,
        };
        self.verdict == Verdict::Lost
    }

    fn may_stand(&self) -> Vec<usize> {
        let nothing = [Some(Said::Denied), Some(Said::NotSent)];
        (0..self.nodes()).filter(|node| !nothing.contains(&self.acquire[*node])).collect()
    }
}

fn begin(nodes: usize) -> (Round, Model) {
    let mut spec = RoundSpec::new(resource(), owner(), TTL);
    spec.hint = Some(7);
    let mut round = Round::acquire(Quorum::of(nodes), spec, start());
    assert_eq!(drain(&mut round).len(), nodes);
    (round, Model::new(nodes))
}

fn step(round: &mut Round, model: &mut Model, index: usize, said: Said, now: Timestamp) {
    round.handle_reply(node(index), said.reply(), now);
    let in_time = now < at(9_898);
    let (confirms, releases) = model.hear(index, said, in_time);
    let sent: Vec<(NodeId, Command)> = drain(round);
    let is_confirm = |command: &Command| matches!(command, Command::Confirm { .. });
    let of = |confirm: bool| -> Vec<usize> {
        let wanted = sent.iter().filter(|(_, command)| is_confirm(command) == confirm);
        wanted.map(|(node, _)| node.index()).collect()
    };
    assert_eq!(
        (of(true), of(false)),
        (confirms, releases),
        "{model:?} after {index} said {said:?}"
    );
    for (_, command) in &sent {
        match command {
            Command::Confirm { token, .. } => assert_eq!(Some(token.get()), model.token),
            other => assert!(matches!(other, Command::Release { .. }), "{other:?}"),
        }
    }
    assert_eq!(round.verdict(), model.verdict, "{model:?} after {index} said {said:?}");
    let won = (model.verdict == Verdict::Won).then_some(model.token).flatten();
    assert_eq!(round.token().map(FencingToken::get), won);
    assert_eq!(won.is_some(), model.verdict == Verdict::Won, "no win without a token");
}

#[test]
fn every_order_of_every_reply_gives_the_token_that_a_quorum_has_voted_for() {
    for (nodes, at_least) in [(1, 10), (2, 100), (3, 2_000)] {
        let first = (begin(nodes), false);
        let (mut seen, mut open) = (HashSet::from([first.clone()]), VecDeque::from([first]));
        let (mut steps, mut won, mut confirmed) = (0, 0, 0);
        while let Some(((round, model), late)) = open.pop_front() {
            for now_late in [late, true] {
                for index in 0..=nodes {
                    for said in SAYINGS {
                        let (mut round, mut model) = (round.clone(), model.clone());
                        let now = if now_late { at(9_898) } else { at(9_897) };
                        step(&mut round, &mut model, index, said, now);
                        steps += 1;
                        let next = ((round, model), now_late);
                        if seen.insert(next.clone()) {
                            let model = &next.0.1;
                            won += usize::from(model.verdict == Verdict::Won);
                            let granted =
                                |said: &Option<Said>| matches!(said, Some(Said::Granted(_)));
                            confirmed += usize::from(
                                model.verdict == Verdict::Won && model.confirm.iter().any(granted),
                            );
                            open.push_back(next);
                        }
                    }
                }
            }
        }
        println!(
            "nodes={nodes} states={} steps={steps} won={won} by confirmation={confirmed}",
            seen.len()
        );
        assert!(seen.len() >= at_least && won > 0, "too few states: {}", seen.len());
        assert!(nodes < 2 || confirmed > 0);
    }
}
